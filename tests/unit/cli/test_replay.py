"""`heddle replay`: what a controller process recorded until it was killed."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from heddle.controller.api.translate import request_to
from heddle.controller.model.job import Steering
from heddle.controller.recording.segment import HEADER
from heddle.testing.switches.openflow_switch import FakeSwitch
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.fabrics.planner_cases import fabric_of
from tests.unit.brain.driver import shift_job


async def incident(running):
    """Plan a job, cut one of its links, wait until it has other paths."""
    host, port = running.openflow.split(":")
    switches = {switch.id: FakeSwitch(switch.datapath_id) for switch in fabric_of().switches}
    for switch in switches.values():
        await switch.connect(host, int(port))
    await asyncio.to_thread(running.wait_for_rules)
    request = shift_job("pinned", ranks=4, steering=Steering.PIN)
    await asyncio.to_thread(running.jobs.SubmitJob, request_to(request))
    switches["leaf1"].set_port(1, up=False)
    watch = pb.WatchJobRequest(job_id="pinned", changes_only=True)
    await asyncio.to_thread(next, (plan for plan in running.jobs.WatchJob(watch) if plan.state == "degraded"))
    for switch in switches.values():
        await switch.disconnect()


def replayed(recording, seed="0"):
    command = [sys.executable, "-m", "heddle.programs.console.main", "replay", str(recording)]
    return subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Return what a controller recorded until it was killed, after its thread had written the incident to the file."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "fabric.yaml").write_text(
        "version: 1\nname: lab\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2}\n"
    )
    (folder / "config.yaml").write_text(f"record: {folder / 'record'}\n")
    running = Controller(folder / "fabric.yaml", more=["--config", str(folder / "config.yaml")])
    try:
        asyncio.run(incident(running))
        end = time.monotonic() + 60
        while "degraded" not in replayed(folder / "record").stdout and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        running.kill()
    return folder / "record"


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_killed_controller_is_replayed_in_a_process_with_another_order_of_sets(recording, seed):
    done = replayed(recording, seed)
    assert (done.returncode, done.stderr) == (0, "")
    assert "port leaf1:1 down" in done.stdout
    assert "publish job pinned generation 2 degraded: link leaf1:1>spine1:1 down; " in done.stdout
    assert "all decisions are the recorded ones" in done.stdout


def test_a_jobs_decisions_are_printed_as_json(heddle, recording):
    status, out, _ = heddle("replay", recording, "--job", "pinned", "--json")
    decided = [json.loads(line)["decisions"] for line in out.splitlines()]
    assert status == 0
    assert any("job pinned generation 1 running" in text for texts in decided for text in texts)
    assert heddle("replay", recording, "--job", "other", "--json") == (0, "", "")


def test_only_what_follows_a_time_is_printed(heddle, recording):
    status, out, _ = heddle("replay", recording, "--from", "2999-01-01T00:00:00Z", "--json")
    assert (status, out) == (0, "")
    status, _, error = heddle("replay", recording, "--from", "yesterday")
    assert (status, error) == (2, "heddle: --from: 'yesterday' is no time; write 2026-11-22T23:01:05Z\n")


def test_a_damaged_file_is_one_line_and_status_2(heddle, recording, tmp_path):
    whole = min(recording.iterdir()).read_bytes()
    at = len(HEADER) + 100
    (tmp_path / "one").write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
    status, _, error = heddle("replay", tmp_path / "one")
    assert status == 2
    assert error.startswith(f"heddle: {tmp_path / 'one'}: damaged: ")
    assert error.count("\n") == 1
    status, _, error = heddle("replay", tmp_path / "none")
    assert (status, error) == (2, f"heddle: {tmp_path / 'none'}: No such file or directory\n")


def test_another_decision_is_named_with_status_1(heddle, recording, tmp_path, monkeypatch):
    shutil.copytree(recording, tmp_path / "record")
    monkeypatch.setattr("heddle.controller.brain.transactions.replan.MAX_REASONS", 0)
    monkeypatch.setattr("heddle.controller.brain.switches.MAX_NAMED", 0)
    status, _, error = heddle("replay", tmp_path / "record")
    assert status == 1
    assert "Note with other values (after: port leaf1:1 down)" in error
