"""Every example of the library's page runs, with the result that the page shows; so does the first script."""

import doctest
import re
import resource
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/library.md"])
def test_every_example_of_the_page_gives_what_the_page_shows(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = "\n".join(BLOCK.findall((ROOT / page).read_text()))
    test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert len(test.examples) > 5
    lines: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test, out=lines.append)
    assert "".join(lines) == ""


def test_the_first_script_has_25_lines_and_needs_nothing_but_the_library(monkeypatch, capsys):
    script = ROOT / "examples" / "first_plan.py"
    assert len(script.read_text().splitlines()) <= 25
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "planned 0.903, no plan is below 0.903"
    assert lines[2].endswith("56 flows moved")


@pytest.mark.soak
def test_the_first_script_draws_a_picture_within_ten_seconds_of_processor_time(tmp_path):
    pytest.importorskip("matplotlib")
    script, before = ROOT / "examples" / "first_plan.py", resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, script, tmp_path / "both.png"], cwd=tmp_path, check=True, timeout=100)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    assert after.ru_utime - before.ru_utime < 10
