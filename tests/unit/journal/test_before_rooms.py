"""State directories and recordings of the version before its packages had other names still open.

tests/data/before_rooms was written by commit 5f8c8c83: a job of eight queue pairs, a VPC and a drain in the journal; in
the recording also a pinned job, a link that fails and returns, and the job's release.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.controllers.controller_process import Controller

BEFORE = Path(__file__).parents[2] / "data" / "before_rooms"
SINCE = ("certificate", "renewedUnixMs", "leaseExpiresUnixMs", "state", "reason")
"""What a restart may change of a plan: its lease, and what follows from no switch being connected."""


@pytest.fixture
def controller(tmp_path):
    shutil.copytree(BEFORE, tmp_path / "before")
    running = Controller(tmp_path / "before" / "fabric.yaml", more=["--state", str(tmp_path / "before" / "state")])
    try:
        yield running
    finally:
        running.end()


def test_a_state_directory_of_before_opens_with_its_jobs_networks_and_drains(controller):
    plan = json_format.MessageToDict(controller.jobs.GetJob(pb.GetJobRequest(job_id="ring")))
    before = json.loads((BEFORE / "ring.json").read_text())
    assert [flow["udpSourcePort"] for flow in plan["flows"]] == [flow["udpSourcePort"] for flow in before["flows"]]
    assert {key: value for key, value in plan.items() if key not in SINCE} == {
        key: value for key, value in before.items() if key not in SINCE
    }
    vpcs = rpc.VpcServiceStub(controller.channel).ListVpcs(pb.ListVpcsRequest()).vpcs
    assert [(vpc.id, vpc.vni, len(vpc.endpoints)) for vpc in vpcs] == [("red", 100, 1)]
    drained = [link.id for link in controller.fabric.GetTopology(pb.GetTopologyRequest()).links if link.drained]
    assert sorted(drained) == ["leaf2:1>spine1:2", "spine1:2>leaf2:1"]


def test_a_recording_of_before_is_decided_again_as_it_was():
    command = [sys.executable, "-m", "heddle.programs.console.main", "replay", str(BEFORE / "record")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("42 batches of events replayed, all decisions are the recorded ones\n")
