import json

import pytest
from google.protobuf.json_format import Parse, ParseDict

from heddle.kernels import cache
from heddle.library import solving
from heddle.v1 import heddle_pb2 as pb

PAIR = """\
version: 1
jobs:
  - {job_id: pair, ranks: [h1-n0, h3-n0], collectives: [{kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 1}]}]}
"""


def test_the_plan_table_shows_the_proof_and_every_flow(heddle, files, tmp_path):
    status, out, err = heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml")
    assert (status, err) == (0, "")
    assert "no plan can beat" in out
    assert "optimal" in out
    assert all(f"0/{i}-{(i + 1) % 8}/0" in out for i in range(8))


def test_the_json_plan_is_protobufs_json_of_all_jobs_with_defaults(heddle, files, tmp_path):
    status, out, _ = heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", "--json")
    found = json.loads(out)
    plan = ParseDict(found["jobs"][0], pb.JobPlan())
    assert status == 0
    assert list(found) == ["jobs", "fabric", "requests", "hints"]
    assert (plan.job_id, plan.generation, len(plan.flows)) == ("ring", 1, 8)
    assert found["jobs"][0]["flows"][0]["queue_pair"] == 0
    assert Parse(json.dumps(found["jobs"][0]), pb.JobPlan()) == plan


def test_turns_are_in_the_table_and_in_the_json(heddle, files, tmp_path):
    gather = "{job_id: g, ranks: {all: true}, incast: WINDOWS, collectives: [{kind: GATHER, bytes: 8}]}"
    jobs = files("gather.yaml", f"version: 1\njobs: [{gather}]\n")
    shown = heddle("plan", tmp_path / "fabric.yaml", jobs)[1]
    assert "incast of 7 senders into h1-n0: they take turns in 7 slots of 100 us" in shown.replace("\n", " ")
    assert "6 of 7, 100 us" in shown
    (job,) = json.loads(heddle("plan", tmp_path / "fabric.yaml", jobs, "--json")[1])["jobs"]
    assert job["reason"].startswith("planned offline; incast of 7 senders into h1-n0: they take turns")
    assert sorted(flow["window"]["slot"] for flow in job["flows"]) == list(range(7))


def test_the_same_input_gives_the_same_plan_but_for_the_time_it_took(heddle, files, tmp_path):
    plans = []
    for _ in range(2):
        plan = json.loads(heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", "--json")[1])["jobs"][0]
        plan["certificate"].pop("solve_ns")
        plans.append(plan)
    assert plans[0] == plans[1]


@pytest.mark.parametrize(("compiles", "limit_ns", "times"), [(False, 10**18, 2), (False, 0, 1), (True, 0, 2)])
def test_a_search_that_took_kernels_is_measured_without_them(monkeypatch, compiles, limit_ns, times):
    runs = []

    def draft():
        runs.append("")
        if len(runs) == 1:
            monkeypatch.setattr(cache._Ready, "count", cache._Ready.count + 1)
            for observer in cache._observers if compiles else ():
                observer("kernel")

    monkeypatch.setattr(cache, "_observers", [solving._compiled.append])
    monkeypatch.setattr(solving, "LONG_NS", limit_ns)
    solving._drafted(draft)
    assert len(runs) == times


def test_rules_name_switch_table_priority_match_and_actions(heddle, files, tmp_path):
    status, out, _ = heddle("plan", tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", "--json", "--rules")
    found = json.loads(out)
    assert status == 0
    assert {row["switch"] for row in found["rules"]} == {"spine1", "spine2", "leaf1", "leaf2", "leaf3", "leaf4"}
    assert all({"switch", "table", "priority", "match", "actions"} <= row.keys() for row in found["rules"])
    fullest = max(
        sum(row["switch"] == name for row in found["rules"]) for name in {r["switch"] for r in found["rules"]}
    )
    assert fullest == found["jobs"][0]["certificate"]["max_rules_on_a_switch"]


def test_rules_show_how_evenly_unplanned_traffic_spreads(heddle, files, tmp_path):
    fabric = files("three.yaml", "version: 1\ngenerate: {kind: spine_leaf, spines: 3, leaves: 2, hosts_per_leaf: 4}\n")
    found = json.loads(heddle("plan", fabric, tmp_path / "jobs.yaml", "--json", "--rules")[1])
    (line,) = found["imbalance"]
    assert (line["stage"], line["choices"], line["places"]) == ("LEAF_UP", 3, 2)
    assert line["buckets"] >= 8 * 3
    assert 0 < line["imbalance"] < 1 / 8
    assert "LEAF_UP" in heddle("plan", fabric, tmp_path / "jobs.yaml", "--rules")[1]


def test_a_missing_file_is_one_line_and_status_two(heddle, files, tmp_path):
    status, out, err = heddle("plan", tmp_path / "nothing.yaml", tmp_path / "jobs.yaml")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "nothing.yaml" in err


def test_an_unknown_rank_is_one_line_with_file_and_key(heddle, files, tmp_path):
    jobs = files("wrong.yaml", "version: 1\njobs: [{job_id: a, ranks: [h1-n0, h99-n0], collectives: []}]\n")
    status, _, err = heddle("plan", tmp_path / "fabric.yaml", jobs)
    assert status == 2
    assert "wrong.yaml: jobs[0].ranks[1]" in err
    assert "Traceback" not in err


def test_a_fabric_that_failures_have_cut_is_status_three_and_names_the_cut(heddle, files, tmp_path):
    cut = "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2}\n"
    fabric = files("cut.yaml", cut + 'failed: ["leaf1:1>spine1:1", "leaf1:2>spine2:1"]\n')
    status, _, err = heddle("plan", fabric, tmp_path / "jobs.yaml")
    assert status == 3
    assert "leaf1" in err
    assert err.count("\n") == 1


def test_a_rule_budget_that_is_exceeded_is_status_three_and_names_the_switch(heddle, files, tmp_path):
    switch = "switches: [{id: leaf1, role: leaf, rule_budget: 3}]\n"
    fabric = files("small.yaml", (tmp_path / "fabric.yaml").read_text() + switch)
    status, _, err = heddle("plan", fabric, tmp_path / "jobs.yaml")
    assert status == 3
    assert "leaf1" in err


def test_an_unknown_command_is_a_usage_error(heddle):
    status, _, err = heddle("plen")
    assert status == 2
    assert "plan" in err


def test_help_names_every_command_on_every_level(heddle):
    status, out, _ = heddle("--help")
    assert status == 0
    assert all(name in out for name in ("demo", "plan", "check", "run", "job", "topology", "explain"))
    status, out, _ = heddle("job", "--help")
    assert status == 0
    assert all(name in out for name in ("submit", "preview", "list", "watch", "release", "renew", "show", "suggest"))


def test_no_controller_is_one_line_with_the_command_that_starts_one(heddle, monkeypatch):
    monkeypatch.setattr("heddle.client.connection.CONNECT_TIMEOUT_S", 0.2)
    status, _, err = heddle("topology", "--server", "127.0.0.1:1")
    assert status == 1
    assert "heddle run" in err


def test_the_printed_config_is_read_back_as_the_defaults(heddle, tmp_path):
    from heddle.controller.config.service import ServiceConfig, load_service

    status, out, _ = heddle("run", "--print-config")
    path = tmp_path / "service.yaml"
    path.write_text(out)
    assert status == 0
    assert load_service(path) == ServiceConfig()


def test_an_unknown_config_key_is_refused_with_its_name(heddle, files, tmp_path):
    config = files("service.yaml", "opneflow: 127.0.0.1:0\n")
    status, _, err = heddle("run", tmp_path / "fabric.yaml", "--config", config)
    assert status == 2
    assert "opneflow" in err


def test_a_hint_says_what_more_queue_pairs_would_reach(heddle, files, tmp_path):
    jobs = files("pair.yaml", PAIR)
    (hint,) = json.loads(heddle("plan", tmp_path / "fabric.yaml", jobs, "--json")[1])["hints"]
    assert hint == "raise qps_per_flow to 4: 0.500 instead of 1.000"
    assert hint in heddle("plan", tmp_path / "fabric.yaml", jobs)[1]


@pytest.mark.parametrize(
    ("key", "longer"), [("kind", "qps_per_flow: 4, kind"), ("dst_rank: 1", "dst_rank: 1, udp_source_port: 50000")]
)
def test_no_hint_where_the_queue_pairs_are_that_many_or_fixed(heddle, files, tmp_path, key, longer):
    jobs = files("pair.yaml", PAIR.replace(key, longer))
    assert json.loads(heddle("plan", tmp_path / "fabric.yaml", jobs, "--json")[1])["hints"] == []


def test_above_its_limit_of_flows_the_hint_is_the_figure_of_e_ecmp(heddle, files, tmp_path, monkeypatch):
    monkeypatch.setattr("heddle.controller.views.hint.MAX_FLOWS", 3)
    found = json.loads(heddle("plan", tmp_path / "fabric.yaml", files("pair.yaml", PAIR), "--json")[1])
    e_ecmp = found["jobs"][0]["certificate"]["e_ecmp_max_link_utilisation"]
    assert found["hints"] == [f"raise qps_per_flow to 4: even E-ECMP then reaches {e_ecmp:.3f} instead of 1.000"]


def test_the_table_shows_slowed_flows_and_overloaded_links(heddle, files, tmp_path):
    fabric = files("one.yaml", "version: 1\ngenerate: {kind: spine_leaf, spines: 1, leaves: 4, hosts_per_leaf: 2}\n")
    two = PAIR.replace("[h1-n0, h3-n0]", "[h1-n0, h3-n0, h2-n0, h4-n0]").replace(
        "}]", "}, {src_rank: 2, dst_rank: 3}]", 1
    )
    out = heddle("plan", fabric, files("two.yaml", two))[1]
    lines = {
        line.split("│")[1].strip(): line.split("│")[2].strip() for line in out.splitlines() if line.count("│") == 3
    }
    assert lines["flows slowed"] == "2"
    assert lines["links over their capacity"] == "2"
    assert lines["max-min share of the demand"] == "mean 0.500, worst 0.500"
