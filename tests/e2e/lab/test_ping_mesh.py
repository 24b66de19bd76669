"""Agents on the hosts of a real lab send each other probes: a cable that loses packets one way is named, and left out.

`-rP` prints the times.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from heddle.controller.config import load_fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller, controlling
from tests.support.lossy_cable import lossy

pytestmark = pytest.mark.e2e  # it measures no rate: beside other tests it only takes longer

FABRIC = "version: 1\nname: mesh\ngenerate: {kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 2, gbps: 0.05}\n"
LINK = "spine2:3>leaf3:2"
CABLE = "leaf3:2>spine2:3"
TIMEOUT_S = 60.0


class Stack(NamedTuple):
    lab: Lab
    controller: Controller

    def faults(self) -> dict[str, str]:
        """Return what is wrong with cables, by the id of each direction."""
        found = self.controller.fabric.GetTopology(pb.GetTopologyRequest())
        return {link.id: link.fault for link in found.links if link.fault}

    def until(self, holds: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> float:
        """Wait until something holds; return how long it took."""
        began_s = time.monotonic()
        while not holds():
            assert time.monotonic() - began_s < timeout_s, (self.faults(), self.probes())
            time.sleep(0.1)
        return time.monotonic() - began_s

    def probes(self) -> dict[str, int]:
        """Return the mesh's probes by result, from the metrics."""
        with urllib.request.urlopen(f"http://{self.controller.http}/metrics", timeout=TIMEOUT_S) as reply:
            lines = reply.read().decode().splitlines()
        found = [line.split('"') for line in lines if line.startswith("heddle_mesh_probes_total{")]
        return {result: int(value.split()[-1]) for _, result, value in found}


@contextmanager
def agents(stack: Stack, hosts: Sequence[str], directory: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run the probe agents of some hosts in one process."""
    net = stack.lab.net
    places = {
        host: {"pid": net.host(host).pid, "devices": [net.device_of[nic.id] for nic in net.nics_of_host[host]]}
        for host in hosts
    }
    file = directory / f"{hosts[0]}.json"
    file.write_text(json.dumps(places))
    words = [sys.executable, "-m", "heddle.mininet_topos.routed.probe_agents", stack.controller.grpc, str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]
            yield process
        finally:
            process.kill()


@contextmanager
def started(directory: Path, text: str, **config: object) -> Iterator[Stack]:
    path, settings = directory / "fabric.yaml", directory / "heddle.yaml"
    path.write_text(text)
    settings.write_text(json.dumps(config))
    with Lab(load_fabric(path)) as lab, controlling(lab, path, "--config", str(settings)) as running:
        yield Stack(lab, running)


def half_load(lab: Lab) -> pb.SubmitJobRequest:
    nics = [nic.id for nic in lab.fabric.nics]
    pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + 3) % len(nics)) for rank in range(0, len(nics), 2)]
    collective = pb.Collective(kind="SEND_RECV", bytes=400_000, pairs=pairs)
    return pb.SubmitJobRequest(job_id="a", ranks=nics, collectives=[collective])


def test_a_cable_that_loses_packets_one_way_is_named_and_left_out_of_plans(tmp_path):
    with (
        started(tmp_path, FABRIC, mesh_probes_pps=20) as stack,
        agents(stack, list(stack.lab.net.nics_of_host), tmp_path),
    ):
        stack.controller.jobs.SubmitJob(half_load(stack.lab))
        stack.until(lambda: stack.probes()["answered"] > 100)
        assert stack.faults() == {}
        with lossy(stack.lab, LINK, 0.5):
            named_s = stack.until(lambda: bool(stack.faults()))
            assert set(stack.faults()) == {CABLE, LINK}
            assert f"of its probes over {LINK}" in stack.faults()[LINK]
            stack.until(lambda: "left out of plans" in stack.faults()[LINK])
        plan = stack.controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
        assert not {CABLE, LINK} & {link for flow in plan.flows for link in (*flow.links, *flow.reverse_links)}
        print(f"FIGURES a loss of 50 % one way was named after {named_s:.1f} s; {stack.probes()}")


def incast(lab: Lab, seconds: float) -> list[FlowRequest]:
    """Return flows from a NIC of every other leaf to the last NIC, each at half its rate, for about so long."""
    target, rate_bps = lab.fabric.nics[-1], lab.fabric.nics[0].capacity_bps // 2
    senders = {nic.port.switch: nic for nic in lab.fabric.nics if nic.port.switch != target.port.switch}
    size_bytes = int(target.capacity_bps / 8 / len(senders) * seconds)
    return [
        FlowRequest(
            flow_id=f"incast/{nic.id}", src_nic=nic.id, dst_nic=target.id, udp_source_port=49152 + 997 * number,
            reverse_udp_source_port=49152, rate_bps=rate_bps, size_bytes=size_bytes,
        )
        for number, nic in enumerate(senders.values())
    ]  # fmt: skip


LARGE = FABRIC.replace(
    "spines: 4, leaves: 4, hosts_per_leaf: 2, gbps: 0.05", "spines: 8, leaves: 16, hosts_per_leaf: 8, gbps: 0.02"
)
INCAST_S = float(os.environ.get("HEDDLE_MESH_S", "120"))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_in_a_lab_of_24_switches_a_loss_of_2_percent_one_way_is_named_alone(tmp_path):
    with started(tmp_path, LARGE) as stack, agents(stack, list(stack.lab.net.nics_of_host), tmp_path):
        stack.until(lambda: stack.probes()["answered"] > 1_000)
        before = stack.probes()
        with lossy(stack.lab, LINK, 0.02):
            named_s = stack.until(lambda: bool(stack.faults()), 400)
            print(f"FIGURES a loss of 2 % was named after {named_s:.1f} s, load {os.getloadavg()[0]:.0f}; {before}")
            print(f"FIGURES {stack.probes()}; {stack.faults()[LINK]}")
            assert set(stack.faults()) == {CABLE, LINK}


@pytest.mark.soak
@pytest.mark.timeout(INCAST_S + 480)
def test_in_a_lab_of_24_switches_incast_and_a_stopped_host_accuse_none(tmp_path):
    with started(tmp_path, LARGE) as stack:
        hosts = list(stack.lab.net.nics_of_host)
        with agents(stack, hosts[1:], tmp_path), agents(stack, hosts[:1], tmp_path) as stopped:
            stack.until(lambda: stack.probes()["answered"] > 1_000)
            with ThreadPoolExecutor(1) as beside:
                running = beside.submit(stack.lab.run_flows, incast(stack.lab, INCAST_S), INCAST_S)
                while not running.done():
                    stopped.send_signal(signal.SIGSTOP)
                    time.sleep(6)
                    stopped.send_signal(signal.SIGCONT)
                    time.sleep(6)
                    assert stack.faults() == {}, stack.probes()
            print(f"FIGURES {INCAST_S:.0f} s of incast, a host stopped every 12 s, none named: {stack.probes()}")
