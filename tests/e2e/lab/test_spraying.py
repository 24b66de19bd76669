"""Flows of a lab that spray over sets of paths: planned sets have their rates, and a cut costs few packets."""

from collections.abc import Iterator, Mapping

import pytest

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.spraying.figures import PAYLOAD
from heddle.mininet_topos.measure.flow_run import FlowChange, RunResult
from heddle.mininet_topos.routed.lab import RoutedLab
from tests.support.fabrics.path_sets import MODES, four_by_four, links_over, permutation, spines_of
from tests.support.packets.spray_lab import Act, bins_bps, medians, new_sets, of_the_plan, requests, run

pytestmark = pytest.mark.e2e

SECONDS, BIG = 4.0, 100_000_000
SEEDS = (1, 2, 3)
CUT_S, NEW_RATES_S = 2.0, 0.15
CUT = ("leaf1", 2)


@pytest.fixture(scope="module")
def lab() -> Iterator[RoutedLab]:
    with RoutedLab(four_by_four()) as lab:
        yield lab


def cut_cable(fabric: Fabric) -> str:
    (found,) = (cable.id for cable in fabric.cables if (cable.lower.switch, cable.upper.switch) == (CUT[0], "spine3"))
    return found


def figures(name: str, result: RunResult, plan: list[float]) -> None:
    resent = sum(flow.retransmitted_packets for flow in result.flows)
    lost = sum(flow.lost_packets for flow in result.flows)
    changes = [(round(one.at_ns / 1e6), one.udp_source_port & 0xFF, one.state) for flow in result.flows
               for one in flow.path_changes]  # fmt: skip
    late_ms = max(nic.max_late_ns for nic in result.nics.values()) / 1e6
    print(
        f"FIGURES {name}: slowest flow {min(plan):.3f} of its plan, mean {sum(plan) / len(plan):.3f}, {resent} resent, "
        f"{lost} lost, {sum(result.queue_drops.values())} dropped by queues, latest NIC {late_ms:.0f} ms; "
        f"{[round(bin_bps / 1e6) for bin_bps in bins_bps(result)]}; {sorted(changes)[:20]}"
    )


@pytest.mark.alone
def test_each_packet_takes_the_path_that_it_names_and_a_planned_set_has_its_rate(lab):
    flows = permutation(lab.fabric, 1)
    spines = spines_of(lab.fabric, flows, "planned 4", 1)
    result = run(lab, requests(lab.fabric, flows, spines, BIG), SECONDS / 2)
    plan = of_the_plan(flows, result, SECONDS / 2)
    figures("planned 4", result, plan)
    assert not result.queue_drops
    assert min(medians(flows, result, SECONDS / 2)) >= 0.95
    for flow, done in zip(flows, result.flows, strict=True):
        for path in done.request.paths:
            stream = lab.stream_of(done.request)._replace(udp_source_port=path.udp_source_port)
            links = links_over(lab.fabric, flow.src_nic, flow.dst_nic, path.udp_source_port & 0xFF)
            between = {link for link in result.capture.links_of(stream) if link in lab.fabric.cable_by_link}
            assert between == set(links)


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", MODES)
def test_planned_sets_have_their_rates_and_others_do_not(lab, mode, seed):
    flows = permutation(lab.fabric, seed)
    spines = spines_of(lab.fabric, flows, mode, seed)
    result = run(lab, requests(lab.fabric, flows, spines, BIG), SECONDS)
    plan = of_the_plan(flows, result, SECONDS)
    figures(f"{mode}, seed {seed}", result, plan)
    if mode.startswith("planned"):
        assert min(medians(flows, result, SECONDS)) >= 0.95
    elif mode != "random 4":
        assert min(plan) < 0.8


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_under_full_load_costs_few_packets_and_new_rates_hold_the_bound(lab, seed):
    fabric, flows = lab.fabric, permutation(lab.fabric, seed)
    spines = spines_of(fabric, flows, "planned 4", seed)

    def cut() -> Mapping[str, FlowChange]:
        lab.net.set_cable(cut_cable(fabric), up=False)
        return {}

    def publish() -> Mapping[str, FlowChange]:
        return new_sets(fabric, flows, spines, [CUT])

    acts = [Act(CUT_S, cut), Act(CUT_S + NEW_RATES_S, publish)]
    try:
        result = run(lab, requests(fabric, flows, spines, BIG), SECONDS, acts)
    finally:
        lab.net.set_cable(cut_cable(fabric), up=True)
    figures(f"cut, seed {seed}", result, of_the_plan(flows, result, SECONDS))
    bound_bps = sum(flow.rate_bps for flow in flows) * PAYLOAD * (16 - 2) / 16
    assert sum(flow.lost_packets for flow in result.flows) < 50
    assert {one.udp_source_port & 0xFF for flow in result.flows for one in flow.path_changes} == {CUT[1]}
    assert min(bins_bps(result)[int((CUT_S + NEW_RATES_S) / 0.2) + 1 : -1]) >= 0.95 * bound_bps
