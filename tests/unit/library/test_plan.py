"""A plan of the library is that of `heddle plan`, its views agree with each other, and bad input is one line."""

import json
import sys
import types

import pytest

import heddle
from heddle.testing import check_plan
from heddle.testing.plans.plan_checker import check, from_json

FABRIC = {
    "version": 1,
    "generate": {"kind": "spine_leaf", "spines": 2, "leaves": 4, "hosts_per_leaf": 2, "gbps": 100},
}


@pytest.fixture(scope="module")
def fabric():
    return heddle.spine_leaf(spines=2, leaves=4, hosts_per_leaf=2)


def job_of(fabric, job_id="job", **more):
    exchange = heddle.Collective(kind=heddle.CollectiveKind.ALL_TO_ALL, size_bytes=10**6)
    values = {"ranks": tuple(fabric.nic_by_id), "collectives": (exchange,), **more}
    return heddle.Job(job_id=job_id, **values)


@pytest.fixture(scope="module")
def plan(fabric):
    return heddle.plan(fabric, [job_of(fabric)])


def entry(job):
    return {"job_id": job.job_id, "ranks": list(job.ranks), "collectives": [{"kind": "ALL_TO_ALL", "bytes": 10**6}]}


def test_its_document_is_that_of_heddle_plan(fabric, plan, tmp_path, capsys):
    from heddle.programs.console.plan import run_plan

    (tmp_path / "fabric.yaml").write_text(json.dumps(FABRIC))
    (tmp_path / "jobs.yaml").write_text(json.dumps({"version": 1, "jobs": [entry(plan.jobs[0])]}))
    run_plan(tmp_path / "fabric.yaml", tmp_path / "jobs.yaml", as_json=True, rules=True)
    printed, ours = json.loads(capsys.readouterr().out), json.loads(plan.to_json(rules=True))
    for document in (printed, ours):
        for job in document["jobs"]:
            job["certificate"].pop("solve_ns")
        document.pop("hints")
    assert ours == printed


def test_an_independent_checker_finds_it_sound(plan):
    assert check(FABRIC, {"jobs": [entry(plan.jobs[0])]}, from_json(json.loads(plan.to_json()))) == []


def test_its_loads_are_those_of_its_paths(plan):
    added: dict[str, int] = {}
    for flow in plan.flows:
        for link in plan.paths[flow.flow_id]:
            added[link] = added.get(link, 0) + flow.demand_bps
    assert plan.loads_bps == added
    inner = [used for link, used in plan.utilisation.items() if "-n" not in link]
    assert max(inner) == pytest.approx(plan.certificate.max_link_utilisation)


def test_jobs_beside_a_plan_leave_its_paths_alone(fabric, plan):
    both = heddle.plan(fabric, [job_of(fabric, "second")], beside=plan)
    assert [job.job_id for job in both.jobs] == ["job", "second"]
    assert {flow: both.paths[flow] for flow in plan.paths} == plan.paths


def test_a_cut_moves_the_flows_that_it_severs_and_no_others(plan):
    cut = "leaf1:1>spine1:1"
    found = heddle.what_if(plan, failed=[cut])
    severed = {flow for flow, links in plan.paths.items() if not {cut, "spine1:1>leaf1:1"}.isdisjoint(links)}
    assert set(found.moved) == severed
    assert found.lost == {cut: len(severed)}
    assert not any(cut in links for links in found.after.paths.values())


@pytest.mark.parametrize(
    ("failed", "used"),
    [
        (["p0-leaf1:1>p0-spine1:1"], {0, 1}), (["h1-n0/p0>p0-leaf1:3"], {0, 1}), (["p0-spine1", "p0-spine2"], {0, 1}),
        (["p0-leaf1", "p0-leaf2"], {1}), (["p0-leaf1", "p1-spine1"], {0, 1}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("paths", [0, 2])
def test_what_a_plane_loses_its_flows_send_in_the_others(failed, used, paths):
    fabric = heddle.spine_leaf(spines=2, leaves=2, hosts_per_leaf=2, planes=2)
    kind = heddle.CollectiveKind.ALL_TO_ALL
    exchange = heddle.Collective(kind=kind, size_bytes=10**6, paths_per_flow=paths)
    before = heddle.plan(fabric, [job_of(fabric, ranks=tuple(fabric.ports_of), collectives=(exchange,))])
    after = heddle.what_if(before, failed=failed).after
    assert check_plan(after) == []
    assert {fabric.nic_by_id[flow.src_nic].plane for flow in after.flows if flow.demand_bps > 1} == used


def test_ranks_without_any_plane_are_refused_beside_a_plan():
    fabric = heddle.spine_leaf(spines=2, leaves=2, hosts_per_leaf=2, planes=2)
    before = heddle.plan(fabric, [job_of(fabric, ranks=tuple(fabric.ports_of))])
    with pytest.raises(heddle.NoAdmissiblePlanError, match=r"out of use is NIC h1-n0/p0 or its leaf p0-leaf1"):
        heddle.what_if(before, failed=["p0-leaf1", "p1-leaf1"])


def test_another_placement_plans_that_job_anew(fabric, plan):
    both = heddle.plan(fabric, [job_of(fabric, "second", ranks=("h1-n0", "h8-n0"))], beside=plan)
    found = heddle.what_if(both, placement={"second": ["h1-n0", "h3-n0"]})
    assert {job.job_id: job.ranks for job in found.after.jobs}["second"] == ("h1-n0", "h3-n0")
    assert {flow.split("/")[0] for flow in found.moved} == {"second"}


def test_the_bound_and_the_hashed_figures_are_those_of_the_certificate(fabric, plan):
    assert heddle.bound(fabric, plan.jobs).value == plan.certificate.lower_bound
    assert heddle.ecmp(fabric, plan.jobs)[0] == plan.certificate.ecmp_max_link_utilisation


def test_flows_over_a_link_that_is_full_twice_take_twice_as_long():
    fabric = heddle.spine_leaf(spines=1, leaves=2, hosts_per_leaf=2)
    across = (heddle.RankPair(src_rank=0, dst_rank=2), heddle.RankPair(src_rank=1, dst_rank=3))
    copy = heddle.Collective(kind=heddle.CollectiveKind.SEND_RECV, size_bytes=10**9, pairs=across)
    plan = heddle.plan(fabric, [job_of(fabric, collectives=(copy,))])
    found = heddle.completion(plan)
    alone_ns = 10**9 * 8 / 100  # a gigabyte at 100 bit/ns
    assert found.times_ns == {"job/0/0-2/0": 2 * alone_ns, "job/0/1-3/0": 2 * alone_ns}
    assert set(found.slowdown.values()) == {2.0}
    assert found.last_ns == 2 * alone_ns


def test_sprayed_flows_have_no_completion_times_of_the_model_of_one_path(fabric):
    spray = heddle.Collective(kind=heddle.CollectiveKind.ALL_TO_ALL, size_bytes=1, paths_per_flow=2)
    plan = heddle.plan(fabric, [job_of(fabric, collectives=(spray,))])
    with pytest.raises(heddle.InputError, match=r"^completion: paths_per_flow: "):
        heddle.completion(plan)
    assert check_plan(plan) == []


def test_without_pandas_a_frame_is_refused_in_a_line_that_names_the_remedy(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(heddle.PrerequisiteError, match=r"^to_frame needs pandas, .*: pip install pandas$"):
        plan.to_frame()


def test_with_pandas_a_frame_has_a_row_per_flow(plan, monkeypatch):
    frame = types.SimpleNamespace(
        DataFrame=lambda rows, columns: [dict(zip(columns, row, strict=True)) for row in rows]
    )
    monkeypatch.setitem(sys.modules, "pandas", frame)
    rows = plan.to_frame()
    assert [row["flow_id"] for row in rows] == list(plan.paths)
    assert {(row["job_id"], row["udp_source_port"] == plan.ports[row["flow_id"]]) for row in rows} == {("job", True)}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f, p: heddle.plan(f, [job_of(f, ranks=("h9-n9",))]), "heddle: jobs[0].ranks[0]: no NIC named 'h9-n9'"),
        (lambda f, p: heddle.plan(f, p.jobs * 2), "heddle: jobs[1].job_id: 'job' is taken by jobs[0]; choose another"),
        (lambda f, p: heddle.plan(f, p.jobs, beside=p), "heddle: jobs[1].job_id: 'job' is taken by jobs[0]"),
        (lambda f, p: heddle.plan(f, p.jobs, failed=["leaf9"]), "heddle: failed[0]: no link or switch named 'leaf9'"),
        (lambda f, p: heddle.plan(f, p.jobs, failed="leaf1"), "failed: must be a list of names, is one text"),
        (lambda f, p: heddle.what_if(p, placement={"jb": []}), "placement: no job 'jb' in the plan, did you mean job?"),
        (lambda f, p: heddle.what_if(p, failed=["leaf9"]), "heddle: failed[0]: no link or switch named 'leaf9'"),
        (lambda f, p: heddle.spine_leaf(spines=0, leaves=1, hosts_per_leaf=1), "spine_leaf: generate.spines: must be"),
        (lambda f, p: heddle.import_fabric("x", format_name="y"), "format_name y: must be one of lingjun"),
        (lambda f, p: heddle.import_fabric("x", gbps=0), "gbps 0: must be more than 0"),
        (lambda f, p: heddle.import_fabric("x", roles={"a": "b"}), "roles: a has the role b: must be one of host"),
        (
            lambda f, p: heddle.plan(heddle.spine_leaf(spines=1, leaves=1, hosts_per_leaf=1), (), beside=p),
            "beside: the plan is for another fabric",
        ),
    ],
)
def test_bad_input_is_one_line_that_names_the_place(fabric, plan, call, text):
    with pytest.raises(heddle.InputError) as error:
        call(fabric, plan)
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def test_a_job_without_a_path_is_no_plan(fabric):
    with pytest.raises(heddle.PlanError, match="have no path"):
        heddle.plan(fabric, [job_of(fabric)], failed=["spine1", "spine2"])
