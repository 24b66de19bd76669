"""A lab leaves nothing behind, however it ends, and does not disturb other labs."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from heddle.mininet_topos.host.registry import clear_dead_labs
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.switches.fabric_net import FabricNet
from tests.support.fabrics.small_fabrics import clos3, spine_leaf
from tests.support.traces_of_labs import NOTHING, assert_settings_as_before, free_settings, traces_of

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]


def start_lab_process() -> tuple[subprocess.Popen, str]:
    """Start a lab in a process of its own; return it and the lab's id, once traffic flows."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.lab_process"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_lab_that_is_left_leaves_nothing():
    with Lab(spine_leaf(2, 2, 2)) as lab:
        lab_id = lab.id
        present = traces_of(lab_id)
    assert all(present.values())
    assert traces_of(lab_id) == NOTHING


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_run_leaves_nothing(number):
    process, lab_id = start_lab_process()
    process.send_signal(number)
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    assert traces_of(lab_id) == NOTHING


def test_what_a_killed_lab_left_is_cleared_by_the_next_start_and_nothing_else(own_registry):
    with Lab(spine_leaf(1, 1, 2)) as neighbour:
        process, lab_id = start_lab_process()
        process.kill()
        process.communicate(timeout=30)
        left = traces_of(lab_id)
        clear_dead_labs()
        assert left["interfaces"]
        assert left["files"]
        assert traces_of(lab_id) == NOTHING
        assert all(traces_of(neighbour.id).values())
        assert " 0% packet loss" in _ping_under_ecmp(neighbour)


def _ping_under_ecmp(lab: Lab) -> str:
    lab.ecmp.load()
    return lab.net.host("h1").cmd("ping -c 1 -W 5 10.0.0.2")


def test_two_labs_run_side_by_side():
    with Lab(spine_leaf(1, 2, 2)) as one, Lab(spine_leaf(1, 2, 2)) as other:
        for lab in (one, other):
            lab.ecmp.load()
        request = FlowRequest(
            flow_id="f",
            src_nic="h1-n0",
            dst_nic="h2-n0",
            udp_source_port=0xC000,
            reverse_udp_source_port=0xC000,
            rate_bps=10_000_000,
            size_bytes=200_000,
        )
        results = [lab.run_flows([request], timeout_s=30) for lab in (one, other)]
        ids = (one.id, other.id)
    assert [result.valid and result.completed for result in results] == [True, True]
    assert [traces_of(lab_id) for lab_id in ids] == [NOTHING, NOTHING]


def test_a_lab_that_fails_half_way_up_leaves_nothing(monkeypatch):
    seen = []

    def fail(net: FabricNet) -> None:
        seen.append(net._entry.id)
        raise RuntimeError("half way")

    monkeypatch.setattr(FabricNet, "_check_port_numbers", fail)
    with pytest.raises(RuntimeError, match="half way"):
        Lab(spine_leaf(1, 1, 2)).start()
    assert traces_of(seen[0]) == NOTHING


def test_settings_of_the_machine_are_those_of_before_when_the_last_lab_is_gone():
    before = free_settings()
    limits = Path("/proc/sys/fs/file-max").read_text()
    with Lab(spine_leaf(1, 1, 2)):
        assert Path("/proc/sys/net/core/wmem_default").read_text().strip() == "33554432"
    assert_settings_as_before(before)
    assert Path("/proc/sys/fs/file-max").read_text() == limits


def test_three_tiers_under_ecmp_use_every_uplink_of_every_switch():
    fabric = clos3(pods=2, leaves=1, aggs=2, cores=4)
    with Lab(fabric) as lab:
        lab.ecmp.load()
        stream = lab.stream_of(
            FlowRequest(
                flow_id="f",
                src_nic="h1-n0",
                dst_nic="h2-n0",
                udp_source_port=1,
                reverse_udp_source_port=1,
                rate_bps=1,
                size_bytes=1,
            )
        )
        paths = [lab.path_of(stream._replace(udp_source_port=port)) for port in range(0xC000, 0xC040)]
    uplinks = {path[1:3] for path in paths}
    assert {len(path) for path in paths} == {6}
    assert len(uplinks) == 4, "a switch that hashed like the one below would leave some of its uplinks idle"
