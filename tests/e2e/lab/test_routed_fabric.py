"""Planned paths on Linux routers without any rule: ports that probes find lead every packet over the planned cables."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.plan import FlowPlan, Plan
from heddle.controller.planner.solve import solve
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FlowRequest, FlowResult, RunResult
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.routed.routes import Routing
from heddle.probing.search import BUDGET_FACTOR
from tests.support.packets.probed_ports import searched

pytestmark = pytest.mark.e2e

SIZE_BYTES, TIMEOUT_S = 1_200_000, 20
GOODPUT = 0.95
PERIODS_PER_WINDOW = 4
SHAPES = {
    "2 tiers": ("kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 4", 4),
    "parallel cables": ("kind: spine_leaf, spines: 2, leaves: 3, hosts_per_leaf: 4, links_per_spine: 2", 4),
    "3 tiers": ("kind: clos3, pods: 2, aggs_per_pod: 2, spines: 4, leaves: 2, hosts_per_leaf: 2", 4),
}


@pytest.fixture
def fabric(request, tmp_path) -> Fabric:
    path = tmp_path / "fabric.yaml"
    path.write_text(f"version: 1\nname: routed\ngenerate: {{{SHAPES[request.param][0]}, gbps: 0.01}}\n")
    return load_fabric(path)


def planned(fabric: Fabric, down: Sequence[str] = (), share: float = 1.0) -> list[FlowPlan]:
    """Return the planned flows of a permutation: every NIC sends a share of its rate to one of another leaf."""
    count = len(fabric.nics)
    flows = tuple(
        FlowDemand(src_rank=rank, dst_rank=(rank + count // 2) % count, rate_bps=int(share * nic.capacity_bps))
        for rank, nic in enumerate(fabric.nics)
    )
    sent = Collective(kind=CollectiveKind.CUSTOM, size_bytes=SIZE_BYTES, flows=flows)
    job = JobRequest(job_id="routed", ranks=tuple(nic.id for nic in fabric.nics), collectives=(sent,))
    plan = solve(fabric, (job,), health=Health(down_cables=frozenset(down)))
    assert isinstance(plan, Plan)
    return list(plan.jobs[0].flows)


def sent(lab: RoutedLab, flows: Sequence[Any], ports: dict[str, int]) -> RunResult:
    """Send every flow from its port at its planned rate."""
    requests = [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, rate_bps=flow.rate_bps,
            size_bytes=SIZE_BYTES, udp_source_port=ports[flow.flow_id], reverse_udp_source_port=50_000 + number,
        )
        for number, flow in enumerate(flows)
    ]  # fmt: skip
    return lab.run_flows(requests, TIMEOUT_S)


def assert_on_planned_cables(lab: RoutedLab, flows: Sequence[Any], result: RunResult) -> None:
    for flow, done in zip(flows, result.flows, strict=True):
        seen = result.capture.links_of(lab.stream_of(done.request))
        assert set(seen) == set(flow.links)
        assert len(set(seen.values())) == 1


def slowest(flows: Sequence[Any], result: RunResult) -> float:
    """Return the goodput of the slowest flow over its transfer, as a part of its planned rate."""
    return min(
        done.goodput_bps(result.duration_ns) / flow.rate_bps for flow, done in zip(flows, result.flows, strict=True)
    )


def slowest_median(flows: Sequence[Any], result: RunResult) -> float:
    """Return the median goodput of the slowest flow, over windows of a few periods, as a part of its planned rate.

    A machine that stands still for 50 ms slows a transfer of 1 s by 5 %, but few of its windows. A flow that shares a
    cable has half its rate in most of them. One period is too short: its goodput grows in steps of 8 packets, 13 %.
    """
    window_s = PERIODS_PER_WINDOW * GOODPUT_PERIOD_NS / 1e9

    def goodput_bps(done: FlowResult) -> float:
        periods = done.goodput_bytes
        starts = range(len(periods) - PERIODS_PER_WINDOW + 1)
        return median(sum(periods[start : start + PERIODS_PER_WINDOW]) for start in starts) * 8 / window_s

    return min(goodput_bps(done) / flow.rate_bps for flow, done in zip(flows, result.flows, strict=True))


@pytest.mark.alone  # it asks for the planned goodput
@pytest.mark.parametrize(
    "fabric", ["2 tiers", *(pytest.param(name, marks=pytest.mark.soak) for name in ("parallel cables", "3 tiers"))],
    indirect=True,
)  # fmt: skip
def test_every_packet_of_a_planned_permutation_takes_its_planned_cables(fabric, request):
    ways = SHAPES[request.node.callspec.params["fabric"]][1]
    flows = planned(fabric)
    with RoutedLab(fabric) as lab:
        search, probes = searched(lab, flows, ways)
        result = sent(lab, flows, search.ports)
        chance = sent(lab, flows, {flow.flow_id: flow.udp_source_port for flow in flows})
        print(
            f"FIGURES {probes / len(flows):.1f} probes a flow of {ways} paths; goodput of the slowest flow "
            f"{slowest(flows, result):.3f} of its planned rate, by chance {slowest(flows, chance):.3f}"
        )
        assert not search.missing
        assert probes <= len(flows) * BUDGET_FACTOR * ways
        assert result.completed
        assert result.valid, result.integrity
        assert not result.queue_drops
        assert_on_planned_cables(lab, flows, result)
        assert slowest_median(flows, result) >= GOODPUT


@pytest.mark.parametrize("fabric", ["2 tiers"], indirect=True)
@pytest.mark.parametrize(
    "routing", [Routing.RESILIENT, *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("route", "group"))]
)
def test_after_a_cut_new_ports_lead_flows_around_the_cable(fabric, routing):
    cut = fabric.cables[0]
    flows = planned(fabric, [cut.id], share=0.5)
    with RoutedLab(fabric, routing=Routing(routing)) as lab:
        lab.net.set_cable(cut.id, up=False)
        lab.routers.reroute([cut.id])
        search, _ = searched(lab, flows, 4)
        result = sent(lab, flows, search.ports)
        assert not search.missing
        assert result.completed
        assert_on_planned_cables(lab, flows, result)


@pytest.mark.parametrize("fabric", ["3 tiers"], indirect=True)
def test_with_one_hash_seed_for_all_routers_some_paths_have_no_port(fabric):
    with RoutedLab(fabric, seeded=False) as lab:
        flows = planned(fabric)
        search, _ = searched(lab, flows, 4)
        reached = {flow.links[2] for flow in flows if flow.flow_id in search.ports}
        assert search.missing
        assert reached
