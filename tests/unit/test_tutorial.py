"""The change of docs/tutorial.md works: its blocks, applied word for word to a copy of the tree, pass its own tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^`([\w./-]+)`(, a new file)?:\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(?:python|diff)$", re.MULTILINE)
COPIED = ("heddle", "controller", "dataplane", "mininet_topos", "telemetry", "pyproject.toml")
LEFT_OUT = shutil.ignore_patterns("*.nbi", "*.nbc", "*.lock", "static")
RUN = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-p", "no:randomly"]


class Block(NamedTuple):
    path: str
    is_new: bool
    kind: str
    text: str

    def apply(self, tree: Path) -> None:
        """Write a new file, or replace the lines of a change, which occur once."""
        file = tree / self.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.is_new:
            assert not file.exists()
            assert self.kind == "python"
            file.write_text(self.text)
            return
        if not file.exists():
            shutil.copy(ROOT / self.path, file)
        lines = self.text.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] != mark) for mark in "+-")
        content = file.read_text()
        assert content.count(before) == 1, f"{self.path}: not there, or more than once:\n{before}"
        file.write_text(content.replace(before, after))


@pytest.fixture
def blocks() -> list[Block]:
    text = PAGE.read_text()
    found = [Block(path, bool(new), kind, text) for path, new, kind, text in BLOCK.findall(text)]
    assert len(found) == len(FENCE.findall(text)), "a block of code has no line with its file"
    return found


def test_a_reader_who_follows_the_tutorial_succeeds(tmp_path: Path, blocks: list[Block]) -> None:
    if any((ROOT / block.path).exists() for block in blocks if block.is_new):
        pytest.skip("somebody follows the tutorial in this tree")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=LEFT_OUT)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, tmp_path / name)
    for block in blocks:
        block.apply(tmp_path)
    tests = [block.path for block in blocks if block.path.startswith("tests/") and block.path.endswith(".py")]
    command = [*RUN, "-k", "json_file or invalid_option", *tests]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}  # tests/fakes are those of this tree
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
