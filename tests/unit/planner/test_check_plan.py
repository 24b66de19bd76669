"""The checker as a command: it accepts the output of `heddle plan --json` and rejects a modified plan."""

import json

import pytest

from heddle.programs.console.plan import run_plan
from heddle.testing.plans.check_plan import main

FABRIC = {
    "version": 1,
    "name": "lab",
    "generate": {"kind": "spine_leaf", "spines": 2, "leaves": 3, "hosts_per_leaf": 2},
}
JOBS = {
    "version": 1,
    "jobs": [
        {
            "job_id": "ring",
            "ranks": {"all": True},
            "collectives": [{"kind": "RING_ALL_REDUCE", "bytes": 1000, "qps_per_flow": 2}],
        }
    ],
}


@pytest.fixture
def files(tmp_path, capsys):
    fabric, jobs, plan = (tmp_path / name for name in ("fabric.yaml", "jobs.yaml", "plan.json"))
    fabric.write_text(json.dumps(FABRIC))
    jobs.write_text(json.dumps(JOBS))
    run_plan(fabric, jobs, as_json=True, rules=False)
    plan.write_text(capsys.readouterr().out)
    return fabric, jobs, plan


def test_a_printed_plan_is_accepted(files, capsys):
    assert main(*map(str, files)) == 0
    assert capsys.readouterr().out.startswith("sound: 12 flows")


def test_a_flow_on_another_link_is_found(files, capsys):
    _, _, path = files
    plan = json.loads(path.read_text())
    flow = next(flow for flow in plan["jobs"][0]["flows"] if len(flow["links"]) == 4)
    flow["links"] = [flow["links"][0], *reversed(flow["links"][1:3]), flow["links"][3]]
    path.write_text(json.dumps(plan))
    assert main(*map(str, files)) == 1
    assert flow["flow_id"] in capsys.readouterr().out
