"""The tool behind `make mutants`: which faults it plants, which tests it runs, and what it leaves behind."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.support.mutants import results, worker
from tests.support.mutants.choosing import CoverageMap, module_of
from tests.support.mutants.planting import draw, sources

ROOT = Path(__file__).parents[3]


def planted(tmp_path, text, operator=None):
    """Return the changed lines of every fault in a text."""
    (tmp_path / "module.py").write_text(text)
    found = draw(sources(tmp_path, ["*.py"]), None, 1)
    return {mutant.becomes for mutant in found if operator in (None, mutant.operator)}


@pytest.mark.parametrize(
    ("text", "operator", "faults"),
    [
        ("if a and b:\n    c()\n", "negated", {"if not (a and b):"}),
        ("def f():\n    g(1)\n    raise E\n", "without_statement", {"pass"}),
        ("def f():\n    x = g()\n", "without_statement", set()),
        ("class A(B, C):\n    x: int\n", "without_base", {"class A(C):", "class A(B, ):"}),
        ("f((1, 2))\n", "without_element", {"f((2,))", "f((1, ))"}),
        ("f([1])\n", "without_element", set()),
        ("def f():\n    return a\n\ndef g():\n    return None\n", "without_value", {"return None"}),
        ("f('text')\n", "one_string", {"f('XXtextXX')"}),
        ("x = a >= b\n", "operator_swap_op", {"x = a > b"}),
    ],
)
def test_each_operator_plants_its_faults(tmp_path, text, operator, faults):
    assert planted(tmp_path, text, operator) == faults


def test_what_has_no_effect_at_run_time_is_left_alone(tmp_path):
    text = '"""Text."""\nimport a\nKeys = dict[str, int]\nEffect = A | B\n\n\n'
    text += '@dataclass(frozen=True)\nclass A:\n    """Text."""\n\n    x: Annotated[int, 1]\n'
    assert planted(tmp_path, text) == set()


def test_what_is_no_program_or_no_change_is_not_drawn(tmp_path):
    faults = planted(tmp_path, "for x in y:\n    break\n")
    assert faults == set()  # `return` outside a function


def test_a_seed_draws_the_same_faults_each_time_and_none_twice():
    def drawn(seed):
        return [(mutant.key, mutant.first_line) for mutant in draw(found, 20, seed)]

    found = sources(ROOT, ["controller/rules/order.py", "controller/brain/begin.py"])
    assert drawn(7) == drawn(7) != drawn(8)
    texts = [mutant.text for mutant in draw(found, 20, 7)]
    assert len(set(texts)) == len(texts) == 20


@pytest.fixture
def covered(tmp_path):
    """A map of the tests of two files, of which one fails and one runs no line; line 5 never runs."""
    (tmp_path / "module.py").write_text("X = 1\n\n\ndef f():\n    return 1\n    return 2\n")
    (tmp_path / "user.py").write_text("from heddle.values import Y\n")
    (tmp_path / "values.py").write_text("Y = 3\n")
    names = ("a.py::slow", "a.py::quick", "b.py::failing", "b.py::other", "b.py::constant")
    tests = [
        {"name": n, "passed": "failing" not in n, "wall_s": s, "cpu_s": s}
        for n, s in zip(names, (9, 1, 0, 2, 3), strict=True)
    ]
    lines = {"module.py": {"1": [], "4": [], "6": [0, 1, 2]}, "user.py": {"1": [], "9": [3]}, "values.py": {"1": []}}
    (tmp_path / "map.json").write_text(json.dumps({"tests": tests, "lines": lines}))
    return CoverageMap(tmp_path, tmp_path / "map.json")


def chosen(covered, tmp_path, file, line, budget_s=100.0):
    (mutant, *_) = [m for m in draw(sources(tmp_path, [file]), None, 1) if m.first_line == line]
    return covered.choose(mutant, budget_s)


def test_the_tests_of_a_line_run_quick_ones_first_and_none_that_fails_anyway(covered, tmp_path):
    found = chosen(covered, tmp_path, "module.py", 6)
    assert (found.groups, found.wall_s) == ((("a.py::quick", "a.py::slow"),), 10)
    assert chosen(covered, tmp_path, "module.py", 6, budget_s=5).groups == (("a.py::quick",),)


def test_a_line_that_runs_at_import_concerns_the_tests_of_its_file_or_of_those_that_import_it(covered, tmp_path):
    tests = chosen(covered, tmp_path, "module.py", 1).groups
    assert {name for group in tests for name in group} == {"a.py::quick", "a.py::slow", "b.py::other", "b.py::constant"}
    assert chosen(covered, tmp_path, "values.py", 1).groups == (("b.py::other", "b.py::constant"),)


def test_a_line_that_never_runs_has_no_tests(covered, tmp_path):
    assert chosen(covered, tmp_path, "module.py", 5).groups == ()


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("controller/rules/order.py", "heddle.controller.rules.order"),
        ("heddle/v1/__init__.py", "heddle.v1"),
        ("tests/conftest.py", "tests.conftest"),
    ],
)
def test_a_module_has_the_name_under_which_it_is_imported(file, name):
    assert module_of(file) == name


def hang(trial, log):
    os.setsid()
    time.sleep(60)


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (lambda trial, log: os._exit(0), "survived"),
        (lambda trial, log: os._exit(1), "killed"),
        (lambda trial, log: os._exit(4), "killed"),
        (hang, "timed out"),
    ],
)
def test_a_trial_restores_the_file_whatever_its_tests_do(tmp_path, monkeypatch, run, outcome):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "_run_tests", run)
    (tmp_path / "module.py").write_text("X = 1\n")
    before = (tmp_path / "module.py").stat().st_mtime_ns
    trial = {"number": 3, "file": "module.py", "text": "X = 2\n", "wall_s": 0.2 if outcome == "timed out" else 30.0}
    found = worker.tried(trial)
    assert (found["number"], found["outcome"]) == (3, outcome)
    assert ((tmp_path / "module.py").read_text(), (tmp_path / "module.py").stat().st_mtime_ns) == ("X = 1\n", before)


def test_a_trial_runs_on_the_faulty_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        worker, "_run_tests", lambda trial, log: os._exit(int(Path("module.py").read_text() == "X = 2\n"))
    )
    (tmp_path / "module.py").write_text("X = 1\n")
    trial = {"number": 3, "file": "module.py", "text": "X = 2\n", "wall_s": 30.0}
    assert worker.tried(trial)["outcome"] == "killed"


def test_the_table_counts_by_module_and_what_is_equivalent_apart():
    outcomes = {"a.py": ("killed", "killed", "survived", "equivalent"), "b.py": ("timed out", "no tests")}
    entries = [{"file": file, "outcome": outcome} for file, found in outcomes.items() for outcome in found]
    rows = [line.split() for line in results.table(entries).splitlines()[1:]]
    assert rows == [
        ["a.py", "4", "2", "0", "1", "0", "1", "66.7%"],
        ["b.py", "2", "0", "1", "0", "1", "0", "50.0%"],
        ["all", "6", "2", "1", "1", "1", "1", "60.0%"],
    ]


def test_every_equivalent_mutant_is_of_a_line_that_still_stands():
    def lines(file):
        return " ".join(line.strip() for line in (ROOT / file).read_text().splitlines())

    assert [key for key in results.equivalents() if key[2] not in lines(key[0])] == []


def test_a_mutant_is_equivalent_for_a_reason(tmp_path):
    path = tmp_path / "list.toml"
    path.write_text('[[mutant]]\nfile = "a.py"\nscope = ""\nwas = "x"\nbecomes = "y"\nreason = " "\n')
    with pytest.raises(ValueError, match=r"a\.py: y: say why"):
        results.equivalents(path)
