"""A NIC that pauses its switch port without end, in a lab with a controller, a broker and an agent.

The switch's PFC watchdog frees the bystanders, the flows that do not go to that NIC; telemetry names the NIC. The lab's
record of a run (`-rP` prints it) has the times from the storm's first frame.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from heddle.controller.config import load_fabric
from heddle.foundation.traffic_class import DATA
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest, RunResult
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.processes.mosquitto import PROGRAM, mosquitto

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.alone,
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
    pytest.mark.skipif(not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)"),
]
FABRIC = "version: 1\nname: storm\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 0.02}\n"
NICS = [f"h{number}-n0" for number in range(1, 9)]
FIRST, *OTHERS = NICS
BEFORE_S, FLOWS_S, WINDOW_S, TIMEOUT_S = 1.5, 5.0, 0.5, 40.0
FULL = 0.9
"""A port is at full rate if it carries this part of what it carried before the storm, over a window."""


@dataclass
class Stack:
    lab: Lab
    controller: Controller


@pytest.fixture(scope="module")
def stack(tmp_path_factory) -> Iterator[Stack]:
    path = tmp_path_factory.mktemp("storm") / "fabric.yaml"
    path.write_text(FABRIC)
    with mosquitto() as broker:
        config = path.with_name("heddle.yaml")
        # Without the controller's quarantine, whose rule drops packets that no queue counts.
        telemetry = f"telemetry: {{broker: '127.0.0.1:{broker.port}', period_ms: 100}}"
        config.write_text(f"quarantine_ms: 0\n{telemetry}\n")
        running = Controller(path, more=("--config", str(config)))
        fabric = load_fabric(path)
        settings = replace(NicSettings.for_fabric(fabric), dcqcn=True)
        try:
            with Lab(fabric, settings=settings, queues=QueueSettings()) as lab, agent_of(lab, broker.port):
                lab.connect_controller(running.openflow_port)
                running.wait_for_rules()
                yield Stack(lab, running)
        finally:
            running.end()


@contextmanager
def agent_of(lab: Lab, broker_port: int) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "heddle.programs.console.main",
        "agent",
        "--fabric",
        "storm",
        "--source",
        "emulated",
    ]
    command += ["--lab", str(lab.counters_directory.parent), "--broker", f"127.0.0.1:{broker_port}"]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        assert json.loads(agent.stdout.readline())["ready"]
        yield
    finally:
        agent.terminate()
        agent.communicate(timeout=20)


def submit(stack: Stack, storming: str) -> list[FlowRequest]:
    """Plan flows between leaves: all NICs but the one that will storm send to two others each."""
    pairs = [
        pb.RankPair(src_rank=rank, dst_rank=(rank + shift) % len(NICS))
        for rank, nic in enumerate(NICS)
        for shift in (3, 5)
        if nic != storming
    ]
    collective = pb.Collective(kind="SEND_RECV", bytes=10**7, pairs=pairs)
    plan = stack.controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id="job", ranks=NICS, collectives=[collective]))
    return [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=flow.rate_bps * 9 // 10,
            size_bytes=int(flow.rate_bps * FLOWS_S / 8),  # those to the NIC end after its storm, and the run with them
        )
        for flow in plan.flows
    ]  # fmt: skip


@dataclass
class Watched:
    """What a run shows; the storm lasts until it is named and the bystanders are at full rate."""

    stack: Stack
    storming: str
    began_s: float = 0.0
    ended_s: float = 0.0
    named_s: float = 0.0
    carried: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    conditions: list[pb.Congestion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port_of = {nic.id: str(nic.port) for nic in self.stack.lab.fabric.nics}
        self.done = threading.Event()

    def sample(self) -> None:
        """Record the bytes that each NIC's port has sent, and the conditions, until `done`."""
        while not self.done.wait(0.02):
            page = self.stack.lab.queues.latest()
            sent = {nic: page.queue(port, DATA.priority)["bytes"] for nic, port in self.port_of.items()}
            self.carried.append((time.monotonic(), sent))
            if not self.began_s:
                continue
            found = self.stack.controller.telemetry.ListCongestion(pb.ListCongestionRequest()).congestion
            self.conditions += found
            storms = {one.port for one in found if one.kind == "storm"}
            if storms and not self.named_s:
                self.named_s = time.monotonic() - self.began_s
            if self.ended_s and not storms:
                self.done.set()

    def on_progress(self, elapsed_s: float) -> None:
        lab = self.stack.lab
        if elapsed_s > BEFORE_S and not self.began_s:
            lab.storm_from(self.storming, DATA.priority, True)
            self.began_s = time.monotonic()
        recovered = self.began_s and self.named_s and self.full_rate_s() is not None
        if not self.ended_s and recovered:
            lab.storm_from(self.storming, DATA.priority, False)
            self.ended_s = time.monotonic()

    def rates(self, since_s: float, until_s: float) -> dict[str, float]:
        """Return the bytes per second of every bystander's port between the samples around two times."""
        first_s, first = next(one for one in reversed(self.carried) if one[0] <= since_s)
        last_s, last = next(one for one in self.carried if one[0] >= until_s)
        return {nic: (last[nic] - first[nic]) / (last_s - first_s) for nic in first if nic != self.storming}

    def full_rate_s(self) -> float | None:
        """Return after what time the ports of all bystanders carry their rate from before the storm for a window."""
        if self.carried[-1][0] < self.began_s + WINDOW_S:
            return None
        before = self.rates(self.began_s - 1.0, self.began_s)
        for at_s, _ in [one for one in self.carried if self.began_s <= one[0] <= self.carried[-1][0] - WINDOW_S]:
            after = self.rates(at_s, at_s + WINDOW_S)
            if all(after[nic] >= FULL * rate for nic, rate in before.items()):
                return at_s - self.began_s
        return None


def run_with_storm(stack: Stack, storming: str) -> tuple[Watched, RunResult]:
    watched = Watched(stack, storming)
    sampler = threading.Thread(target=watched.sample)
    sampler.start()
    try:
        result = stack.lab.run_flows(submit(stack, storming), TIMEOUT_S, watched.on_progress)
    finally:
        if watched.began_s and not watched.ended_s:
            stack.lab.storm_from(storming, DATA.priority, False)
        watched.done.set()
        sampler.join()
        stack.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="job"))
    return watched, result


@pytest.mark.parametrize("storming", [FIRST, *(pytest.param(nic, marks=pytest.mark.soak) for nic in OTHERS)])
def test_a_nic_in_storm_is_named_and_its_bystanders_are_freed_by_the_watchdog_of_its_port(stack, storming):
    before = stack.lab.queues.counters()
    watched, result = run_with_storm(stack, storming)
    grown = stack.lab.queues.counters().since(before)
    port, queues = watched.port_of[storming], {name: grown.queue(name, DATA.priority) for name in grown.names}
    freed_s = watched.full_rate_s()
    print(f"storm of {storming}: named after {watched.named_s:.2f} s, bystanders at full rate after {freed_s} s")
    assert freed_s is not None
    assert result.completed
    assert result.integrity.valid, result.integrity
    assert {name for name, queue in queues.items() if queue["watchdog_trips"]} == {port}
    assert queues[port]["watchdog_trips"] == queues[port]["watchdog_restores"] == 1
    assert queues[port]["watchdog_dropped_packets"] == sum(result.queue_drops.values()) > 0
    assert {(one.port, one.root_cause) for one in watched.conditions if one.kind == "storm"} == {(port, storming)}
    between_switches = {str(end) for cable in stack.lab.fabric.cables for end in (cable.lower, cable.upper)}
    assert not between_switches & {one.root_cause for one in watched.conditions if one.kind == "pausing"}
