"""`heddle lab fabric --routed --srv6`: planned traffic without a rule or probe, around a cut, and after its repair."""

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from heddle.mininet_topos.host.registry import clear_dead_labs
from heddle.mininet_topos.playground.client import call, find_lab
from heddle.programs.console.client import connected
from heddle.v1 import heddle_pb2 as pb

pytestmark = pytest.mark.e2e
HEDDLE = ("env", "--default-signal=INT", sys.executable, "-m", "heddle.programs.console.main", "lab")
TIMEOUT_S = 200
FABRIC = "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 0.01}\n"
CABLE = "leaf1:1>spine1:1"
TRAFFIC = {"op": "traffic", "workload": "permutation", "planned": True, "seconds": 1, "rate_bps": 0, "seed": 1}


@pytest.fixture
def running(own_registry, tmp_path) -> Iterator[dict[str, Any]]:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    words = (*HEDDLE, "fabric", str(tmp_path / "fabric.yaml"), "--routed", "--srv6", "--json")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], TIMEOUT_S)[0]
        line = process.stdout.readline()
        assert line, process.communicate()
        yield json.loads(line)
    finally:
        process.kill()
        process.communicate()
        clear_dead_labs()


def test_planned_traffic_runs_before_a_cut_around_it_and_after_its_repair(running):
    lab = find_lab(None)
    with connected(running["grpc"]) as client:
        topology = client.fabric.GetTopology(pb.GetTopologyRequest())
    assert {switch.rules for switch in topology.switches} == {0}
    assert all(switch.srv6_locator for switch in topology.switches)

    words = (*HEDDLE[:-1], "check", "sids", running["directory"])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "".join(f"{leaf}: 2 cables, all return, 2 packets\n" for leaf in ("leaf1", "leaf2")), done
    assert done.returncode == 0

    def slowest_bps(paths: int = 0) -> int:
        found = call(lab, TRAFFIC | {"paths": paths})
        assert len(found["flows"]) == 4
        assert found["problems"] == []
        return min(flow["goodput_bps"] for flow in found["flows"])

    assert slowest_bps() > 0
    with ThreadPoolExecutor(1) as threads:
        beside: list[Future[dict[str, Any]]] = []

        def cut_once(progress: dict[str, Any]) -> None:
            if not beside and progress["seconds"] > 1:
                beside.append(threads.submit(call, lab, {"op": "cut", "link": CABLE}))

        found = call(lab, TRAFFIC | {"seconds": 4}, cut_once)
        known_ms = beside[0].result()["known_after_ms"]
    decided = {one["text"].partition(":")[0]: one["at_ns"] for one in found["moments"] if CABLE in one["text"]}
    after_ms = (decided["permutation"] - decided["fabric"]) / 1e6
    print(f"FIGURES cut known after {known_ms} ms, flows moved {after_ms:.0f} ms later")
    assert sum(flow["moves"] for flow in found["flows"]) > 0
    assert slowest_bps() > 0
    call(lab, {"op": "heal", "link": CABLE})
    assert slowest_bps() > 0
    assert slowest_bps(paths=2) > 0
