"""`heddle plan --planner`: the plan of an installed planner, or one line and the exit status of its failure."""

import json

import pytest

from tests.unit.library.test_planners import install, planner

BAD = "return {demand.flow_id: [demand.src_nic] for demand in problem.demands}"
GOOD = "return {demand.flow_id: next(problem.shortest_paths(demand)) for demand in problem.demands}"


@pytest.fixture
def command(heddle, files, tmp_path, monkeypatch):
    """Run `heddle plan` with a planner of this body."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))

    def run(body):
        install(site, "odd", planner(body), "x = odd:Planner")
        return heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", "--json", "--planner", "x")

    return run


def test_its_paths_are_those_of_the_plan(command):
    status, out, err = command(GOOD)
    assert (status, err) == (0, "")
    (job,) = json.loads(out)["jobs"]
    assert job["reason"] == "planned offline by x"
    assert {flow["links"][1] for flow in job["flows"] if len(flow["links"]) > 2 and flow["src_nic"] == "h2-n0"} == {
        "leaf1:1>spine1:1"
    }


def test_its_failure_is_one_line_and_exit_status_3(command):
    status, out, err = command(BAD)
    assert (status, out) == (3, "")
    assert err.startswith("heddle: planner x: flow ring/0/")
    assert err.count("\n") == 1


def test_a_planner_that_is_not_installed_is_exit_status_2(heddle, files, tmp_path):
    status, out, err = heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", "--planner", "none")
    assert (status, out) == (2, "")
    assert err.startswith("heddle: no planner named 'none' (")
