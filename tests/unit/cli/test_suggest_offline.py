"""`heddle suggest`: placements on a fabric file, without a controller."""

import json

import pytest

RING = ("--collective", "RING_ALL_REDUCE", "--bytes", "1000000")
RAILS = """\
version: 1
generate: {kind: rail_optimised, spines: 3, leaves: 3, hosts_per_leaf: 2, nics_per_host: 3, gbps: 25}
"""
PAIR = """\
version: 1
jobs: [{job_id: pair, ranks: [h1-n0, h3-n0], collectives: [{kind: RING_ALL_REDUCE, bytes: 1000}]}]
"""


@pytest.fixture
def suggested(heddle, files, tmp_path):
    """Suggest on a fabric file; gives the placements."""

    def run(*options, fabric="fabric.yaml"):
        status, out, err = heddle("suggest", tmp_path / fabric, *RING, *options, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)["placements"]

    return run


def test_a_ring_on_a_part_of_a_host_keeps_its_rails(suggested, files):
    files("rails.yaml", RAILS)
    for ranks in (4, 5, 6):
        best, *_ = suggested("--ranks", ranks, fabric="rails.yaml")
        assert best["own_max_link_utilisation"] == 0
        assert len(set(best["nics"])) == ranks


def test_a_table_has_the_nics_and_the_reason(heddle, files, tmp_path):
    status, out, err = heddle("suggest", tmp_path / "fabric.yaml", "--ranks", 2, *RING)
    assert (status, err) == (0, "")
    assert "h1-n0 h2-n0" in out
    assert "fewest" in out


def test_jobs_of_a_kept_plan_hold_their_gpus_and_failed_links_are_not_used(heddle, suggested, files, tmp_path):
    status, plan, _ = heddle("plan", tmp_path / "fabric.yaml", files("pair.yaml", PAIR), "--json")
    assert status == 0
    beside = ("--beside", files("kept.json", plan))
    taken = {nic for place in suggested("--ranks", 2, *beside) for nic in place["nics"]}
    assert taken.isdisjoint(("h1-n0", "h3-n0"))
    assert "h1-n0" in {nic for place in suggested("--ranks", 2) for nic in place["nics"]}
    lost = json.loads(plan)["jobs"][0]["flows"][0]["links"][1]
    alone = suggested("--ranks", 3, *beside, "--failed", lost)
    assert alone[0]["max_link_utilisation"] > 0
    (best, *_) = suggested("--ranks", 2, "--failed", "leaf1")
    assert {"h1-n0", "h2-n0"}.isdisjoint(best["nics"])


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--ranks", 99), 3, "99 ranks asked for, 8 free: ask for at most 8"),
        (("--ranks", 2, "--failed", "leaf9"), 2, "--failed: "),
        (("--ranks", 2, "--qps", 99), 2, "qps_per_flow"),
        (("--ranks", 2, "--beside", "none.json"), 2, "none.json"),
    ],
)
def test_what_cannot_be_suggested_is_one_line(heddle, files, tmp_path, options, status, said):
    found, out, err = heddle("suggest", tmp_path / "fabric.yaml", *RING, *options)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert said in err


def test_the_file_may_not_be_a_fabric(heddle, files, tmp_path):
    status, out, err = heddle("suggest", tmp_path / "jobs.yaml", "--ranks", 2, *RING)
    assert (status, out) == (2, "")
    assert "jobs.yaml" in err
