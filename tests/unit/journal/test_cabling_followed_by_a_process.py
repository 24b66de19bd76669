"""A controller process follows plugs that are moved under it, over a kill, and back: switches carry its LLDP frames."""

import contextlib
import time
import urllib.request
from collections.abc import Callable

import grpc
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.fabrics.grown_files import YARD
from tests.support.processes.cabled_switches import CabledSwitches

pytestmark = [pytest.mark.soak, pytest.mark.slow]
FABRIC = YARD.replace("spines: 2", "spines: 4").replace("leaves: 3", "leaves: 4")
FILE = parse_fabric(FABRIC, "yard")
PLUGS = ((PortRef("leaf1", 1), PortRef("leaf1", 2)), (PortRef("leaf2", 3), PortRef("leaf2", 8)))
"""Two plugs to exchange, and one to put into a spare port."""
FOUND = {"leaf1:1>spine2:1", "leaf1:2>spine1:1", "leaf2:8>spine3:2"}
LIMIT_S = 120.0
WATCHED_S = 12.0


def as_found(topology: pb.Topology) -> set[str]:
    return {link.id for link in topology.links if link.as_found and link.id.startswith("leaf")}


def until(controller: Controller, holds: Callable[[pb.Topology], bool]) -> pb.Topology:
    end = time.monotonic() + LIMIT_S
    while True:
        with contextlib.suppress(grpc.RpcError):
            found = controller.fabric.GetTopology(pb.GetTopologyRequest(), timeout=LIMIT_S)
            if holds(found) and all(switch.connected and switch.rules for switch in found.switches):
                return found
            assert time.monotonic() < end, (as_found(found), list(found.wrong_in_use), found.miscablings)
        time.sleep(0.05)


def lives(controller: Controller) -> int:
    """Return how often the cabling was followed in the last hour."""
    with urllib.request.urlopen(f"http://{controller.http}/metrics", timeout=LIMIT_S) as page:
        lines = page.read().decode().splitlines()
    return next(int(float(line.split()[-1])) for line in lines if line.startswith("heddle_cabling_followed "))


def sound(fabric: Fabric, topology: pb.Topology) -> bool:
    """Return whether both ends of all cables have been heard, and nothing is wrong."""
    heard = {link.id for link in topology.links if link.heard}
    return heard >= fabric.cable_by_link.keys() and not topology.miscablings and not as_found(topology)


@pytest.mark.timeout(600)
def test_moved_plugs_are_followed_kept_over_a_kill_and_followed_back_without_flapping(tmp_path):
    file, config = tmp_path / "yard.yaml", tmp_path / "heddle.yaml"
    file.write_text(FABRIC)
    config.write_text("cabling: follow\n")
    more = ("--config", str(config), "--state", str(tmp_path / "state"))
    controller = Controller(file, more=more)
    switches = CabledSwitches(FILE, spare=2)
    try:
        switches.connect(controller.openflow)
        until(controller, lambda found: sound(FILE, found))
        ranks = [f"h{number}-n0" for number in range(1, 9)]
        collectives = [pb.Collective(kind="ALL_TO_ALL", bytes=3_000)]
        controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id="mesh", ranks=ranks, collectives=collectives))
        switches.exchange(*PLUGS)
        until(controller, lambda found: as_found(found) == FOUND)
        controller.kill()
        address = controller.openflow
        controller = Controller(file, address, ("--grpc", controller.grpc, *more))
        quiet = time.monotonic() + WATCHED_S
        while time.monotonic() < quiet:
            assert as_found(until(controller, lambda found: True)) == FOUND
        until(controller, lambda found: not any(link.left_out for link in found.links))
        end = time.monotonic() + LIMIT_S
        while controller.jobs.GetJob(pb.GetJobRequest(job_id="mesh")).state != "running":
            assert time.monotonic() < end
            time.sleep(0.1)
        assert lives(controller) == 1
        switches.exchange(*PLUGS)
        until(controller, lambda found: sound(FILE, found))
        assert lives(controller) == 2
        assert "Traceback" not in file.with_suffix(".log").read_text()
    finally:
        controller.kill()
        switches.close()
