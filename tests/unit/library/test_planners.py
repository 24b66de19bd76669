"""A planner of another distribution is run apart, and what is wrong with it is one line that names it."""

import pickle
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import heddle
from heddle.planners import INTERFACE, Demand, Problem, Running
from heddle.planners.answer import wrong_with
from heddle.planners.child import reply_of
from heddle.planners.installed import run
from heddle.testing import check_plan

ROOT = Path(__file__).parents[3]
FIRST_FIT = ROOT / "examples" / "first_fit"
CLASS = "class Planner:\n    interface = {interface}\n    def paths(self, problem):\n        {body}\n"


def install(site, name, module, entry):
    """Write what an installed wheel leaves: a module, and the entry point of its distribution."""
    (site / f"{name.replace('-', '_')}.py").write_text(module)
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[heddle.planners]\n{entry}\n")


def planner(body, interface=INTERFACE):
    return CLASS.format(interface=interface, body=body)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    entry = tomllib.loads((FIRST_FIT / "pyproject.toml").read_text())["project"]["entry-points"]["heddle.planners"]
    ((name, target),) = entry.items()
    install(tmp_path, "heddle-first-fit", (FIRST_FIT / "heddle_first_fit.py").read_text(), f"{name} = {target}")
    yield tmp_path
    for module in [name for name in sys.modules if name.startswith("odd")]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def fabric():
    return heddle.spine_leaf(spines=2, leaves=3, hosts_per_leaf=2)


def jobs_of(fabric, job_id="a", **more):
    kind = heddle.CollectiveKind.ALL_TO_ALL
    values = {"ranks": tuple(fabric.nic_by_id), "collectives": (heddle.Collective(kind=kind, size_bytes=1),), **more}
    return [heddle.Job(job_id=job_id, **values)]


def problem_of(fabric, *pairs, **more):
    demands = tuple(Demand(flow_id=f"{a}-{b}", job_id="a", src_nic=a, dst_nic=b, demand_bps=1) for a, b in pairs)
    return Problem(fabric=fabric, demands=demands, **more)


def test_the_page_has_both_files_of_the_example():
    page = (ROOT / "docs" / "planners.md").read_text()
    assert all(f"\n{(FIRST_FIT / name).read_text()}```" in page for name in ("pyproject.toml", "heddle_first_fit.py"))


def test_a_planner_chooses_paths_and_the_plan_is_sound(fabric, site):
    plan = heddle.plan(fabric, jobs_of(fabric), planner="first-fit")
    assert check_plan(plan) == []
    assert plan.job_plans[0].reason.startswith("planned offline by first-fit")
    assert plan.certificate.lower_bound == heddle.bound(fabric, plan.jobs).value
    first = [flow.links[1] for flow in plan.flows if flow.src_nic == "h1-n0" and len(flow.links) > 2]
    assert set(first[:2]) == {"leaf1:1>spine1:1"}  # as long as there is room: ours spreads them


def test_kept_flows_on_live_paths_stay_and_the_others_are_the_planner_s(fabric, site):
    before = heddle.plan(fabric, jobs_of(fabric))
    after = heddle.plan(fabric, jobs_of(fabric, "b"), failed=["leaf1:1>spine1:1"], beside=before, planner="first-fit")
    assert check_plan(after) == []
    live = {flow for flow, links in before.paths.items() if not {"leaf1:1>spine1:1", "spine1:1>leaf1:1"} & {*links}}
    assert {flow: after.paths[flow] for flow in live} == {flow: before.paths[flow] for flow in live}


def test_flows_that_are_pinned_by_addresses_share_a_path(fabric, site):
    pinned = jobs_of(fabric, steering=heddle.Steering.PIN)
    assert check_plan(heddle.plan(fabric, pinned, planner="first-fit")) == []


def test_it_never_ends_is_named_and_nothing_of_it_stays(fabric, site):
    install(site, "odd", planner("while True: pass"), "hangs = odd:Planner")
    with pytest.raises(heddle.PlannerError, match=r"^planner hangs: took longer than 0\.4 s and was ended$"):
        heddle.plan(fabric, jobs_of(fabric), planner="hangs", planner_limit_s=0.4)


def test_what_it_prints_is_no_reply_and_its_exit_is_named(fabric, site, capfd):
    install(site, "odd", planner("print('{}', flush=True); raise SystemExit(7)"), "ends = odd:Planner")
    with pytest.raises(heddle.PlannerError, match=r"^planner ends: its process ended with status 7$"):
        run("ends", problem_of(fabric, ("h1-n0", "h3-n0")))
    assert capfd.readouterr() == ("", "{}\n")


@pytest.mark.parametrize(
    ("module", "entry", "text"),
    [
        (planner("raise ValueError('no\\nway')"), "x = odd:Planner", "raised ValueError: no way (odd.py:4)"),
        (planner("return 7"), "x = odd:Planner", "raised AttributeError: 'int' object has no attribute 'items'"),
        (planner("return {}", 0), "x = odd:Planner", f"is for interface 0 of heddle.planners, this is {INTERFACE};"),
        ("class Planner: pass", "x = odd:Planner", "is for interface None of heddle.planners"),
        ("import nothing_of_this_name", "x = odd:Planner", "cannot be loaded: ModuleNotFoundError: No module named"),
        ("", "x = odd:Planner", "cannot be loaded: AttributeError: module 'odd' has no attribute 'Planner'"),
    ],
)
def test_what_fails_in_its_process_is_one_line(fabric, site, module, entry, text):
    install(site, "odd", module, entry)
    (error,) = reply_of("x", pickle.dumps(problem_of(fabric))).values()
    assert error.startswith(text)
    assert "\n" not in error


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (None, "flow h1-n0-h3-n0: no path is returned"),
        ("spine1", "its path is no list of link ids"),
        (["h1-n0>leaf1:3"], "its path must begin with h1-n0>leaf1:3 and end with leaf2:3>h3-n0"),
        (["h1-n0>leaf1:3", "leaf1:9>spine9:1", "leaf2:3>h3-n0"], "no link 'leaf1:9>spine9:1' in this fabric"),
        (["h1-n0>leaf1:3", "leaf1:2>spine2:1", "spine2:2>leaf2:2", "leaf2:3>h3-n0"], "link leaf1:2>spine2:1 is out of"),
        (["h1-n0>leaf1:3", "spine1:2>leaf2:1", "leaf2:3>h3-n0"], "its links do not follow each other"),
        (["h1-n0>leaf1:3", "leaf1:1>spine1:1", "leaf2:3>h3-n0"], "its links do not follow each other"),
        (
            [
                *("h1-n0>leaf1:3", "leaf1:1>spine1:1", "spine1:3>leaf3:1", "leaf3:2>spine2:3", "spine2:2>leaf2:2"),
                "leaf2:3>h3-n0",
            ],
            "goes up again after it went down",
        ),
    ],
)
def test_a_path_that_is_not_admissible_is_named(fabric, path, text):
    failed = replace(fabric, failed=heddle.plan(fabric, (), failed=["leaf1:2>spine2:1"]).fabric.failed)
    if path and "leaf3:2>spine2:3" in path:
        failed = fabric
    problem = problem_of(failed, ("h1-n0", "h3-n0"))
    wrong = wrong_with(problem, {} if path is None else {"h1-n0-h3-n0": path})
    assert wrong is not None
    assert text in wrong


def test_flows_of_one_bundle_on_two_paths_are_refused(fabric):
    (demand,) = problem_of(fabric, ("h1-n0", "h3-n0")).demands
    demands = tuple(replace(demand, flow_id=name, bundle="7") for name in "ab")
    problem = Problem(fabric=fabric, demands=demands)
    paths = dict(zip("ab", problem.shortest_paths(demand), strict=True))
    assert wrong_with(problem, paths) == "flow b: its path differs from that of another flow of bundle 7"


def test_shortest_paths_are_those_of_links_in_use():
    fabric = heddle.clos3(pods=2, aggs_per_pod=2, leaves_per_pod=2, cores=4, hosts_per_leaf=1)
    demands = {name: problem_of(fabric, ("h1-n0", name)).demands[0] for name in ("h2-n0", "h3-n0")}
    problem = Problem(fabric=fabric, demands=tuple(demands.values()))
    counts = {name: len([*problem.shortest_paths(demand)]) for name, demand in demands.items()}
    assert counts == {"h2-n0": 2, "h3-n0": 4}  # below the aggregation switches of a pod; over every core
    cut = replace(fabric, failed=heddle.plan(fabric, (), failed=["pod1-agg1", "core3"]).fabric.failed)
    left = Problem(fabric=cut, demands=problem.demands)
    assert [len([*left.shortest_paths(demand)]) for demand in demands.values()] == [1, 1]
    for demand in demands.values():
        assert all(
            wrong_with(replace(left, demands=(demand,)), {demand.flow_id: p}) is None
            for p in left.shortest_paths(demand)
        )


def test_a_name_that_is_not_installed_suggests_one(fabric, site):
    with pytest.raises(heddle.InputError, match=r"^no planner named 'first-ft', did you mean first-fit\?"):
        heddle.plan(fabric, jobs_of(fabric), planner="first-ft")


def test_a_name_of_two_distributions_is_refused(fabric, site):
    for name in ("odd", "odd-too"):
        install(site, name, "", "x = odd:Planner")
    with pytest.raises(heddle.InputError, match=r"^planner x: odd and odd-too both have one; uninstall one of them$"):
        heddle.plan(fabric, jobs_of(fabric), planner="x")


def test_running_flows_are_given_with_their_paths(fabric, site):
    body = "assert [(flow.demand.flow_id, len(flow.links)) for flow in problem.running] == [('r', 4)]; return {}"
    install(site, "odd", planner(body), "x = odd:Planner")
    (demand,) = problem_of(fabric, ("h1-n0", "h3-n0")).demands
    links = next(problem_of(fabric).shortest_paths(demand))
    problem = Problem(fabric=fabric, demands=(), running=(Running(demand=replace(demand, flow_id="r"), links=links),))
    assert reply_of("x", pickle.dumps(problem))["paths"] == {}


def test_parts_in_a_plane_that_is_gone_are_not_the_planner_s(site):
    fabric = heddle.spine_leaf(spines=2, leaves=2, hosts_per_leaf=1, planes=2)
    jobs = jobs_of(fabric, ranks=tuple(fabric.ports_of))
    for failed in ([], ["p1-spine1", "p1-spine2"]):
        assert check_plan(heddle.plan(fabric, jobs, failed=failed, planner="first-fit")) == []
