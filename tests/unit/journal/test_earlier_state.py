"""What a controller of an earlier version left behind opens in this one with equal decisions.

`tests.support.controllers.written_state` wrote each folder of tests/data/earlier_states, at the commit in its name: a
config file, a state directory and a recording, and beside them the plans and networks as callers read them last.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format

from heddle.controller.config.load import load_fabric
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.controllers.written_state import JOBS, networks_of
from tests.support.processes.running_switches import switches

STATES = sorted((Path(__file__).parents[2] / "data" / "earlier_states").glob("*/"))
AFTER_A_START = ("renewedUnixMs", "leaseExpiresUnixMs")
"""What follows from the time of the start, and is no decision of before."""


@pytest.fixture(scope="module", params=STATES, ids=lambda path: path.name)
def earlier(request, tmp_path_factory):
    """Return a folder that an earlier version wrote, and a controller of this version that has opened a copy of it."""
    folder = tmp_path_factory.mktemp("upgrade") / "state"
    shutil.copytree(request.param, folder)
    config = (folder / "config.yaml").read_text().replace("record: record\n", f"record: {folder / 'record-of-now'}\n")
    (folder / "config.yaml").write_text(config)
    running = Controller(
        folder / "fabric.yaml", more=["--config", str(folder / "config.yaml"), "--state", str(folder / "state")]
    )
    try:
        with switches(load_fabric(folder / "fabric.yaml"), running.openflow):
            running.wait_for_rules()
            yield request.param, running
    finally:
        running.end()


def test_jobs_keep_their_paths_ports_and_rates(earlier):
    folder, running = earlier
    before = json.loads((folder / "jobs.json").read_text())
    assert [plan["jobId"] for plan in before] == ["ring", "phases", "pinned"]
    for plan in before:
        now = json_format.MessageToDict(running.jobs.GetJob(pb.GetJobRequest(job_id=plan["jobId"])))
        kept = {key: value for key, value in plan.items() if key not in AFTER_A_START}
        assert {key: now.get(key) for key in kept} == kept


def test_jobs_that_ended_stay_ended_and_drains_stay(earlier):
    _, running = earlier
    assert {plan.job_id for plan in running.jobs.ListJobs(pb.ListJobsRequest()).jobs} == {
        job.job_id for job in JOBS[:3]
    }
    links = running.fabric.GetTopology(pb.GetTopologyRequest()).links
    assert {link.id for link in links if link.drained} == {
        link.id for link in links if "pod2-agg2" in (link.src.split(":")[0], link.dst.split(":")[0])
    }


def test_networks_are_as_they_were(earlier):
    folder, running = earlier
    assert networks_of(running) == json.loads((folder / "networks.json").read_text())


@pytest.mark.parametrize("folder", STATES, ids=lambda path: path.name)
def test_recorded_events_are_decided_again_as_they_were(folder):
    command = [sys.executable, "-m", "heddle.programs.console.main", "replay", str(folder / "record")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("all decisions are the recorded ones\n")
