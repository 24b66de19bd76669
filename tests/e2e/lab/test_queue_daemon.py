"""The queue daemon of a lab: its life, its death, and NICs that send through it; nothing here measures a rate."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.registry import clear_dead_labs
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from tests.support.fabrics.small_fabrics import spine_leaf
from tests.support.traces_of_labs import NOTHING, traces_of

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
]
LINE_BPS = 20_000_000


def test_a_daemon_that_died_is_reported_in_one_line_and_the_lab_still_removes_everything():
    with Lab(spine_leaf(1, 1, 2), queues=QueueSettings()) as lab:
        lab_id = lab.id
        ended = processes_of(lab, "heddle.mininet_topos.queues.daemon")
        for pid in ended:
            os.kill(pid, signal.SIGKILL)
        while processes_of(lab, "heddle.mininet_topos.queues.daemon"):
            time.sleep(0.01)
        with pytest.raises(PrerequisiteError, match="queue daemon ended unexpectedly"):
            lab.queues.counters()
    assert len(ended) == 1
    assert traces_of(lab_id) == NOTHING


def processes_of(lab: Lab, program: str) -> list[int]:
    pids = map(int, traces_of(lab.id)["processes"])
    return [pid for pid in pids if program in Path(f"/proc/{pid}/cmdline").read_text()]


def test_the_queues_of_a_killed_lab_are_removed_with_it():
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.lab_process", "queues"],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    lab_id = process.stdout.readline().strip()
    process.kill()
    process.communicate(timeout=30)
    clear_dead_labs()
    assert traces_of(lab_id) == NOTHING


def test_the_lab_s_own_nics_run_balanced_over_the_queues():
    with Lab(spine_leaf(2, 2, 4), queues=QueueSettings(pfc=False)) as lab:
        lab.ecmp.load()
        requests = [
            FlowRequest(
                flow_id=f"f{n}",
                src_nic=source,
                dst_nic="h4-n0",
                udp_source_port=0xC000 + n,
                reverse_udp_source_port=0xD000 + n,
                rate_bps=LINE_BPS,
                size_bytes=1_000_000,
            )
            for n, source in enumerate(("h1-n0", "h2-n0", "h3-n0"))
        ]
        result = lab.run_flows(requests, timeout_s=60)
        lab_id = lab.id
    assert result.completed
    assert result.integrity.valid, str(result.integrity)
    assert sum(result.queue_drops.values()) > 0
    assert traces_of(lab_id) == NOTHING
