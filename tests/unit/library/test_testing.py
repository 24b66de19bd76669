"""What `heddle.testing` offers: the checker finds what is planted, the clock moves when it is moved."""

import subprocess
import sys
from dataclasses import replace

import pytest

import heddle
from heddle.controller.runtime.ports import Clock
from heddle.testing import FakeClock, check_plan
from heddle.testing.plans.check_plan import main


@pytest.fixture(scope="module")
def plan():
    fabric = heddle.spine_leaf(spines=2, leaves=2, hosts_per_leaf=2)
    shift = tuple(heddle.RankPair(src_rank=rank, dst_rank=(rank + 2) % 4) for rank in range(4))
    copy = heddle.Collective(kind=heddle.CollectiveKind.SEND_RECV, size_bytes=1, pairs=shift)
    return heddle.plan(fabric, [heddle.Job(job_id="a", ranks=tuple(fabric.nic_by_id), collectives=(copy,))])


def with_flows(plan, change):
    """Return the plan with other flows; a plan by hand, as a test of a planner would have it."""
    (job,) = plan.job_plans
    flows = [change(flow) for flow in job.flows.flows]
    changed = replace(job, flows=replace(job.flows, flows=flows))
    return heddle.Plan(
        fabric=plan.fabric,
        jobs=plan.jobs,
        offline=replace(plan.offline, jobs=(changed,)),
        certificate=plan.certificate,
    )


def test_a_sound_plan_has_no_violations_also_where_links_have_failed(plan):
    assert check_plan(plan) == []
    assert check_plan(heddle.plan(plan.fabric, plan.jobs, failed=["leaf1:1>spine1:1"])) == []


def test_a_path_over_a_failed_link_is_found(plan):
    severed = replace(plan.fabric, failed=heddle.plan(plan.fabric, (), failed=["leaf1:1>spine1:1"]).fabric.failed)
    found = check_plan(heddle.Plan(**{**vars_of(plan), "fabric": severed}))
    assert any(line.endswith("leaf1:1>spine1:1 is out of use") for line in found)


def vars_of(plan):
    return {name: getattr(plan, name) for name in ("fabric", "jobs", "offline", "certificate")}


def test_two_flows_on_one_link_are_no_longer_what_the_certificate_says(plan):
    first = plan.flows[0].links[1:3]
    crowded = with_flows(plan, lambda flow: replace(flow, links=(flow.links[0], *first, flow.links[3])))
    assert check_plan(crowded)


def test_a_rate_above_the_demand_is_found(plan):
    greedy = with_flows(plan, lambda flow: replace(flow, rate_bps=2 * flow.demand_bps))
    assert "a/0/0-2/0: sends more than it asks for" in check_plan(greedy)


def test_the_clock_has_the_times_of_a_controller_s_loop():
    clock = FakeClock(unix_ms=5)
    now: Clock = clock
    clock.advance(0.25)
    assert (now.unix_ms(), now.steady_unix_ms(), now.monotonic_ns()) == (255, 255, 250_000_000)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


def test_the_command_warns_of_nothing():
    command = [sys.executable, "-W", "error", "-m", "heddle.testing.plans.check_plan", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_command_names_what_it_cannot_read(tmp_path, capsys):
    (tmp_path / "fabric.yaml").write_text("version: [")
    assert main(str(tmp_path / "fabric.yaml"), "none", "none") == 2
    assert main(str(tmp_path / "none"), "none", "none") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"check_plan: {tmp_path}/fabric.yaml: cannot be read: ")
    assert "No such file" in lines[1]
