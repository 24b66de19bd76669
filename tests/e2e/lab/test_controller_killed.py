"""The controller is killed in the middle of a move under full traffic, starts again, and the caller submits again.

`-rP` prints the instants and what happened. The controller's ports stay, so switches and followers return to it.
"""

import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.rule import Cookie, CookieKind
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest, RunResult
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

FABRIC = "version: 1\nname: killed\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 0.02}\n"
GRACE_S = 8.0
SIZE_BYTES, RATE_BPS = 6_000_000, 20_000_000
"""NICs send at full rate: a spine that is left alone carries half of it, so rates have to fall before flows move."""
ACT_AT_S = 0.5
KILLED = (0.3, 2.5)
"""The controller is killed after so many times the duration of a drain without traffic, which is longer with it."""
PACE = 0.97
TIMEOUT_S = 40.0
LOST = ("lost_packets", "retransmitted_packets", "packet_seq_err", "local_ack_timeout_err")
KILLS = [pytest.param(seed, steering, marks=pytest.mark.soak) for seed in range(2, 8)
         for steering in ("PIN", "SOURCE_PORT")]  # fmt: skip
FLOW = re.compile(r"cookie=0x([0-9a-f]+), duration=([0-9.]+)s, table=(\d+),.* (priority=\S*) actions=(.*)")
RuleKey = tuple[str, str, str]


class Rule(NamedTuple):
    """A flow entry of a switch: its actions and cookie, and since when it is there."""

    actions: str
    cookie: int
    age_s: float


Rules = dict[RuleKey, Rule]
"""Flow entries by switch, table, and priority with match."""


class Running:
    """A lab, and a controller that may be killed and started again on the same ports."""

    def __init__(self, lab: Lab, path: Path) -> None:
        self.lab, self._path = lab, path
        self.controller = Controller(path, more=("--config", str(path.with_name("heddle.yaml"))))
        lab.connect_controller(self.controller.openflow_port)
        self.controller.wait_for_rules()
        self.drain_s = self._drain_s()

    def _drain_s(self) -> float:
        """Return how long a drain takes that moves half of the flows."""
        self.controller.jobs.SubmitJob(request(self, "SOURCE_PORT"))
        times = []
        for undrain in (False, True):
            began = time.monotonic()
            self.controller.fabric.Drain(pb.DrainRequest(target="spine1", undrain=undrain))
            times.append(time.monotonic() - began)
        self.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="killed"))
        return times[0]

    def start_again(self) -> None:
        """Start another controller on the ports of the one that was killed."""
        before = self.controller
        before.kill()
        more = ("--config", str(self._path.with_name("heddle.yaml")), "--grpc", before.grpc)
        self.controller = Controller(self._path, openflow=before.openflow, more=more)
        grpc.channel_ready_future(self.controller.channel).result(TIMEOUT_S)  # the follower's attempts were refused
        self.controller.wait_for_rules()

    def rules(self) -> Rules:
        """Return the flow entries of all switches."""
        found = {}
        for switch, bridge in self.lab.net.bridge_of.items():
            for flow in FLOW.finditer(self.lab.ovs.ofctl("-O", "OpenFlow13", "dump-flows", bridge)):
                cookie, age_s, table, match, actions = flow.groups()
                found[switch, table, match] = Rule(actions, int(cookie, 16), float(age_s))
        return found


def pins(rules: Rules) -> dict[RuleKey, int]:
    """Return the job numbers of the pins among rules."""
    origins = {key: Cookie.unpack(rule.cookie) for key, rule in rules.items()}
    return {key: origin.job_number for key, origin in origins.items() if origin and origin.kind is CookieKind.PIN}


def differing(one: Rules, other: Rules) -> set[RuleKey]:
    """Return the rules but pins that differ."""
    keys = (one.keys() | other.keys()) - pins(one).keys() - pins(other).keys()
    return {key for key in keys if key not in one or key not in other or one[key].actions != other[key].actions}


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("killed") / "fabric.yaml"
    path.write_text(FABRIC)
    path.with_name("heddle.yaml").write_text(f"port_hold_ms: 100\npin_grace_ms: {round(GRACE_S * 1000)}\n")
    with Lab(load_fabric(path)) as lab:
        found = Running(lab, path)
        try:
            yield found
        finally:
            found.controller.end()


def request(running: Running, steering: str) -> pb.SubmitJobRequest:
    """Return a permutation in which every NIC sends to one on another leaf."""
    nics = [nic.id for nic in running.lab.fabric.nics]
    flows = [
        pb.FlowDemand(src_rank=rank, dst_rank=(rank + 3) % len(nics), rate_bps=RATE_BPS) for rank in range(len(nics))
    ]
    collective = pb.Collective(kind="CUSTOM", bytes=SIZE_BYTES, flows=flows)
    return pb.SubmitJobRequest(job_id="killed", ranks=nics, collectives=[collective], steering=steering)


def paced(flow: pb.FlowPlan) -> int:
    return int(flow.rate_bps * PACE)


class Killed(NamedTuple):
    """A run, the rules at its start, at the kill and after the job was submitted again, and its second plan."""

    result: RunResult
    at_start: Rules
    before: Rules
    after: Rules
    plan: pb.JobPlan
    drained: bool


def run(running: Running, steering: str, kill_after_s: float) -> Killed:
    """Run the permutation; drain a spine, kill the controller meanwhile, start it and submit the job again."""
    wanted = request(running, steering)
    plan = running.controller.jobs.SubmitJob(wanted)
    at_start = running.rules()
    flows = [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=paced(flow), size_bytes=SIZE_BYTES,
        )
        for flow in plan.flows
    ]  # fmt: skip

    def drain_and_kill() -> tuple[Rules, Rules, pb.JobPlan, bool]:
        controller = running.controller
        drain = controller.fabric.Drain.future(pb.DrainRequest(target="spine1"))
        time.sleep(kill_after_s)
        drained = drain.done()
        controller.process.kill()
        before = running.rules()
        drain.cancel()
        running.start_again()
        again = running.controller.jobs.SubmitJob(wanted)
        return before, running.rules(), again, drained

    done: list[Future[tuple[Rules, Rules, pb.JobPlan, bool]]] = []

    def on_progress(seconds: float) -> None:
        if not done and seconds > ACT_AT_S:
            done.append(threads.submit(drain_and_kill))

    with (
        ThreadPoolExecutor(1) as threads,
        grpc.insecure_channel(running.controller.grpc) as channel,
        JobFollower(channel, plan, paced) as follower,
    ):
        result = running.lab.run_flows(flows, TIMEOUT_S, on_progress, changes=follower)
        return Killed(result, at_start, *done[0].result())


@pytest.mark.parametrize(("seed", "steering"), [(0, "PIN"), (1, "SOURCE_PORT"), *KILLS])
def test_a_kill_in_the_middle_of_a_move_loses_no_packet_and_no_pin_before_the_grace_time(running, seed, steering):
    kill_after_s = running.drain_s * random.Random(seed).uniform(*KILLED)
    began = time.monotonic()
    try:
        result, at_start, before, after, plan, drained = run(running, steering, kill_after_s)
        seconds, left = time.monotonic() - began, running.rules()
        while len(pins(left)) != plan.certificate.rules_installed or len(set(pins(left).values())) > 1:
            assert seconds < TIMEOUT_S, pins(left)
            time.sleep(0.2)
            seconds, left = time.monotonic() - began, running.rules()
    finally:
        running.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="killed"))
    counts = {field: sum(getattr(flow, field) for flow in result.flows) for field in LOST}
    moves = sorted({(move.kind, move.reason) for move in result.moves})
    repinned = [key for key in pins(before) if key in at_start and at_start[key].actions != before[key].actions]
    print(
        f"FIGURES killed {kill_after_s * 1e3:.0f} ms after the drain began ({'over' if drained else 'under way'}), "
        f"{steering}, {len(repinned)} of {len(pins(before))} pins changed: {counts}, "
        f"{len(differing(at_start, before))} rules of the underlay changed by then, moves {moves}"
    )
    assert result.completed
    assert result.valid, result.integrity
    assert set(counts.values()) == {0}
    assert not result.queue_drops
    assert all(flow.delivered_bytes == SIZE_BYTES for flow in result.flows)
    assert pins(before).keys() <= pins(after).keys()
    assert not differing(at_start, left)
    changed = differing(at_start, before)
    kept = [rule.age_s for key, rule in left.items() if key not in pins(left) and key not in changed]
    assert min(kept) > seconds - 2, "a rule was sent again that had not changed"
