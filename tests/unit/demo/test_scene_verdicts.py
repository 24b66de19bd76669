"""Each condition of a scene's verdict fails where what the scene shows is not so."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from heddle.mininet_topos.demo.results.scenes import PERIOD_NS
from heddle.mininet_topos.demo.scenes.arrival import Arrival
from heddle.mininet_topos.demo.scenes.cut import Cut
from heddle.mininet_topos.demo.scenes.hog import Hog
from heddle.mininet_topos.demo.scenes.script import ACT_S, PAYLOAD_PART, SECONDS
from heddle.mininet_topos.demo.scenes.storm import Storm
from heddle.mininet_topos.demo.scenes.verdict import carried_part
from heddle.mininet_topos.measure.flow_run import Capture, FlowMove, FlowRequest, FlowResult
from heddle.mininet_topos.traffic.cast import Cast, Decision, UnfitFabricError, paced
from heddle.mininet_topos.traffic.stage import Played
from heddle.mininet_topos.traffic.workloads import Workload
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.demo_results import path, spine_leaf

FABRIC = spine_leaf()
PERIODS = int(SECONDS * 1e9) // PERIOD_NS
ACT = int(ACT_S * 1e9) // PERIOD_NS


class Stage:
    """A stage on which nothing runs: every flow is planned over the first spine."""

    mode, seconds, longest_s = "planned", SECONDS, SECONDS

    def __init__(self, utilisation: tuple[float, float] = (2.0, 1.0)) -> None:
        self.utilisation = utilisation
        self.lab: Any = SimpleNamespace(path_of=lambda _: self.path, stream_of=lambda _: None)
        self.client = self

    def submit(self, workload: Workload) -> pb.JobPlan:
        return plan(workload, 0, self.utilisation[1])

    def preview(self, job: Any, *, moves: bool = True) -> pb.JobPlan:
        found = pb.JobPlan(job_id=job.job_id)
        found.certificate.max_link_utilisation = self.utilisation[moves]
        return found

    def planned(self, found: pb.JobPlan, start_s: float = 0.0) -> list[FlowRequest]:
        self.path = tuple(found.flows[0].links) if found.flows else ()
        return [
            FlowRequest(
                flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, size_bytes=1, rate_bps=flow.rate_bps,
                udp_source_port=flow.udp_source_port, reverse_udp_source_port=1,
            )
            for flow in found.flows
        ]  # fmt: skip


def plan(workload: Workload, spine: int, utilisation: float = 1.0) -> pb.JobPlan:
    found = pb.JobPlan(job_id=workload.job.job_id)
    found.certificate.max_link_utilisation = utilisation
    for flow in workload.flows:
        found.flows.add(
            flow_id=f"{workload.job.job_id}/0/{flow.src_rank}-{flow.dst_rank}/0", src_nic=flow.src_nic,
            dst_nic=flow.dst_nic, links=path(FABRIC, flow.src_nic, flow.dst_nic, spine), rate_bps=10_000_000,
            udp_source_port=50_000 + spine,
        )  # fmt: skip
    return found


def move(flow_id: str, reason: str, resent: int = 0) -> FlowMove:
    return FlowMove(
        flow_id=flow_id, kind="planned", reason=reason, requested_ns=0, moved_ns=0, old_udp_source_port=50_000,
        new_udp_source_port=50_001, resent_packets=resent,
    )  # fmt: skip


def played(cast: Cast, *decisions: Decision, recovers: bool = True, moves: tuple[FlowMove, ...] = ()) -> Played:
    """Return a run in which every flow sends at its rate, but for 0.2 s after the act, or from there on."""
    flows = []
    for request in cast.requests:
        full = int(request.rate_bps * PACE_PAYLOAD * PERIOD_NS / 8e9)
        goodput = [full] * ACT + [0] * 4 + [full if recovers else 0] * (PERIODS - ACT - 4)
        of_flow = tuple(one for one in moves if one.flow_id == request.flow_id)
        zeros: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
        flows.append(
            FlowResult(
                request=request, first_tx_ns=0, last_rx_ns=0, completed_ns=None, goodput_bytes=tuple(goodput),
                moves=of_flow, **zeros,
            )
        )  # fmt: skip
    result: Any = SimpleNamespace(flows=tuple(flows), moves=moves, capture=Capture())
    led = {request.flow_id: True for request in cast.requests}
    return Played(cast=cast, seconds=SECONDS, result=result, acts=(), decisions=decisions, led=led)


PACE_PAYLOAD = paced(pb.FlowPlan(rate_bps=1_000_000)) / 1e6 * PAYLOAD_PART
COUNTERS = (
    "acked_bytes", "delivered_bytes", "packets", "tx_packets", "rx_packets", "retransmitted_packets", "packet_seq_err",
    "local_ack_timeout_err", "out_of_sequence", "duplicate_request",
)  # fmt: skip


def decision(subject: str, text: str, flows: dict[str, pb.FlowPlan] | None = None) -> Decision:
    return Decision(int((ACT_S + 0.3) * 1e9), subject, text, flows or {})


def cast_of(scene: Any, stage: Any) -> tuple[Any, Cast]:
    return scene, scene.planned(stage)


def holding(scene: Any, found: Played) -> list[bool]:
    return [check.holds for check in scene.checks(found)]


def test_a_cut_holds_if_all_flows_leave_the_cable_and_reach_the_new_rates():
    scene, cast = cast_of(Cut(FABRIC, 1), Stage())
    after = {flow.flow_id: flow for flow in plan(scene._workload, 1).flows}
    moved = decision("demo-cut", "moved", after)
    assert holding(scene, played(cast, moved)) == [True, True, True, True, True]
    assert holding(scene, played(cast)) == [False, True, True, True, True]
    assert holding(scene, played(cast, moved, recovers=False)) == [True, True, False, False, True]
    assert not cast.decided([])
    assert cast.decided([moved])


def test_rules_that_lead_one_flow_elsewhere_are_a_wrong_decision():
    scene, cast = cast_of(Cut(FABRIC, 1), Stage())
    after = {flow.flow_id: flow for flow in plan(scene._workload, 1).flows}
    found = played(cast, decision("demo-cut", "moved", after))
    led = {**found.led, next(iter(after)): False}
    checks = scene.checks(replace(found, led=led))
    assert [(check.holds, check.decision) for check in checks[:2]] == [(True, True), (False, True)]


def test_a_rate_counts_relative_to_what_the_machine_carried_before():
    scene, cast = cast_of(Cut(FABRIC, 1), Stage())
    after = {flow.flow_id: flow for flow in plan(scene._workload, 1).flows}
    found = played(cast, decision("demo-cut", "moved", after))
    assert carried_part(found) == pytest.approx(1.0, abs=0.01)

    def slower(before: float, later: float) -> Played:
        flows = [
            replace(flow, goodput_bytes=tuple(
                int(size * (before if period < ACT else later)) for period, size in enumerate(flow.goodput_bytes)
            ))
            for flow in found.result.flows
        ]  # fmt: skip
        result: Any = SimpleNamespace(flows=tuple(flows), moves=(), capture=Capture())
        return replace(found, result=result)

    assert holding(scene, slower(0.9, 0.85))[2:4] == [True, True]
    assert holding(scene, slower(1.0, 0.85))[2:4] == [False, False]
    assert holding(scene, slower(0.2, 0.2))[2:4] == [False, False], "what is far below the plan shows nothing"
    assert "of which this machine carried 20% before" in scene.checks(slower(0.2, 0.2))[3].text


CONGESTED = "congested: 20.0 Mbit/s, of which 12.0 planned; NICs that send more than planned: "


@pytest.fixture
def hog() -> tuple[Hog, Cast, Decision]:
    scene, cast = cast_of(Hog(FABRIC, 1), Stage())
    flows = {flow.flow_id: flow for flow in plan(scene._job, 1).flows if flow.flow_id in cast.watched}
    return scene, cast, decision("hog", "generation 2: leaf1:1 congested", flows)


NAMED_ALONE = f"{CONGESTED}h2-n0 (8.0 Mbit/s)"


def test_a_hog_holds_if_it_alone_is_named_and_the_flow_is_planned_elsewhere_and_recovers(hog):
    scene, cast, replan = hog
    named, (watched,) = decision("leaf1:1", NAMED_ALONE), cast.watched
    resent = move(watched, "congested", resent=1)
    assert holding(scene, played(cast, named, replan)) == [True] * 6
    unmeasured = decision("leaf1:1", f"{CONGESTED}none is measured")
    assert holding(scene, played(cast, unmeasured, named, replan)) == [True] * 6, "it was named later"
    assert holding(scene, played(cast, replan))[0] is False
    assert holding(scene, played(cast, named))[1] is False
    assert holding(scene, played(cast, named, replan, moves=(resent,)))[3] is False
    assert holding(scene, played(cast, named, replan, recovers=False))[4] is False
    assert [cast.decided(found) for found in ([], [named], [replan], [named, replan])] == [False, False, False, True]


def test_a_hog_that_got_no_processor_has_caused_nothing(hog):
    scene, cast, _ = hog
    found = played(cast)
    assert scene.caused(found)
    starved = [
        replace(flow, goodput_bytes=()) if flow.request.flow_id in scene._hog_ids else flow
        for flow in found.result.flows
    ]
    result: Any = SimpleNamespace(flows=tuple(starved))
    assert not scene.caused(replace(found, result=result))


@pytest.mark.parametrize("names", ["none is measured", "h4-n0 (8.0 Mbit/s)", "h2-n0 (8.0 Mbit/s), h1-n0 (1.0 Mbit/s)"])
def test_a_hog_that_is_not_named_alone_does_not_hold(hog, names):
    scene, cast, replan = hog
    assert holding(scene, played(cast, decision("leaf1:1", CONGESTED + names), replan))[0] is False


def test_a_second_job_holds_if_it_fits_because_flows_of_the_first_moved_without_loss():
    stage = Stage()
    scene, cast = cast_of(Arrival(FABRIC, 1), stage)
    first, second = (plan(scene._job(number, 1), spine) for number, spine in ((0, 1), (1, 0)))
    moved = decision("demo-arrival-1", "job demo-arrival-2 arrived", {flow.flow_id: flow for flow in first.flows})
    placed = decision("demo-arrival-2", "accepted", {flow.flow_id: flow for flow in second.flows})
    assert holding(scene, played(cast, moved, placed))[0] is False, "it was not admitted"
    scene._submit(stage)
    assert holding(scene, played(cast, moved, placed)) == [True] * 6
    assert holding(scene, played(cast, placed))[:2] == [False, False], "both jobs are on one spine"
    resent = move(first.flows[0].flow_id, "arrived", resent=1)
    assert holding(scene, played(cast, moved, placed, moves=(resent,)))[3] is False
    assert holding(scene, played(cast, moved, placed, recovers=False))[4] is False
    assert [cast.decided(found) for found in ([], [moved])] == [False, True]
    stage.utilisation = (2.0, 2.0)
    scene._submit(stage)
    assert holding(scene, played(cast, moved, placed))[0] is False


@pytest.mark.parametrize("utilisation", [(1.0, 1.0), (2.0, 2.0)])
def test_a_fabric_without_a_second_job_that_needs_moves_is_unfit(utilisation):
    with pytest.raises(UnfitFabricError):
        cast_of(Arrival(FABRIC, 1), Stage(utilisation))


def test_a_storm_holds_if_its_nic_alone_is_in_quarantine_and_the_bystanders_recover():
    scene, cast = cast_of(Storm(FABRIC, 1), Stage())
    right, wrong = (decision(nic, "in quarantine: sends pause without end") for nic in ("h8-n0", "h1-n0"))
    assert holding(scene, played(cast, right)) == [True, True, True, True]
    assert holding(scene, played(cast))[0] is False
    assert holding(scene, played(cast, wrong))[0] is False
    assert holding(scene, played(cast, right, wrong))[0] is False
    assert holding(scene, played(cast, right, recovers=False))[2] is False
    assert [cast.decided(found) for found in ([], [right])] == [False, True]


def test_scenes_that_need_more_nics_than_a_fabric_has_are_unfit():
    small = spine_leaf(leaves=2, hosts_per_leaf=1)
    for scene in (Hog(small, 1), Arrival(small, 1), Storm(small, 1)):
        with pytest.raises(UnfitFabricError):
            cast_of(scene, Stage())
    with pytest.raises(UnfitFabricError):
        cast_of(Cut(spine_leaf(spines=1), 1), Stage())
