"""`heddle bench`: the structure of its results, and its behaviour without optional packages."""

import io
import json
import sys

import pytest
import typer
from typer.testing import CliRunner

import heddle.benchmarks.planning.plan
from heddle.benchmarks import BENCHMARKS
from heddle.benchmarks.planning.goals import goals
from heddle.benchmarks.planning.growth import FROM, SIZES, TO, sizes_to
from heddle.benchmarks.planning.measure import Request, measured, rows
from heddle.benchmarks.planning.methods import FIRST_FIT, METHODS, NETWORKX, OURS
from heddle.benchmarks.planning.plot import check_file, draw
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.programs.bench_command import bench

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("bench")]  # the first run compiles others' methods
PNG = b"\x89PNG\r\n\x1a\n"
PROCESS = {"flows": 8_192, "solve_ms": 1.0, "process_s": 1.0, "output_mb": 4.0, "peak_rss_mb": 180.0}
START = {"first_process_s": 1.4, "next_process_s": 1.0}


def point(method, flows, seconds, ratio=1.0):
    paths = {"paths_s": seconds, "solve_s": 2 * seconds if method == OURS else None, "memory_mb": 1.0}
    return {"method": method, "flows": flows, "size": flows, "ratio": ratio, "ns_per_flow": seconds / flows, **paths}


def case_rows(methods=tuple(METHODS), flows=64, family="equal-q1"):
    return list(rows(Request(family=family, flows=flows, methods=methods, enough_s=0.0)))


@pytest.fixture
def without_forks(monkeypatch):
    """Measure in this process: a test runner has threads, and a fork of it could wait for one of them forever."""
    monkeypatch.setattr("heddle.benchmarks.planning.measure._in_a_fork", lambda work: work())
    monkeypatch.setattr("heddle.benchmarks.planning.measure.warm", lambda: None)


def test_a_method_is_measured_in_a_process_of_its_own():
    case, *found = measured(Request(family="equal-q1", flows=64, methods=(FIRST_FIT,), enough_s=0.0))
    assert case["flows"] <= 64
    (row,) = found
    assert row["memory_mb"] >= 0


def test_a_child_that_can_not_measure_is_an_error(capfd):
    with pytest.raises(RuntimeError, match="status"):
        list(measured(Request(family="no such family", flows=64, methods=(FIRST_FIT,))))
    assert "AssertionError" in capfd.readouterr().err


@pytest.mark.usefixtures("without_forks")
def test_a_case_is_measured_by_every_method():
    case, *found = case_rows()
    assert case["lower_bound"] == 1.0
    assert [row["method"] for row in found] == list(METHODS)
    ours = found[0]
    assert ours["ratio"] == 1.0
    assert ours["worst_share"] == ours["mean_share"] == 1.0
    assert all(row["ratio"] >= 1.0 for row in found)
    assert all(row["worst_share"] <= row["mean_share"] <= 1.0 for row in found)
    assert {row["method"] for row in found if row["paths_s"] is None} == {"ECMP", "E-ECMP"}


@pytest.mark.usefixtures("without_forks")
def test_other_load_on_the_links_counts_for_all_methods():
    case, *found = case_rows(methods=(OURS, FIRST_FIT), family="residual", flows=256)
    assert found[0]["solve_s"] is None
    assert found[0]["max_utilisation"] >= case["lower_bound"] * (1 - 1e-9)


@pytest.mark.usefixtures("without_forks")
def test_a_method_without_its_package_is_marked_and_the_others_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    _, *found = case_rows(methods=(OURS, NETWORKX))
    assert "ratio" in found[0]
    assert found[1] == {"method": NETWORKX, "missing": "networkx"}


@pytest.fixture
def measured_without_children(monkeypatch, without_forks):
    """Measure in this process, with fixed figures for whole processes."""
    monkeypatch.setattr(heddle.benchmarks.planning.plan, "measured", rows)
    monkeypatch.setattr("heddle.benchmarks.planning.growth.measured", rows)
    monkeypatch.setattr(heddle.benchmarks.planning.plan, "full_scale", lambda *_, **__: PROCESS)
    monkeypatch.setattr(heddle.benchmarks.planning.plan, "starts", lambda **_: START)
    monkeypatch.setattr(
        heddle.benchmarks.planning.plan, "QUICK_CASES", (heddle.benchmarks.planning.plan.Sized("equal-q1", 64),)
    )
    monkeypatch.setattr(heddle.benchmarks.planning.plan, "METHODS", {name: METHODS[name] for name in (OURS, FIRST_FIT)})
    monkeypatch.setattr("heddle.benchmarks.planning.growth.QUICK_MAX_FLOWS", {OURS: 1000, FIRST_FIT: 100})
    monkeypatch.setattr("heddle.benchmarks.planning.growth.SIZES", {64: "equal-q1", 128: "equal-q1"})


@pytest.mark.usefixtures("measured_without_children")
def test_the_command_prints_one_json_object_and_draws_a_png(tmp_path):
    picture = tmp_path / "growth.png"
    arguments = ["plan", "--quick", "--json", "--growth-to", "1000", "--plot", str(picture)]
    ran = CliRunner().invoke(bench, arguments)
    assert ran.exit_code == 0, ran.exception
    found = json.loads(ran.stdout)
    assert {"seed", "quick", "versions", "lacking", "cases", "process", "start", "growth", "goals"} <= set(found)
    (case,) = found["cases"]
    assert case["met"]
    assert {"paths_s", "max_utilisation", "ratio", "memory_mb"} <= set(case["methods"][0])
    assert [p["size"] for p in found["growth"]["points"] if p["method"] == OURS] == [64, 128]
    assert all(goal["met"] for goal in found["goals"])
    assert picture.read_bytes().startswith(PNG)
    assert "x bound" in ran.stderr


@pytest.mark.usefixtures("measured_without_children")
def test_without_matplotlib_one_line_names_the_remedy_and_the_rest_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(heddle.benchmarks.planning.plan, "missing_package", lambda: "matplotlib")
    out = io.StringIO()
    found = heddle.benchmarks.planning.plan.run(out, quick=True, cases=(), growth_to=1, plot=tmp_path / "growth.png")
    assert found["lacking"] == ["matplotlib"]
    assert list(tmp_path.iterdir()) == []
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "pip install 'heddle[bench]'" in printed


def test_an_unwritable_plot_is_refused_before_the_measurement(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.png"):
        check_file(tmp_path / "growth.svg")
    with pytest.raises(InputError, match="no folder"):
        check_file(tmp_path / "absent" / "growth.png")


def test_a_million_flows_and_five_methods_are_drawn(tmp_path):
    points = [point(name, size, size * 1e-7) for name in list(METHODS)[:5] for size in SIZES]
    draw(points, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(PNG)


def test_growth_is_measured_up_to_the_requested_size():
    assert sizes_to(33_000)[-1] == 32_768
    assert sizes_to(1_000_000)[-1] == 1_048_576
    assert sizes_to(1) == [min(SIZES)]
    assert {FROM, TO} <= set(SIZES)


def test_a_missed_goal_is_reported():
    slow = {**PROCESS, "flows": 131_072, "solve_ms": 51.0}
    found = {"cases": [], "process": slow, "start": START, "growth": {"time_per_flow_131k_to_8k": 3.5}}
    assert [goal.found for goal in goals(found) if not goal.met] == [51.0, 3.5]


def test_every_benchmark_is_a_command():
    text = CliRunner().invoke(bench, ["--help"]).stdout
    assert [name for name in BENCHMARKS if f"\n  {name} " not in text] == []


def test_a_benchmark_without_the_source_tree_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "tests.support.processes.private_ovs", None)
    monkeypatch.delitem(sys.modules, "heddle.benchmarks.fabric.southbound", raising=False)
    ran = CliRunner().invoke(bench, ["southbound"])
    assert isinstance(ran.exception, PrerequisiteError)
    assert "source tree" in str(ran.exception)


def test_bench_is_a_command_group():
    assert isinstance(bench, typer.Typer)
