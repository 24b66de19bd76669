"""Two exchanged plugs under a full permutation, by each policy: what is planned, what is captured, what is lost.

The lab is cabled as found, and the controller has the file of before. `-rP` prints the figures.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller, controlling
from tests.support.fabrics.planned_runs import (
    assert_no_packet_lost,
    assert_on_planned_links,
    flows_by_link,
    paced,
    requests_of,
    text_of,
)

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.soak, pytest.mark.slow]

UPLINKS = 4
FILE = parse_fabric(
    f"version: 1\nname: plugs\ngenerate: {{kind: spine_leaf, spines: {UPLINKS}, leaves: 5, hosts_per_leaf: {UPLINKS}, "
    "gbps: 0.01}\n",
    "plugs",
)
ON_A_LEAF, ON_A_SPINE = ("leaf1:1>spine1:1", "leaf1:3>spine3:1"), ("leaf1:2>spine2:1", "leaf3:2>spine2:3")
SIZE_BYTES, LONG_BYTES = 400_000, 30_000_000
"""A third of a second at full rate, and 24 s."""
TIMEOUT_S, LONG_TIMEOUT_S = 30.0, 90.0
LOST_AFTER_S = 6.0
"""A flow never completes whose packets are lost, or the ACKs to them."""


def exchanged(first: str, second: str) -> Fabric:
    """Return the fabric in which the upper plugs of two cables are exchanged."""
    a, b = FILE.cable_by_link[first], FILE.cable_by_link[second]
    instead = {a: replace(a, upper=b.upper), b: replace(b, upper=a.upper)}
    return replace(FILE, cables=tuple(instead.get(cable, cable) for cable in FILE.cables))


class Found(NamedTuple):
    """What a policy gives: planned and captured load of the fullest link, and the flows of which no packet arrived."""

    planned: float
    captured: int
    lost: int


class Stack(NamedTuple):
    lab: Lab
    controller: Controller

    def until(self, holds: Callable[[pb.Topology], bool]) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not holds(found := self.controller.fabric.GetTopology(pb.GetTopologyRequest())):
            assert time.monotonic() < end, found.miscablings
            time.sleep(0.05)

    def submit(self, name: str, size_bytes: int) -> pb.JobPlan:
        """Submit a permutation in which no two flows of a leaf have one destination leaf."""
        nics = [nic.id for nic in FILE.nics]
        places = [divmod(rank, UPLINKS) for rank in range(len(nics))]
        pairs = [
            pb.RankPair(src_rank=rank, dst_rank=(leaf + 1 + slot) % len(FILE.leaves) * UPLINKS + slot)
            for rank, (leaf, slot) in enumerate(places)
        ]
        collective = pb.Collective(kind="SEND_RECV", bytes=size_bytes, pairs=pairs)
        return self.controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id=name, ranks=nics, collectives=[collective]))


@contextmanager
def controller(lab: Lab, folder: Path, policy: str) -> Iterator[Stack]:
    folder.mkdir()
    path, config = folder / "fabric.yaml", folder / "heddle.yaml"
    path.write_text(text_of(FILE))
    config.write_text(f"cabling: {policy}\n")
    with controlling(lab, path, "--config", str(config), "--state", str(folder / "state")) as running:
        yield Stack(lab, running)


def measured(stack: Stack, policy: str, cables: tuple[str, str]) -> Found:
    """Run the permutation once the controller has dealt with the exchange."""
    if policy == "follow":
        follow_under_load(stack)
    else:
        wanted = {*cables} if policy == "exclude" else set()
        stack.until(lambda found: {link.id for link in found.links if link.left_out} & {*cables} == wanted)
    stack.until(lambda found: bool(found.miscablings))
    assert "are exchanged" in stack.controller.fabric.GetTopology(pb.GetTopologyRequest()).miscablings[0].text
    plan = stack.submit("short", SIZE_BYTES)
    timeout_s = LOST_AFTER_S if policy == "ignore" else TIMEOUT_S
    result = stack.lab.run_flows(requests_of(plan, SIZE_BYTES), timeout_s)
    if policy != "ignore":
        assert_no_packet_lost(result)
    if policy == "follow":
        assert_on_planned_links(stack.lab, result, [plan.flows])
    lost = sum(not flow.rx_packets for flow in result.flows)
    print(f"FIGURES {policy}: {sum(flow.completed_ns is None for flow in result.flows)} flows did not complete")
    links = {cable for cable in flows_by_link(stack.lab, result).items() if cable[0] in stack.lab.fabric.cable_by_link}
    return Found(plan.certificate.max_link_utilisation, max(count for _, count in links), lost)


def until_followed(stack: Stack) -> pb.Topology:
    """Wait until the fabric as found is in force, and the running job uses all of its cables."""
    topology = stack.controller.wait_in_force(stack.lab.fabric)
    end = time.monotonic() + LONG_TIMEOUT_S  # the planner's process begins anew on a busy machine
    while stack.controller.jobs.GetJob(pb.GetJobRequest(job_id="early")).certificate.max_link_utilisation != 1.0:
        assert time.monotonic() < end
        time.sleep(0.1)
    return topology


def follow_under_load(stack: Stack) -> None:
    """Run the permutation while the cabling is followed: flows around wrong cables go back to all of them."""
    stack.until(lambda found: sum(link.left_out for link in found.links) == 4)
    plan = stack.submit("early", LONG_BYTES)
    assert plan.certificate.max_link_utilisation == 2.0
    began, took_s = time.monotonic(), list[float]()
    with ThreadPoolExecutor(1) as threads, JobFollower(stack.controller.channel, plan, paced) as follower:
        waiting = threads.submit(until_followed, stack)
        waiting.add_done_callback(lambda _: took_s.append(time.monotonic() - began))
        result = stack.lab.run_flows(requests_of(plan, LONG_BYTES), LONG_TIMEOUT_S, changes=follower)
        topology = waiting.result()
    moves = f"{len(result.moves)} flows moved, of {result.duration_ns / 1e9:.1f} s"
    print(f"FIGURES a running job uses all cables as found after {took_s[0]:.1f} s; {moves}")
    assert_no_packet_lost(result)
    assert_on_planned_links(stack.lab, result, [plan.flows, *(each.flows.values() for each in follower.generations)])
    ours = stack.lab.fabric.cable_by_link
    assert {link.id for link in topology.links if link.as_found} == ours.keys() - FILE.cable_by_link.keys()
    stack.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="early"))


@pytest.mark.parametrize(
    ("cables", "ignored"),
    [
        pytest.param(ON_A_LEAF, Found(1.0, 2, 0), id="on-a-leaf"),
        pytest.param(ON_A_SPINE, Found(1.0, 1, 2), id="on-a-spine"),
    ],
)
def test_an_exchange_costs_nothing_where_plans_follow_it_and_no_packet_where_they_leave_it_out(
    tmp_path, cables, ignored
):
    found = {}
    with Lab(exchanged(*cables)) as lab:
        for policy in ("ignore", "exclude", "follow"):
            with controller(lab, tmp_path / policy, policy) as stack:
                found[policy] = measured(stack, policy, cables)
            print(f"FIGURES {policy}: {found[policy]}")
    assert found == {"ignore": ignored, "exclude": Found(2.0, 2, 0), "follow": Found(1.0, 1, 0)}
