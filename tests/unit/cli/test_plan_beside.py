"""`heddle plan --beside`: jobs beside a kept plan, what changed for it, and plan files that are refused."""

import json

import pytest

BLINK = """\
version: 1
jobs:
  - {job_id: blink, ranks: [h1-n0, h3-n0], collectives: [{kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 1}]}]}
"""
FIRST_UPLINK = "leaf1:1>spine1:1"


@pytest.fixture
def kept(heddle, files, tmp_path):
    """Plan the ring of all NICs and keep the plan; gives its file and its contents."""
    status, out, _ = heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", "--json")
    assert status == 0
    path = files("kept.json", out)
    files("blink.yaml", BLINK)
    return path, json.loads(out)


@pytest.fixture
def beside(heddle, kept, tmp_path):
    """Plan a job beside the kept plan; gives (exit status, standard output, standard error)."""

    def run(*options, fabric="fabric.yaml", jobs="blink.yaml"):
        return heddle("plan", tmp_path / fabric, tmp_path / jobs, "--beside", kept[0], *options)

    return run


def paths(job):
    return {flow["flow_id"]: (flow["links"], flow["udp_source_port"]) for flow in job["flows"]}


def test_kept_jobs_keep_their_paths_and_ports_beside_new_ones(beside, kept):
    found = json.loads(beside("--json")[1])
    ring, blink = found["jobs"]
    assert (ring["job_id"], ring["generation"], ring["reason"].split(";")[0]) == ("ring", "1", "kept")
    assert paths(ring) == paths(kept[1]["jobs"][0])
    assert (blink["job_id"], blink["reason"].split(";")[0]) == ("blink", "planned offline")
    (change,) = found["changes"]["jobs"]
    assert (found["changes"]["lost"], change["flows"], change["moved"]) == ({}, 8, [])
    # h3-n0 now receives from two NICs, and h1-n0 sends to two.
    assert (change["before"]["flows_slowed"], change["before"]["worst_share"]) == (0, 1.0)
    assert (change["after"]["flows_slowed"], change["after"]["worst_share"]) == (2, 0.5)


def test_only_flows_on_a_failed_link_move_and_all_are_counted(beside, kept):
    found = json.loads(beside("--json", "--failed", FIRST_UPLINK)[1])
    before, after = paths(kept[1]["jobs"][0]), paths(found["jobs"][0])
    dead = {FIRST_UPLINK, "spine1:1>leaf1:1"}
    crossed = [
        flow["flow_id"] for flow in kept[1]["jobs"][0]["flows"] if dead & {*flow["links"], *flow["reverse_links"]}
    ]
    (change,) = found["changes"]["jobs"]
    assert crossed
    assert change["moved"] == crossed
    assert found["changes"]["lost"] == {FIRST_UPLINK: len(crossed)}
    assert [name for name in before if before[name] != after[name]] == crossed
    assert not any(dead & {*links} for links, _ in after.values())
    assert (found["jobs"][0]["generation"], found["jobs"][0]["certificate"]["flows_moved"]) == ("2", len(crossed))
    assert found["jobs"][0]["reason"].startswith(f"{len(crossed)} of 8 flows moved off failed links")


def test_the_table_shows_what_changed_for_kept_jobs(beside):
    status, out, err = beside("--failed", FIRST_UPLINK)
    assert (status, err) == (0, "")
    assert f"paths of kept jobs that {FIRST_UPLINK} takes, planned again: 1" in out
    assert "kept jobs, before -> after" in out
    assert "flows slowed" in out


def test_a_plan_with_kept_jobs_can_be_kept_in_turn(beside, files, heddle, tmp_path):
    files("second.json", beside("--json", "--failed", FIRST_UPLINK)[1])
    files("none.yaml", "version: 1\njobs: []\n")
    third = heddle(
        "plan", tmp_path / "fabric.yaml", tmp_path / "none.yaml", "--beside", tmp_path / "second.json", "--json"
    )
    found = json.loads(third[1])
    assert [(job["job_id"], job["generation"]) for job in found["jobs"]] == [("ring", "2"), ("blink", "1")]
    assert [change["moved"] for change in found["changes"]["jobs"]] == [[], []]


PINS = """\
version: 1
jobs:
  - {job_id: a, priority: 1, ranks: [h1-n0, h3-n0], collectives: [{kind: RING_ALL_REDUCE, bytes: 9, qps_per_flow: 4}]}
  - {job_id: b, ranks: [h1-n0, h3-n0], collectives: [{kind: RING_ALL_REDUCE, bytes: 9}], steering: PIN}
  - job_id: c
    ranks: [h1-n0, h3-n0]
    collectives: [{kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 1, udp_source_port: 50000}]}]
"""


def test_a_kept_plan_alone_has_the_same_flows_and_rules_again(heddle, files, tmp_path):
    fabric, none = tmp_path / "fabric.yaml", files("none.yaml", "version: 1\njobs: []\n")
    text = heddle("plan", fabric, files("pins.yaml", PINS), "--json", "--rules")[1]
    again = json.loads(heddle("plan", fabric, none, "--beside", files("pins.json", text), "--json", "--rules")[1])
    first = json.loads(text)
    assert any(rule["kind"] == "PIN" for rule in first["rules"])
    assert again["rules"] == first["rules"]
    assert [job["flows"] for job in again["jobs"]] == [job["flows"] for job in first["jobs"]]


def test_a_link_may_fail_without_a_kept_plan(heddle, files, tmp_path):
    out = heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", "--json", "--failed", FIRST_UPLINK)[1]
    assert FIRST_UPLINK not in {link for flow in json.loads(out)["jobs"][0]["flows"] for link in flow["links"]}


def one_line(found, *parts):
    status, out, err = found
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert all(part in err for part in parts), err


def test_a_failed_name_that_is_no_link_is_one_line(beside):
    one_line(beside("--failed", "leaf1:1>spine9:1"), "--failed: no link or switch named 'leaf1:1>spine9:1'")


def test_a_plan_of_another_fabric_is_one_line(beside, files):
    files(
        "other.yaml", "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 200}\n"
    )
    one_line(beside(fabric="other.yaml"), "kept.json: fabric: ", "another fabric", "heddle plan FABRIC JOBS --json")


def test_failures_do_not_make_another_fabric(beside, files, tmp_path):
    files("sick.yaml", (tmp_path / "fabric.yaml").read_text() + f'failed: ["{FIRST_UPLINK}"]\n')
    assert beside(fabric="sick.yaml")[0] == 0


def test_a_plan_of_an_older_format_is_one_line(beside, files, kept):
    files("kept.json", json.dumps({"jobs": kept[1]["jobs"]}))
    one_line(beside(), "kept.json: fabric: missing: an older version", "heddle plan FABRIC JOBS --json")


def test_a_job_id_that_the_kept_plan_has_is_one_line(beside):
    one_line(beside(jobs="jobs.yaml"), "jobs.yaml: jobs[0].job_id: ring", "choose another")


def flow_with(**fields):
    return lambda plan: plan["jobs"][0]["flows"][3].update(fields)


FLAWS = {
    "a link that does not exist": (
        flow_with(links=["h4-n0>leaf2:4", "leaf2:9>spine1:2", "spine1:3>leaf3:1", "leaf3:3>h5-n0"]),
        "jobs[0].flows[3].links: no link 'leaf2:9>spine1:2' in this fabric",
    ),
    "links that do not meet": (
        flow_with(links=["h4-n0>leaf2:4", "leaf1:1>spine1:1", "spine1:3>leaf3:1", "leaf3:3>h5-n0"]),
        "jobs[0].flows[3].links: no path from h4-n0 to h5-n0",
    ),
    "a path that ends elsewhere": (
        flow_with(reverse_links=["h5-n0>leaf3:3", "leaf3:4>h6-n0"]),
        "jobs[0].flows[3].reverse_links: no path from h5-n0 to h4-n0",
    ),
    "a path over a NIC": (
        flow_with(links=["h4-n0>leaf2:4", "leaf2:4>h4-n0", "leaf3:3>h5-n0"]),
        "jobs[0].flows[3].links: no path from h4-n0 to h5-n0",
    ),
    "a flow of another name": (flow_with(flow_id="ring/0/7-7/0"), "jobs[0].flows[3].flow_id: is 'ring/0/7-7/0'"),
    "another demand": (flow_with(demand_bps="5"), "jobs[0].flows[3].demand_bps: is 5"),
    "a flow too few": (lambda plan: plan["jobs"][0]["flows"].pop(), "jobs[0].flows[7].flow_id: 7 flows"),
    "a number for a text": (flow_with(demand_bps=5), "jobs[0].flows[3].demand_bps: must be a number in quotes"),
    "a port of no plan": (flow_with(udp_source_port=4791), "jobs[0].flows[3].udp_source_port: must be at least 49152"),
    "a number above its limit": (
        lambda plan: plan["jobs"][0].update(generation="9" * 20),
        "jobs[0].generation: must be below",
    ),
    "a link that is no text": (flow_with(links=[1, 2]), "jobs[0].flows[3].links[0]: must be a text"),
    "an unknown rank": (lambda plan: plan["requests"][0]["ranks"].__setitem__(2, "x"), "requests[0].ranks[2]"),
    "a job without a request": (lambda plan: plan["requests"].clear(), "requests: are not the jobs of `jobs`"),
    "no jobs": (lambda plan: plan.pop("jobs"), "jobs: missing: this is no plan"),
    "jobs of another type": (lambda plan: plan.update(jobs={}), "jobs: must be a list"),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_plan_file_that_was_changed_is_one_line_with_its_place(beside, files, kept, flaw):
    spoil, where = FLAWS[flaw]
    spoil(kept[1])
    files("kept.json", json.dumps(kept[1]))
    one_line(beside(), f"kept.json: {where}")


@pytest.mark.parametrize("text", ["version: 1\njobs: []\n", "", "[" * 100_000, '{"jobs": ' + "9" * 5_000 + "}", "[]"])
def test_a_file_that_is_no_plan_is_one_line(beside, files, text):
    files("kept.json", text)
    one_line(beside(), "kept.json: ")


def test_a_plan_whose_ports_were_made_for_another_port_layout_is_refused(beside, kept, files):
    """An earlier version read the bits of three tiers elsewhere; here one port of the plan names another spine."""
    plan = kept[1]
    flow = next(flow for flow in plan["jobs"][0]["flows"] if len(flow["links"]) > 2)
    flow["udp_source_port"] ^= 0x2000
    kept[0].write_text(json.dumps(plan))
    status, _, err = beside()
    assert status == 2
    assert "its source ports lead elsewhere than its links" in err
