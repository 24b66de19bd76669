"""A fabric that grows under full traffic: a leaf, then a spine, put in force at a running controller.

The lab has all switches from the start. `-rP` prints the times.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.lab import Lab
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.fabrics.planned_runs import assert_no_packet_lost, assert_on_planned_links, requests_of, text_of

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

WHOLE = parse_fabric(
    "version: 1\nname: grows\ngenerate: {kind: spine_leaf, spines: 5, leaves: 5, hosts_per_leaf: 2, gbps: 0.02}\n",
    "whole",
)
SIZE_BYTES = 30_000_000
"""Thirteen seconds at full rate."""
ACT_AT_S = 0.5
TIMEOUT_S = 60.0


def without(*switches: str) -> Fabric:
    """Return the fabric without some switches, their cables and their hosts."""
    return replace(
        WHOLE,
        switches=tuple(each for each in WHOLE.switches if each.id not in switches),
        cables=tuple(each for each in WHOLE.cables if not {each.lower.switch, each.upper.switch} & {*switches}),
        nics=tuple(each for each in WHOLE.nics if each.port.switch not in switches),
    )


class Stack(NamedTuple):
    lab: Lab
    controller: Controller

    def apply(self, fabric: Fabric) -> float:
        """Put a fabric in force; return the seconds until its switches hold their rules."""
        began = time.monotonic()
        assert self.controller.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text_of(fabric))).applied
        self.controller.wait_in_force(fabric)
        return time.monotonic() - began

    def submit(self, name: str, nics: list[str], shift: int) -> pb.JobPlan:
        pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + shift) % len(nics)) for rank in range(len(nics))]
        collective = pb.Collective(kind="SEND_RECV", bytes=SIZE_BYTES, pairs=pairs)
        return self.controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id=name, ranks=nics, collectives=[collective]))


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    path = tmp_path / "fabric.yaml"
    path.write_text(text_of(without("leaf5", "spine5")))
    with Lab(WHOLE) as lab:
        running = Controller(path, more=("--state", str(tmp_path / "state")))
        try:
            lab.connect_controller(running.openflow_port)
            running.wait_in_force(without("leaf5", "spine5"))
            yield Stack(lab, running)
        finally:
            running.end()


def test_a_leaf_and_a_spine_more_cost_running_flows_no_packet_and_no_port_and_new_hosts_are_planned(stack):
    old = [nic.id for nic in WHOLE.nics if nic.port.switch != "leaf5"]
    plan = stack.submit("old", old, 3)
    took: list[float] = []

    def grow() -> None:
        took.extend(stack.apply(fabric) for fabric in (without("spine5"), WHOLE))

    def on_progress(seconds: float) -> None:
        if not acting and seconds > ACT_AT_S:
            acting.append(threads.submit(grow))

    acting: list = []
    with ThreadPoolExecutor(1) as threads:
        result = stack.lab.run_flows(requests_of(plan, SIZE_BYTES), TIMEOUT_S, on_progress)
        ended = time.monotonic()
        acting[0].result()
    print(f"FIGURES a leaf, a spine in force after {took} s; {time.monotonic() - ended:.1f} s after the flows' end")
    assert_no_packet_lost(result)
    assert_on_planned_links(stack.lab, result, [plan.flows])
    again = stack.controller.jobs.GetJob(pb.GetJobRequest(job_id="old"))
    assert list(again.flows) == list(plan.flows)
    stack.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="old"))
    new = stack.submit("new", [nic.id for nic in WHOLE.nics], 3)
    assert any("spine5" in link for flow in new.flows for link in flow.links)
    result = stack.lab.run_flows(requests_of(new, 120_000), TIMEOUT_S)
    assert_no_packet_lost(result)
    assert_on_planned_links(stack.lab, result, [new.flows])
