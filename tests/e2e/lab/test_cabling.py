"""Plugs that are exchanged in a real lab: named, planned around without a lost packet, and cleared when put back.

`-rP` prints the times.
"""

import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import PortRef
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller, controlling
from tests.support.fabrics.plugs import exchange_plugs

pytestmark = pytest.mark.e2e  # it measures no rate: beside other tests it only takes longer

FABRIC = "version: 1\nname: plugs\ngenerate: {kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 2, gbps: 0.02}\n"
SIZE_BYTES = 400_000
TIMEOUT_S = 30.0
BEFORE = (PortRef("spine2", 1), PortRef("spine2", 3))
"""Exchanged before the controller starts: packets over them reach a wrong leaf, and are lost."""
LIVE = (PortRef("leaf4", 1), PortRef("leaf4", 3))
FLOOD = """
import socket, sys
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((sys.argv[1], 0))
frame = bytes.fromhex("0180c200000e020000000001 88cc 0209070000000000000001 050507 00000001 06020078".replace(" ", ""))
for _ in range(2000):
    raw.send(frame + bytes(60))
"""


class Stack(NamedTuple):
    lab: Lab
    controller: Controller

    def topology(self) -> pb.Topology:
        return self.controller.fabric.GetTopology(pb.GetTopologyRequest())

    def until(self, holds: Callable[[pb.Topology], bool]) -> float:
        """Wait until a topology holds what is wanted; return when it did."""
        end = time.monotonic() + TIMEOUT_S
        while not holds(found := self.topology()):
            assert time.monotonic() < end, [link for link in found.links if link.cabling] or found.miscablings
            time.sleep(0.02)
        return time.monotonic()

    def until_all_is_heard(self) -> None:
        """Wait until each port at a cable between switches hears its neighbour."""
        cables = self.lab.fabric.cable_by_link
        self.until(lambda topology: all(link.heard for link in topology.links if link.id in cables))


@contextmanager
def started(path: Path, text: str, plant: Callable[[Lab], object]) -> Iterator[Stack]:
    """Run a lab in which something was planted, and a controller all of whose switches have rules."""
    path.write_text(text)
    config = path.with_name("heddle.yaml")
    config.write_text("port_hold_ms: 100\n")
    with Lab(load_fabric(path)) as lab:
        plant(lab)
        with controlling(lab, path, "--config", str(config)) as running:
            yield Stack(lab, running)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    path = tmp_path_factory.mktemp("plugs") / "fabric.yaml"
    with started(path, FABRIC, lambda lab: exchange_plugs(lab, *BEFORE)) as found:
        began_s = time.monotonic()
        named_s = found.until(lambda topology: wrong(topology) == PLANTED and bool(texts(topology)))
        print(f"FIGURES named {named_s - began_s:.2f} s after all switches had rules")
        yield found


def wrong(topology: pb.Topology) -> set[str]:
    return {link.id for link in topology.links if link.cabling == "wrong"}


def texts(topology: pb.Topology) -> list[str]:
    return [cause.text for cause in topology.miscablings]


def both_ways(*cables: str) -> set[str]:
    return {way for cable in cables for way in (cable, ">".join(reversed(cable.split(">"))))}


PLANTED = both_ways("leaf1:2>spine2:1", "leaf3:2>spine2:3")


def test_plugs_exchanged_before_the_start_are_named_with_what_is_heard(stack):
    # One end of a cable is enough to name it: on a busy machine the other end is heard later.
    stack.until_all_is_heard()
    stack.until(lambda topology: {link.id for link in topology.links if link.left_out} == PLANTED)
    found = stack.topology()
    assert len(found.miscablings) == 1
    assert "spine2:1 and spine2:3 are exchanged" in texts(found)[0]
    heard = {link.id: link.heard for link in found.links}
    assert heard["leaf1:2>spine2:1"] == "spine2:3"
    assert heard["leaf2:2>spine2:2"] == "spine2:2"


def test_a_permutation_is_planned_around_them_and_loses_no_packet(stack):
    stack.until(lambda topology: all(link.left_out for link in topology.links if link.id in PLANTED))
    nics = [nic.id for nic in stack.lab.fabric.nics]
    pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + 3) % len(nics)) for rank in range(len(nics))]
    collective = pb.Collective(kind="SEND_RECV", bytes=SIZE_BYTES, pairs=pairs)
    plan = stack.controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id="a", ranks=nics, collectives=[collective]))
    assert not PLANTED & {link for flow in plan.flows for link in (*flow.links, *flow.reverse_links)}
    requests = [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=flow.rate_bps, size_bytes=SIZE_BYTES,
        )
        for flow in plan.flows
    ]  # fmt: skip
    result = stack.lab.run_flows(requests, TIMEOUT_S)
    stack.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="a"))
    assert result.completed
    assert sum(flow.lost_packets for flow in result.flows) == 0


def test_frames_that_a_host_sends_change_nothing(stack):
    stack.until_all_is_heard()
    before = stack.topology()
    host, nic = "h1", stack.lab.fabric.nics[0]
    assert nic.host == host
    with stack.lab.net.host(host).popen(["python3", "-c", FLOOD, stack.lab.net.device_of[nic.id]]) as process:
        _, failure = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, failure
    end = time.monotonic() + TIMEOUT_S
    while "of_host" not in frames(stack):
        assert time.monotonic() < end
        time.sleep(0.05)
    after = stack.topology()
    assert texts(after) == texts(before)
    assert {link.id: link.heard for link in after.links} == {link.id: link.heard for link in before.links}
    assert frames(stack)["of_host"] <= 2_000
    assert not {"forged", "replayed"} & frames(stack).keys()


def frames(stack: Stack) -> dict[str, int]:
    """Return what became of LLDP frames, by the metrics."""
    with urllib.request.urlopen(f"http://{stack.controller.http}/metrics", timeout=TIMEOUT_S) as reply:
        lines = reply.read().decode().splitlines()
    found = [line.split('"') for line in lines if line.startswith("heddle_lldp_frames_total{")]
    return {name: int(value.split()[-1]) for _, name, value in found}


def test_a_live_exchange_is_named_and_cleared_when_the_plugs_are_put_back(stack):
    exchanged = both_ways("leaf4:1>spine1:4", "leaf4:3>spine3:4")
    carrier_s = exchange_plugs(stack.lab, *LIVE)
    named_s = stack.until(lambda topology: exchanged <= wrong(topology))
    assert "leaf4:1 and leaf4:3 are exchanged" in " ".join(texts(stack.topology()))
    exchange_plugs(stack.lab, *LIVE)
    stack.until(lambda topology: wrong(topology) == PLANTED and len(topology.miscablings) == 1)
    stack.until(lambda topology: all(link.up and link.left_out == (link.id in PLANTED) for link in topology.links))
    assert {link.cabling for link in stack.topology().links if link.id not in PLANTED} == {""}
    print(f"FIGURES a live exchange was named {named_s - carrier_s:.2f} s after carrier")


@pytest.mark.soak
def test_three_faults_in_a_lab_of_24_switches_are_named(tmp_path):
    text = FABRIC.replace("spines: 4, leaves: 4, hosts_per_leaf: 2", "spines: 8, leaves: 16, hosts_per_leaf: 1")

    def plant(lab: Lab) -> None:
        lab.net.set_cable("leaf9:5>spine5:9", up=False)
        exchange_plugs(lab, PortRef("leaf1", 1), PortRef("leaf1", 2))
        exchange_plugs(lab, PortRef("spine2", 3), PortRef("spine3", 4))

    with started(tmp_path / "fabric.yaml", text, plant) as stack:
        began_s = time.monotonic()
        named_s = stack.until(lambda topology: len(wrong(topology)) == 8 and len(topology.miscablings) == 3)
        print(f"FIGURES named {named_s - began_s:.2f} s after all switches had rules")
        found = " ".join(texts(stack.topology()))
        assert "leaf1:1 and leaf1:2 are exchanged" in found
        assert "spine2:3 and spine3:4" in found
        assert "leaf9:5" in found
