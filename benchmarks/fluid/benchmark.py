"""The fluid model: its accuracy beside a packet-level simulator, and the time of its solutions.

The packet-level runs are files in `tests/data/packet_reference`. Times are the best of `RUNS`, with kernels loaded:
max-min rates, and completion times of equal and of log-normal sizes, exact and with ends within 1 % merged, each on
paths over a random spine per flow (ECMP) and on planned paths.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from heddle.benchmarks.planning.cases import permutation, two_tiers
from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.ground.loads import link_loads, link_places
from heddle.controller.planner.proof.fluid import completion_ns, max_min_rates, planned_rates
from heddle.controller.planner.route import Router
from heddle.controller.planner.warm import warm as warm_planner
from heddle.library.fluid.completion import completion_times, warm
from tests.support.packets.packet_simulator import REFERENCE, Run

SIZES = ((10_240, 64, 1), (32_768, 64, 1), (32_768, 128, 3))
"""Hosts, spines and queue pairs per flow."""
RUNS = 3
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def run(out: TextIO) -> dict[str, object]:
    warm_planner()
    warm()
    return {"packet_level": _beside_packets(out), "times": _times(out)}


def _beside_packets(out: TextIO) -> list[dict[str, Any]]:
    """Compare completion times, flow by flow, with those of the packet-level simulator over the same paths."""
    simulated, found = Run(REFERENCE / "topo.txt"), []
    head = ("control", "paths", "flows", "fluid mean", "max ms", "packets mean", "max ms", "ratio", "corr.")
    print(_line(head), file=out)
    for control in ("dcqcn", "hpcc"):
        for case in ("ecmp", "plan", "incast"):
            row = {"congestion_control": control, "paths": case, **_compared(simulated, f"fct_{control}_{case}.txt")}
            found.append(row)
            print(_line(row.values()), file=out)
    print("ratio: median of packets / fluid; corr.: per flow, if the fluid model's times differ\n", file=out)
    return found


def _line(cells: Iterable[Any]) -> str:
    texts = (f"{cell:.3f}" if isinstance(cell, float) else "-" if cell is None else str(cell) for cell in cells)
    return "".join(f"{cell:>13}" for cell in texts)


def _compared(simulated: Run, name: str) -> dict[str, Any]:
    paths, sizes, starts, measured = zip(*simulated.flows(REFERENCE / name), strict=True)
    places = np.full((len(paths), 4), NO_LINK, dtype=np.int64)
    for row, path in enumerate(paths):
        places[row, : len(path)] = path
    packets, start_ns = np.array(measured, dtype=np.float64), np.array(starts, dtype=np.float64)
    capacity = np.array(simulated.rate_bps, dtype=np.float64)
    fluid = completion_times(places, capacity, np.array(sizes, dtype=np.float64), start_ns=start_ns).completion_ns
    apart = float(np.ptp(fluid)) > 1e-6 * float(fluid.max())
    return {
        "flows": len(paths),
        "fluid_mean_ms": float(fluid.mean()) / 1e6,
        "fluid_max_ms": float(fluid.max()) / 1e6,
        "packets_mean_ms": float(packets.mean()) / 1e6,
        "packets_max_ms": float(packets.max()) / 1e6,
        "median_ratio": float(np.median(packets / fluid)),
        "correlation": float(np.corrcoef(fluid, packets)[0, 1]) if apart else None,
    }


def _times(out: TextIO) -> list[dict[str, Any]]:
    found = []
    head = ("paths", "flows", "links", "rates ms", "plan ms", "iteration ms", "equal ms", "mixed ms", "mixed 1% ms")
    print(_line(head), file=out)
    for hosts, spines, qps in SIZES:
        fabric = two_tiers(hosts, spines)
        topology = topology_of(fabric)
        flows = expand(topology, (permutation(fabric, qps, np.random.default_rng(1)),))
        for paths, hops in (("ecmp", _hashed(topology, flows)), ("planned", _planned(topology, flows))):
            row = {"paths": paths, "flows": len(flows), "links": len(topology.capacity)}
            row |= _solved(topology, flows, hops)
            found.append(row)
            print(_line(row.values()), file=out)
    print("rates: of flows limited by links only; plan: a plan's rates; iteration: its predicted time;", file=out)
    print("equal, mixed: completion times of equal and of log-normal sizes", file=out)
    return found


def _solved(topology: Topology, flows: Flows, hops: Ints) -> dict[str, Any]:
    places, capacity = link_places(topology, flows, hops), topology.capacity.astype(np.float64)
    loads, line_rate = link_loads(topology, flows, hops), capacity[places].min(axis=1)
    rates = planned_rates(topology, flows, hops, loads)
    equal = np.full(len(flows), 1e7)
    mixed = np.random.default_rng(1).lognormal(15.0, 1.0, len(flows))
    return {
        "rates_ms": _best_ms(lambda: max_min_rates(places, capacity, line_rate)),
        "planned_rates_ms": _best_ms(lambda: planned_rates(topology, flows, hops, loads)),
        "iteration_ms": _best_ms(lambda: completion_ns(flows, rates)),
        "equal_ms": _best_ms(lambda: completion_times(places, capacity, equal)),
        "mixed_ms": _best_ms(lambda: completion_times(places, capacity, mixed)),
        "mixed_merged_ms": _best_ms(lambda: completion_times(places, capacity, mixed, tolerance=0.01)),
    }


def _best_ms(solve: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(RUNS):
        started = time.perf_counter()
        solve()
        best = min(best, time.perf_counter() - started)
    return best * 1e3


def _hashed(topology: Topology, flows: Flows) -> Ints:
    """Return paths over a random spine per flow; one cable connects every leaf and spine."""
    cable = np.full((len(topology.switch_ids),) * 2, NO_LINK, dtype=np.int64)
    cable[topology.lower, topology.upper] = np.arange(topology.cables)
    spine = np.random.default_rng(2).choice(np.unique(topology.upper), len(flows))
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
    apart = source != target
    hops[apart, 0] = cable[source, spine][apart]
    hops[apart, 1] = cable[target, spine][apart] + topology.cables
    return hops


def _planned(topology: Topology, flows: Flows) -> Ints:
    nothing, alone = np.zeros(len(flows), dtype=np.int64), np.full(len(flows), -1, dtype=np.int64)
    router = Router(topology=topology, live=Live.of(topology, Health()))
    return router.route(flows, nothing, [], alone, {})
