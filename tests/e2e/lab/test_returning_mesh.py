"""Agents of a lab of routers send probes that return by their SIDs: a cable that loses packets is named, alone.

`-rP` prints the times.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import PortRef
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.v1 import heddle_pb2 as pb
from tests.e2e.lab.test_srv6_paths import exchange
from tests.support.controllers.controller_process import Controller
from tests.support.lossy_cable import lossy

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

FABRIC = (
    "version: 1\nsteering: srv6\ngenerate: {kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 2, gbps: 0.05}\n"
)
LINK, CABLE = "spine2:3>leaf3:2", "leaf3:2>spine2:3"
TIMEOUT_S = 60.0


@contextmanager
def agents(lab: RoutedLab, controller: Controller, directory: Path) -> Iterator[None]:
    """Run the probe agents of all hosts in one process."""
    net = lab.net
    file = directory / "hosts.json"
    file.write_text(
        json.dumps(
            {
                host: {"pid": net.host(host).pid, "devices": [net.device_of[nic.id] for nic in nics]}
                for host, nics in net.nics_of_host.items()
            }
        )
    )
    words = [sys.executable, "-m", "heddle.mininet_topos.routed.probe_agents", controller.grpc, str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]
            yield
        finally:
            process.kill()


def faults(controller: Controller) -> dict[str, str]:
    """Return what is wrong with cables, by the id of each direction."""
    found = controller.fabric.GetTopology(pb.GetTopologyRequest())
    return {link.id: link.fault for link in found.links if link.fault}


@contextmanager
def probed(tmp_path: Path) -> Iterator[tuple[RoutedLab, Controller]]:
    """Run a lab of routers with a controller and probe agents."""
    path, settings = tmp_path / "fabric.yaml", tmp_path / "heddle.yaml"
    path.write_text(FABRIC)
    settings.write_text(json.dumps({"mesh_probes_pps": 20}))
    with RoutedLab(load_fabric(path)) as lab:
        controller = Controller(path, more=("--config", str(settings)))
        try:
            with agents(lab, controller, tmp_path):
                yield lab, controller
        finally:
            controller.end()


def conditions(controller: Controller) -> list[str]:
    """Return the causes of wrong cables that were raised so far."""
    events = controller.telemetry.WatchEvents(pb.WatchEventsRequest(history_only=True))
    return [event.text for event in events if event.kind == "cabling_raised"]


def test_two_exchanged_cables_are_a_condition_that_names_both(tmp_path):
    with probed(tmp_path) as (lab, controller):
        time.sleep(10)
        assert conditions(controller) == []
        began_s = time.monotonic()
        exchange(lab, PortRef("leaf1", 1), PortRef("leaf1", 2))
        while not conditions(controller):
            assert time.monotonic() - began_s < TIMEOUT_S, faults(controller)
            time.sleep(0.2)
        print(f"FIGURES two exchanged cables were named after {time.monotonic() - began_s:.1f} s")
        assert conditions(controller) == ["leaf1:1 and leaf1:2 are exchanged"]


def test_a_cable_that_loses_packets_is_named_and_left_out_of_plans(tmp_path):
    with probed(tmp_path) as (lab, controller):
        nics = [nic.id for nic in lab.fabric.nics]
        ring = pb.Collective(kind="RING_ALL_REDUCE", bytes=400_000)
        controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id="a", ranks=nics, collectives=[ring]))
        time.sleep(10)  # four turns of a sound fabric
        assert faults(controller) == {}
        with lossy(lab, LINK, 0.5):
            began_s = time.monotonic()
            while "left out of plans" not in faults(controller).get(LINK, ""):
                assert time.monotonic() - began_s < TIMEOUT_S, faults(controller)
                time.sleep(0.1)
            print(f"FIGURES a loss of 50 % one way: left out after {time.monotonic() - began_s:.1f} s")
            assert set(faults(controller)) == {CABLE, LINK}
        plan = controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
    assert not {CABLE, LINK} & {link for flow in plan.flows for link in (*flow.links, *flow.reverse_links)}
