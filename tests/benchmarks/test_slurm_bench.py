"""`heddle bench slurm` without Slurm: the mix of jobs, what is counted of a run, the verdicts on hooks."""

import io

from heddle.benchmarks.slurm import benchmark, hooks
from heddle.benchmarks.slurm.hooks import BATCH, EMPTY, HUNG_AGENT, NONE, RUNNING, WITHOUT, Started
from heddle.benchmarks.slurm.mix import SEEDS, MixedJob, Run, drawn, fewest_leaves, leaves_used, planned
from tests.support.fabrics.planner_cases import fabric_of

FABRIC = fabric_of(spines=2, leaves=4, hosts_per_leaf=4)
LEAF_OF = {nic.host: nic.port.switch for nic in FABRIC.nics}


def ran(nodes, start_s, end_s, kind="RING_ALL_REDUCE"):
    job = MixedJob(len(nodes.split()), end_s - start_s, f"heddle: collective={kind}")
    return Run(job, tuple(nodes.split()), start_s, end_s)


def test_the_mix_of_a_seed_is_the_same_and_of_both_seeds_68_jobs_have_several_nodes():
    jobs = [job for seed in SEEDS for job in drawn(seed)]
    assert jobs == [job for seed in SEEDS for job in drawn(seed)]
    assert (len(jobs), sum(job.nodes > 1 for job in jobs)) == (80, 68)
    assert len({job.comment for job in jobs}) == 2


def test_leaves_that_a_job_uses_stand_beside_the_fewest():
    assert leaves_used(["h1", "h4", "h5"], LEAF_OF) == 2
    assert [fewest_leaves(nodes, 4) for nodes in (1, 4, 5, 8)] == [1, 1, 2, 2]


def test_the_fullest_link_counts_by_the_time_that_it_is_so_full():
    below_one_leaf, across_two = ran("h1 h2", 0.0, 10.0), ran("h5 h9", 5.0, 10.0)
    found = planned(FABRIC, [below_one_leaf, across_two, ran("h16", 0.0, 90.0)])
    assert (round(found.mean_fullest, 6), round(found.max_fullest, 6)) == (0.5, 1.0)
    assert (found.time_over_capacity, found.mean_share) == (0.0, 1.0)


def test_a_job_that_starts_when_another_ends_does_not_meet_it():
    found = planned(FABRIC, [ran("h5 h9", 0.0, 5.0), ran("h5 h9", 5.0, 10.0, "ALL_TO_ALL")])
    assert round(found.max_fullest, 6) == 1.0


def test_four_rings_between_two_leaves_with_two_cables_are_over_capacity_all_of_the_time():
    found = planned(FABRIC, [ran(f"h{n} h{n + 4}", 0.0, 10.0) for n in range(1, 5)])
    assert (round(found.mean_fullest, 6), found.time_over_capacity, found.mean_share) == (2.0, 1.0, 0.5)


def test_batch_jobs_are_judged_beside_batch_jobs():
    times = {NONE: 50, EMPTY: 150, RUNNING: 600, BATCH + NONE: 200, BATCH + EMPTY: 210, BATCH + RUNNING: 250}
    out = io.StringIO()
    rows = hooks.report(out, {case: [Started(ms, 1.0, 1.0)] * 3 for case, ms in times.items()})
    assert (rows[BATCH + RUNNING]["beside_none_ms"], rows[BATCH + RUNNING]["beside_empty_ms"]) == (50, 40)
    assert "beside empty: met" in out.getvalue()


def test_what_a_hook_adds_is_judged_beside_jobs_of_an_empty_hook_and_a_hung_one_beside_none(monkeypatch):
    times = {NONE: 50, EMPTY: 150, RUNNING: 249, WITHOUT: 201, HUNG_AGENT: 3_249}
    found = {case: [Started(ms, 1.0, 1.0)] * 3 for case, ms in times.items()}
    out = io.StringIO()
    rows = hooks.report(out, found)
    assert (rows[RUNNING]["beside_none_ms"], rows[RUNNING]["beside_empty_ms"]) == (199, 99)
    assert rows[RUNNING].keys() == rows[NONE].keys()
    verdicts = [line.rpartition(":")[2].strip() for line in out.getvalue().splitlines() if " beside " in line]
    assert verdicts == ["met", "MISSED", "met"]


def test_where_slurm_is_not_installed_one_line_says_so(monkeypatch):
    monkeypatch.setattr(benchmark, "MISSING", "slurmctld")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    out = io.StringIO()
    assert benchmark.run(out) == {}
    assert out.getvalue() == "slurmctld is not installed\n"
