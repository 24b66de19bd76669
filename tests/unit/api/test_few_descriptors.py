"""With 1,024 file descriptors, 1,500 idle connections to each port leave room for switches, browsers and clients."""

import json
import subprocess
import sys
import urllib.request

import pytest

from heddle.controller.config import load_fabric
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.processes.running_switches import switches

FABRIC = "version: 1\nname: few\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 100}\n"


@pytest.mark.soak
def test_idle_connections_leave_descriptors_to_every_port(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    controller = Controller(path, limit=("prlimit", "--nofile=1024"))
    addresses = {"openflow": controller.openflow, "grpc": controller.grpc, "http": controller.http}
    command = [sys.executable, "-m", "tests.support.controllers.neighbours", "idle", json.dumps(addresses), "1500"]
    pipe = subprocess.PIPE
    try:
        controller.fabric.GetTopology(pb.GetTopologyRequest(), timeout=60)
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as idle:
            assert idle.stdin is not None
            assert idle.stdout is not None
            idle.stdin.write("[]\n")
            idle.stdin.flush()
            assert idle.stdout.readline() == "loaded\n"
            with switches(load_fabric(path), controller.openflow):
                assert len(controller.wait_for_rules().switches) == 6
                page = urllib.request.urlopen(f"http://{controller.http}/metrics", timeout=60).read().decode()
                assert 'heddle_limited_total{port="openflow",limit="gave_way"} 0\n' not in page
            idle.kill()
    finally:
        controller.end()
    assert "Traceback" not in path.with_suffix(".log").read_text()
