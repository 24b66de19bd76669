"""`heddle lab fabric --routed` and the commands of a second terminal: traffic, cut, heal, exec, Ctrl-C."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from heddle.controller.model.error import HeddleError
from heddle.mininet_topos.host.registry import clear_dead_labs
from heddle.mininet_topos.playground.client import call, find_lab
from tests.support.traces_of_labs import NOTHING, traces_of

pytestmark = pytest.mark.e2e
HEDDLE = ("env", "--default-signal=INT", sys.executable, "-m", "heddle.programs.console.main", "lab")
TIMEOUT_S = 200
FABRIC = "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, gbps: 0.02}\n"
CABLE = "leaf1:1>spine1:1"
TRAFFIC = {"op": "traffic", "workload": "permutation", "planned": False, "seconds": 1, "rate_bps": 0, "seed": 1}


@pytest.fixture
def running(own_registry, tmp_path) -> Iterator["tuple[subprocess.Popen[str], dict[str, Any]]"]:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    words = (*HEDDLE, "fabric", str(tmp_path / "fabric.yaml"), "--routed", "--routing", "group", "--json")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], TIMEOUT_S)[0]
        line = process.stdout.readline()
        assert line, process.communicate()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()
        clear_dead_labs()


def routes_of_leaf1(lab_id: str) -> str:
    words = [*HEDDLE, "exec", "--lab", lab_id, "leaf1", "ip", "nexthop", "show"]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ).stdout


def test_a_lab_of_routers_carries_traffic_routes_around_a_cut_and_leaves_nothing(running):
    process, ready = running
    lab = find_lab(None)
    assert (lab.id, ready["routing"]) == (ready["lab"], "group")
    seen: list[float] = []
    result = call(lab, TRAFFIC, lambda progress: seen.append(progress["rate_bps"]))
    assert min(flow["goodput_bps"] for flow in result["flows"]) > 0
    assert max(seen) > 0

    planned = call(lab, TRAFFIC | {"planned": True})["flows"]
    assert len(planned) == 2
    assert all(flow["goodput_bps"] > 0 for flow in planned)
    with pytest.raises(HeddleError, match=r"^storm needs switches that mark and pause; routers run permutation, ring"):
        call(lab, TRAFFIC | {"workload": "storm"})

    words = (*HEDDLE[:-1], "check", "fabric", ready["directory"], "--rate", "1000")
    check = subprocess.run(words, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check
    assert check.stdout.splitlines()[-1] == "2 of 2 leaves are fit for steering by source ports"

    both = routes_of_leaf1(lab.id)
    assert both.count("group") == 1
    assert "group 2/4 " in both
    assert call(lab, {"op": "cut", "link": CABLE})["link"] == CABLE
    assert "group 4 " in routes_of_leaf1(lab.id)
    assert min(flow["goodput_bps"] for flow in call(lab, TRAFFIC)["flows"]) > 0
    call(lab, {"op": "heal", "link": CABLE})
    assert "group 2/4 " in routes_of_leaf1(lab.id)

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    assert traces_of(lab.id) == NOTHING
