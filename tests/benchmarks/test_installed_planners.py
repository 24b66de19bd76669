"""`heddle bench plan` lists planners of other distributions: a wheel that is built here, and one that fails."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from heddle.benchmarks.planning.measure import Request, rows
from heddle.benchmarks.planning.methods import OURS
from heddle.benchmarks.planning.plan import _line

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
FAILS = "class Fails:\n    interface = 1\n    def paths(self, problem):\n        return {1: 2}\n"

pytestmark = pytest.mark.xdist_group("bench")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Install the wheel of the example and another distribution into a folder that Python searches."""
    source, built, site = tmp_path / "source", tmp_path / "built", tmp_path / "site"
    shutil.copytree(ROOT / "examples" / "first_fit", source)
    subprocess.run([sys.executable, "-c", BUILD, str(built)], cwd=source, check=True, capture_output=True, timeout=100)
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "fails.py").write_text(FAILS)
    info = site / "fails-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fails\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[heddle.planners]\nfails = fails:Fails\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")
    monkeypatch.setattr("heddle.benchmarks.planning.measure._in_a_fork", lambda work: work())
    monkeypatch.setattr("heddle.benchmarks.planning.measure.warm", lambda: None)


def test_a_wheel_of_others_is_in_the_table_and_one_that_fails_is_named_there(site):
    request = Request(family="residual", flows=64, methods=(OURS,), enough_s=0.0, planners=("fails", "first-fit"))
    _, ours, fails, first_fit = rows(request)
    assert fails["method"] == "planner fails"
    assert fails["failed"].startswith("planner fails: raised TypeError: ")
    assert "left out: raised TypeError" in _line(fails)
    assert first_fit["method"] == "planner first-fit"
    assert first_fit["ratio"] >= ours["ratio"] >= 1.0
    assert first_fit["paths_s"] > 0
    assert "planner first-fit" in _line(first_fit)
