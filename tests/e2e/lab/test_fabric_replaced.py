"""A spine that is replaced, then a cable at half its rate, under 60 % load: no packet is lost, and moves have reasons.

`-rP` prints the times.
"""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.wire.shaping import shape_switch_ports
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.fabrics.planned_runs import (
    assert_no_packet_lost,
    assert_on_planned_links,
    paced,
    requests_of,
    text_of,
)

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(1_200)]

LINK_BPS = 10_000_000
BEFORE = parse_fabric(
    "version: 1\nname: replaced\ngenerate: {kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 4, gbps: 0.01}\n",
    "before",
)
SPINE, SLOW = "spine4", "leaf1:1>spine1:1"
REPLACED = replace(
    BEFORE,
    switches=tuple(replace(each, datapath_id=0xABCD) if each.id == SPINE else each for each in BEFORE.switches),
)
SLOWER = replace(
    REPLACED,
    cables=tuple(replace(each, capacity_bps=LINK_BPS // 2) if each.id == SLOW else each for each in REPLACED.cables),
)
FLOW_BPS = LINK_BPS * 3 // 10
"""Eight flows of a leaf on four uplinks: 60 %."""
SIZE_BYTES = 45_000_000
"""Two minutes: on a busy machine the processes of a life take half a minute to load."""
ACT_AT_S = 0.5
TIMEOUT_S = 400.0


class Stack(NamedTuple):
    lab: Lab
    controller: Controller

    def submit(self) -> pb.JobPlan:
        """Submit two permutations; every flow crosses leaves."""
        nics = [nic.id for nic in BEFORE.nics]
        flows = [
            pb.FlowDemand(src_rank=rank, dst_rank=(rank + shift) % len(nics), rate_bps=FLOW_BPS)
            for shift in (4, 8)
            for rank in range(len(nics))
        ]
        collective = pb.Collective(kind="CUSTOM", flows=flows)
        return self.controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id="a", ranks=nics, collectives=[collective]))

    def drain(self, target: str, *, undrain: bool = False) -> int:
        return self.controller.fabric.Drain(pb.DrainRequest(target=target, undrain=undrain)).flows_moved

    def apply(self, fabric: Fabric) -> pb.ApplyFabricReply:
        """Put a fabric in force; return what its dry run said."""
        text = text_of(fabric)
        said = self.controller.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=True))
        assert self.controller.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text)).applied
        return said

    def replace_spine(self) -> None:
        """Put another switch in the place of the spine: another datapath id, no rule, the same cables."""
        bridge = self.lab.net.bridge_of[SPINE]
        for kind in ("del-flows", "del-groups"):
            self.lab.ovs.ofctl("-O", "OpenFlow13", kind, bridge)
        self.lab.ovs.vsctl("set", "bridge", bridge, f"other_config:datapath-id={0xABCD:016x}")

    def until_rates_fit(self) -> None:
        """Wait until the plan gives the flows over the slow cable no more than it has."""
        end = time.monotonic() + TIMEOUT_S
        while any(load > LINK_BPS // 2 for load in self.loads(SLOW, BEFORE.cable_by_link[SLOW].down_link)):
            assert time.monotonic() < end
            time.sleep(0.1)

    def loads(self, *links: str) -> list[int]:
        """Return the planned rates over links."""
        flows = self.controller.jobs.GetJob(pb.GetJobRequest(job_id="a")).flows
        return [sum(flow.rate_bps for flow in flows if link in flow.links) for link in links]

    def slow_cable(self) -> None:
        """Give both directions of the cable half their rate."""
        cable = BEFORE.cable_by_link[SLOW]
        names = {self.lab.net.interface_of[port] for port in (cable.lower, cable.upper)}
        found = [each for each in self.lab.net.egresses() if each.interface in names]
        shape_switch_ports(replace(each, rate_bps=each.rate_bps // 2) for each in found)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    path = tmp_path / "fabric.yaml"
    path.write_text(text_of(BEFORE))
    config = tmp_path / "heddle.yaml"
    config.write_text("follow_ms: 1000\n")  # on a busy machine hosts follow later
    with Lab(BEFORE) as lab:
        running = Controller(path, more=("--config", str(config), "--state", str(tmp_path / "state")))
        try:
            lab.connect_controller(running.openflow_port)
            running.wait_in_force(BEFORE)
            yield Stack(lab, running)
        finally:
            running.end()


class Changed(NamedTuple):
    """What the dry runs said, the flows that a drain and its end moved, and the seconds that all took."""

    replaced: pb.ApplyFabricReply
    slower: pb.ApplyFabricReply
    drained: int
    undrained: int
    seconds: float


def change(stack: Stack) -> Changed:
    began = time.monotonic()
    drained = stack.drain(SPINE)
    stack.replace_spine()
    replaced = stack.apply(REPLACED)
    stack.controller.wait_in_force(REPLACED)
    undrained = stack.drain(SPINE, undrain=True)
    slower = stack.apply(SLOWER)
    stack.controller.wait_in_force(SLOWER)
    stack.until_rates_fit()
    time.sleep(1)  # hosts follow the rates
    stack.slow_cable()
    return Changed(replaced, slower, drained, undrained, time.monotonic() - began)


def test_a_spine_replaced_and_a_cable_at_half_its_rate_cost_no_packet_and_only_ports_that_the_plan_moved(stack):
    plan = stack.submit()
    assert round(plan.certificate.max_link_utilisation, 3) == 0.6
    acting: list[Future[Changed]] = []

    def on_progress(seconds: float) -> None:
        if not acting and seconds > ACT_AT_S:
            acting.append(threads.submit(change, stack))

    with ThreadPoolExecutor(1) as threads, JobFollower(stack.controller.channel, plan, paced) as follower:
        result = stack.lab.run_flows(requests_of(plan, SIZE_BYTES), TIMEOUT_S, on_progress, follower)
        done = acting[0].result()
    moves = Counter(move.reason for move in result.moves)
    print(f"FIGURES {done.seconds:.1f} s of {result.duration_ns / 1e9:.1f} s; moves: {dict(moves)}")
    print(f"FIGURES drained {done.drained}, undrained {done.undrained}; slower: {done.slower.jobs[0].text}")
    generations = [plan.flows, *(each.flows.values() for each in follower.generations)]
    assert_no_packet_lost(result)
    assert_on_planned_links(stack.lab, result, generations)
    assert done.seconds < result.duration_ns / 1e9, "the flows ended before the changes"
    assert [(each.job_id, each.kind) for each in done.replaced.jobs] == [("a", pb.JobFate.NOTHING)]
    assert not done.replaced.refusal
    assert [(each.job_id, each.kind) for each in done.slower.jobs] == [("a", pb.JobFate.SLOWER)]
    assert SLOW in done.slower.jobs[0].text
    assert sorted(moves.values()) == sorted((done.drained, done.undrained)), "neither change of the fabric moves a flow"
    assert all(SPINE in reason for reason in moves)
    moved = {move.flow_id for move in result.moves}
    ports = {flow.flow_id: flow.udp_source_port for flow in plan.flows}
    again = stack.controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
    assert {flow.flow_id for flow in again.flows if flow.udp_source_port != ports[flow.flow_id]} <= moved
