"""Every example of the library's page runs, with the result that the page shows; so does the first script."""

import doctest
import re
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


def test_the_first_script_has_25_lines_and_needs_nothing_but_the_library(tmp_path):
    script = ROOT / "examples" / "first_plan.py"
    assert len(script.read_text().splitlines()) <= 25
    run = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[0] == "planned 0.903, no plan is below 0.903"
    assert "56 flows moved" in run.stdout
