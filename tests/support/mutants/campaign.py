"""Run a list of mutants in copies of the tree, one copy for each worker process."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.mutants.choosing import CoverageMap, module_of
from tests.support.mutants.planting import Mutant

SKIPPED = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "build", "heddle-report*")
BASE_WALL_S, BASE_CPU_S, TIMES_SLOWER = 60.0, 4.0, 5.0
"""A trial ends after these, and so many times what its tests take without a fault."""


def copy_tree(root: Path, folder: Path) -> Path:
    """Copy the working tree with its links and compiled kernels; `.venv` is the same."""
    shutil.copytree(root, folder, symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
    (folder / ".venv").symlink_to(root / ".venv")
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which a copy's modules are imported, also by processes that tests start."""
    return {**os.environ, "PYTHONPATH": str(folder)}


def write_map(folder: Path, files: Sequence[str], tests: Sequence[str], path: Path) -> None:
    """Run the tests once in a copy and write which of them run which lines; raises RuntimeError if none ran."""
    covered = ":".join(str(folder / file) for file in files)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.mutants.covering", "-p", "no:cacheprovider"]
    command += ["-p", "no:randomly", "-m", "not e2e and not soak", "-q", *tests]
    extra = {"HEDDLE_COVERED": covered, "HEDDLE_COVERAGE": str(path)}
    subprocess.run(command, cwd=folder, env=environment(folder) | extra, check=False)
    if not path.is_file():
        raise RuntimeError("the tests did not run to their end: no map of what they cover was written")


class Campaign:
    """Mutants, and what became of each."""

    def __init__(self, mutants: Sequence[Mutant], covered: CoverageMap, budget_s: float) -> None:
        self._mutants = mutants
        self._trials: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._workers: list[subprocess.Popen[str]] = []
        self._failures: list[str] = []
        self.outcomes: dict[int, dict[str, Any]] = {}
        """By the number of the mutant."""
        for number, mutant in enumerate(mutants):
            chosen = covered.choose(mutant, budget_s)
            if not chosen.groups:
                self.outcomes[number] = {"number": number, "outcome": "no tests", "seconds": 0.0}
                continue
            self._trials.put(
                {
                    "number": number,
                    "file": mutant.file,
                    "module": module_of(mutant.file),
                    "text": mutant.text,
                    "groups": chosen.groups,
                    "wall_s": BASE_WALL_S + TIMES_SLOWER * chosen.wall_s,
                    "cpu_s": BASE_CPU_S + TIMES_SLOWER * chosen.cpu_s,
                }
            )

    def run(self, folders: Sequence[Path], observe: Callable[[Mutant, dict[str, Any]], None]) -> None:
        """Try all, a worker in each folder; call `observe` with each outcome. Raises RuntimeError if a worker ended."""
        threads = [threading.Thread(target=self._work, args=(folder, observe), daemon=True) for folder in folders]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for worker in self._workers:
                worker.terminate()
        if self._failures:
            raise RuntimeError("; ".join(self._failures))

    def _work(self, folder: Path, observe: Callable[[Mutant, dict[str, Any]], None]) -> None:
        command = [sys.executable, "-m", "tests.support.mutants.worker"]
        pipe, surroundings = subprocess.PIPE, environment(folder)
        with subprocess.Popen(command, cwd=folder, env=surroundings, text=True, stdin=pipe, stdout=pipe) as worker:
            self._workers.append(worker)
            assert worker.stdin is not None
            assert worker.stdout is not None
            while True:
                try:
                    trial = self._trials.get_nowait()
                except queue.Empty:
                    break
                print(json.dumps(trial), file=worker.stdin, flush=True)
                answer = worker.stdout.readline()
                if not answer:
                    self._failures.append(f"the worker in {folder} ended with status {worker.wait()}")
                    return
                outcome = json.loads(answer)
                self.outcomes[outcome["number"]] = outcome
                observe(self._mutants[outcome["number"]], outcome)
            worker.stdin.close()
