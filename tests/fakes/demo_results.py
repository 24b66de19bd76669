"""Demo results as an idle machine would produce them, computed instead of measured."""

import functools
import itertools
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.mininet_topos.demo.results.values import (
    DemoFlow,
    DemoResult,
    DemoRun,
    FabricSketch,
    LinkResult,
    Prediction,
    QueuePairResult,
)
from heddle.mininet_topos.measure.flow_run import Integrity
from heddle.mininet_topos.traffic.maxmin import max_min_shares, utilisation
from heddle.mininet_topos.traffic.workloads import Workload, build_workloads

RATE_BPS = 20_000_000


def spine_leaf(spines: int = 2, leaves: int = 4, hosts_per_leaf: int = 2, nics_per_host: int = 1) -> Fabric:
    switches = [Switch(id=f"spine{s}", role=Role.SPINE, datapath_id=s) for s in range(1, spines + 1)]
    switches += [Switch(id=f"leaf{n}", role=Role.LEAF, datapath_id=spines + n) for n in range(1, leaves + 1)]
    cables = tuple(
        Cable(lower=PortRef(f"leaf{n}", s), upper=PortRef(f"spine{s}", n), capacity_bps=RATE_BPS)
        for n in range(1, leaves + 1)
        for s in range(1, spines + 1)
    )
    nics = []
    for index in range(leaves * hosts_per_leaf * nics_per_host):
        leaf, slot = divmod(index, hosts_per_leaf * nics_per_host)
        host, number = divmod(index, nics_per_host)
        nics.append(
            Nic(
                id=f"h{host + 1}-n{number}",
                host=f"h{host + 1}",
                ip=0x0A000001 + index,
                mac=0x020000000001 + index,
                port=PortRef(f"leaf{leaf + 1}", spines + 1 + slot),
                capacity_bps=RATE_BPS,
            )
        )
    return Fabric(name="test", switches=tuple(switches), cables=cables, nics=tuple(nics))


def path(fabric: Fabric, src: str, dst: str, spine: int) -> tuple[str, ...]:
    a, b = fabric.nic_by_id[src], fabric.nic_by_id[dst]
    if a.port.switch == b.port.switch:
        return (a.up_link, b.down_link)
    up = fabric.up_choices[a.port.switch][spine]
    down = fabric.up_choices[b.port.switch][spine]
    return (a.up_link, up.up_link, down.down_link, b.down_link)


@functools.cache
def demo_result(fabric: Fabric | None = None, seeds: tuple[int, ...] = (1, 2, 3)) -> DemoResult:
    """Return the result of a demo, computed once: many files need it when they are imported, by each worker."""
    fabric = fabric or spine_leaf()
    workloads = build_workloads(fabric, ("permutation", "ring", "all-to-all"), seeds, 2.5)
    runs = [run(fabric, workload, mode) for mode in ("ecmp", "e-ecmp", "planned") for workload in workloads]
    return DemoResult(
        started_unix_ms=1_795_000_000_000,
        elapsed_ns=101_000_000_000,
        parameters={"line_rate_bps": RATE_BPS, "seeds": list(seeds), "seconds": 2.5, "headroom": 0.985},
        machine={"cpus": 2, "kernel": "6.1.0", "open_vswitch": "3.1.0"},
        fabric=FabricSketch(
            name=fabric.name,
            switches=tuple((switch.id, switch.role.tier) for switch in fabric.switches),
            cables=tuple((str(cable.lower), str(cable.upper)) for cable in fabric.cables),
            nics=tuple((nic.id, nic.host, str(nic.port)) for nic in fabric.nics),
        ),
        runs=tuple(runs),
        notes=("Pacing: every flow at its max-min share.",),
    )


def run(fabric: Fabric, workload: Workload, mode: str) -> DemoRun:
    pairs = 4 if mode == "e-ecmp" else 1
    choices = _choices(fabric, workload, mode, pairs)
    paths = [
        path(fabric, flow.src_nic, flow.dst_nic, spine)
        for flow, of in zip(workload.flows, choices, strict=True)
        for spine in of
    ]
    capacity = {link: RATE_BPS for of in paths for link in of}
    shares = max_min_shares(paths, capacity)
    flows = tuple(_flow(workload, index, paths, shares, pairs) for index in range(len(workload.flows)))
    demand = Fraction(flows[0].demand_bps, pairs)
    offered = utilisation(paths, [demand] * len(paths), capacity)
    packets = sum(pair.tx_packets for flow in flows for pair in flow.queue_pairs)
    completion_ns = max(flow.duration_ns for flow in flows)
    return DemoRun(
        workload=workload.name,
        kind=workload.kind,
        seed=workload.seed,
        mode=mode,
        attempts=1,
        flows=flows,
        links=_links(paths, offered, utilisation(paths, shares, capacity)),
        predicted=Prediction(
            source="certificate" if mode == "planned" else "max-min",
            max_link_utilisation=max(offered.values()),
            completion_ns=round(completion_ns * 0.97),
            sum_goodput_bps=float(sum(shares)),
            worst_goodput_bps=float(min(shares)),
        ),
        integrity=Integrity(tx_packets=packets, rx_packets=packets, dropped_packets=0),
        completion_ns=completion_ns,
        certificate=_certificate(max(offered.values())) if mode == "planned" else None,
    )


def _choices(fabric: Fabric, workload: Workload, mode: str, pairs: int) -> list[list[int]]:
    """Return a spine for each queue pair of each flow."""
    spines = len(next(iter(fabric.up_choices[leaf] for leaf in fabric.leaves)))
    if mode == "planned":
        return [[spine] for spine in _best(fabric, workload, spines)]
    draw = random.Random(f"{workload.name}/{mode}")
    return [[draw.randrange(spines) for _ in range(pairs)] for _ in workload.flows]


def _flow(workload, index, paths, shares: list[Fraction], pairs: int) -> DemoFlow:
    flow = workload.flows[index]
    mine = [_pair(workload, index, flow, k, paths, shares, pairs) for k in range(pairs * index, pairs * index + pairs)]
    duration = max(pair.duration_ns for pair in mine)
    return DemoFlow(
        src_rank=flow.src_rank,
        dst_rank=flow.dst_rank,
        src_nic=flow.src_nic,
        dst_nic=flow.dst_nic,
        payload_bytes=flow.size_bytes,
        duration_ns=duration,
        goodput_bps=flow.size_bytes * 8e9 / duration,
        demand_bps=RATE_BPS // (7 if workload.kind == "all-to-all" else 1),
        queue_pairs=tuple(mine),
    )


def _links(paths, offered: Mapping[str, float], loads: Mapping[str, float]) -> tuple[LinkResult, ...]:
    return tuple(
        LinkResult(
            id=link,
            capacity_bps=RATE_BPS,
            packets=100,
            wire_bytes=415400,
            queue_pairs=sum(link in of for of in paths),
            offered_utilisation=offered[link],
            predicted_utilisation=load,
            measured_utilisation=load * 0.984,
        )
        for link, load in sorted(loads.items())
    )


def _certificate(max_link_utilisation: float) -> dict[str, object]:
    return {
        "max_link_utilisation": max_link_utilisation,
        "lower_bound": 1.0,
        "lower_bound_kind": "cut",
        "ecmp_max_link_utilisation": 2.0,
        "e_ecmp_max_link_utilisation": 1.5,
        "deadlock_free": True,
        "solve_ns": 1_200_000,
        "install_ns": 3_400_000,
    }


@functools.cache
def _best(fabric: Fabric, workload: Workload, spines: int) -> list[int]:
    """Return a spine for each flow that maximises the worst flow's share: a minimal planner for the report's tests."""
    flows = workload.flows
    if len(flows) <= 8:
        # The fullest link bounds the worst flow: links have one capacity, and all flows grow together.
        every = map(list, itertools.product(range(spines), repeat=len(flows)))
        return min(every, key=lambda choices: _fullest(_paths(fabric, workload, choices)))
    best = [k % spines for k in range(len(flows))]
    for _ in range(4):
        before = best
        for k in range(len(flows)):
            options = [[*best[:k], spine, *best[k + 1 :]] for spine in range(spines)]
            best = max(options, key=lambda choices: sorted(_shares(fabric, workload, choices)))
        if best == before:
            break
    return best


def _fullest(paths: list[tuple[str, ...]]) -> int:
    return max(Counter(link for of in paths for link in of).values())


def _paths(fabric: Fabric, workload: Workload, choices: list[int]) -> list[tuple[str, ...]]:
    return [path(fabric, f.src_nic, f.dst_nic, s) for f, s in zip(workload.flows, choices, strict=True)]


def _shares(fabric: Fabric, workload: Workload, choices: list[int]) -> list[Fraction]:
    paths = _paths(fabric, workload, choices)
    return max_min_shares(paths, {link: RATE_BPS for of in paths for link in of})


def _pair(workload, index, flow, k, paths, shares: list[Fraction], pairs: int) -> QueuePairResult:
    payload = flow.size_bytes // pairs
    packets = payload // 4096
    return QueuePairResult(
        flow_id=f"{workload.job.job_id}/0/{flow.src_rank}-{flow.dst_rank}/{k - pairs * index}",
        udp_source_port=49152 + k,
        reverse_udp_source_port=65535 - k,
        planned_rate_bps=None,
        links=paths[k],
        share_bps=int(shares[k]),
        pace_bps=int(shares[k] * Fraction(985, 1000)),
        payload_bytes=payload,
        tx_packets=packets,
        rx_packets=packets,
        retransmitted_packets=0,
        duration_ns=int(payload * 8 * 4154 / 4096 / (shares[k] * Fraction(985, 1000)) * 10**9),
        finished=True,
    )


def find(result: DemoResult, workload: str, mode: str) -> DemoRun:
    """Return the run of a workload under a mode; fail if there is none."""
    found = result.run(workload, mode)
    assert found is not None
    return found


def with_invalid_run(result: DemoResult, workload: str, mode: str, problem: str) -> DemoResult:
    """Return the result with one run made invalid."""
    runs = [
        replace(run, integrity=replace(run.integrity, rx_packets=run.integrity.tx_packets - 7, problems=(problem,)))
        if (run.workload, run.mode) == (workload, mode)
        else run
        for run in result.runs
    ]
    return replace(result, runs=tuple(runs))
