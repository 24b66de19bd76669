"""`heddle demo --spray` as a user starts it: planned sets keep their rates and paths, drawn ones do not keep rates."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.alone]

HEDDLE = (sys.executable, "-m", "heddle.programs.console.main", "demo")


def test_planned_sets_keep_their_rates_and_drawn_ones_do_not(own_registry):
    words = (*HEDDLE, "--spray", "--seeds", "1", "--json")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    print("FIGURES " + ", ".join(f"{run['mode']} {run['slowest']:.3f}" for run in runs))
    assert [run["planned"] for run in runs] == [False, False, True, True, True]
    for run in runs:
        assert run["off_paths"] == 0
        assert run["planned"] or run["slowest"] < 0.8
        assert not run["planned"] or run["verdict"] in ("shown", "not shown")
