"""Choose the tests that run a mutated line, from the map that `covering` writes."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path

from tests.support.mutants.planting import Mutant

FIRST_FILES = 4
"""Files of tests that run before the others: those of whose tests the largest part runs the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The tests of a mutant in two groups, and what they take without it."""

    groups: tuple[tuple[str, ...], ...]
    wall_s: float
    cpu_s: float


class CoverageMap:
    """Which tests run which lines, and what each test takes."""

    def __init__(self, root: Path, path: Path) -> None:
        found = json.loads(path.read_text())
        self._tests = found["tests"]
        self._lines: dict[str, dict[str, list[int]]] = found["lines"]
        self._root = root
        self._tests_in: dict[str, int] = {}
        for test in self._tests:
            file = test["name"].split("::")[0]
            self._tests_in[file] = self._tests_in.get(file, 0) + 1

    def tests_of(self, mutant: Mutant) -> set[int]:
        """Return the numbers of the tests that run a line of the faulty statement.

        A statement that runs at import concerns all files of tests that run its file, or else a file that imports it.
        A test of a constant alone runs no line.
        """
        lines = self._lines.get(mutant.file, {})
        ran = [lines[str(n)] for n in range(mutant.first_line, mutant.last_line + 1) if str(n) in lines]
        found = {number for numbers in ran for number in numbers}
        if found or (lines and not ran):
            return found
        found = self._of_file(mutant.file) or {n for file in self._importers(mutant.file) for n in self._of_file(file)}
        files = {self._file_of(number) for number in found}
        return {number for number in range(len(self._tests)) if self._file_of(number) in files}

    def choose(self, mutant: Mutant, budget_s: float) -> Chosen:
        """Return tests that pass without a fault: those of the closest files first, of these the quick ones first."""
        numbers = [number for number in self.tests_of(mutant) if self._tests[number]["passed"]]
        numbers.sort(key=lambda number: self._tests[number]["wall_s"])
        kept, cpu_s, wall_s = [], 0.0, 0.0
        for number in numbers:
            test = self._tests[number]
            if kept and cpu_s + test["cpu_s"] > budget_s:
                break
            kept.append(test["name"])
            cpu_s, wall_s = cpu_s + test["cpu_s"], wall_s + test["wall_s"]
        counts: dict[str, int] = {}
        for name in kept:
            counts[name.split("::")[0]] = counts.get(name.split("::")[0], 0) + 1
        closest = sorted(counts, key=lambda file: -counts[file] / self._tests_in[file])[:FIRST_FILES]
        first = tuple(name for name in kept if name.split("::")[0] in closest)
        rest = tuple(name for name in kept if name.split("::")[0] not in closest)
        return Chosen(groups=tuple(group for group in (first, rest) if group), wall_s=wall_s, cpu_s=cpu_s)

    def _file_of(self, number: int) -> str:
        name: str = self._tests[number]["name"]
        return name.split("::")[0]

    def _of_file(self, file: str) -> set[int]:
        return {number for numbers in self._lines.get(file, {}).values() for number in numbers}

    def _importers(self, file: str) -> list[str]:
        module = module_of(file)
        return [other for other in self._lines if module in _imported((self._root / other).read_text())]


def module_of(file: str) -> str:
    """Return the name of a source file's module: `heddle.controller.rules.order`."""
    parts = Path(file).with_suffix("").parts
    return ".".join(parts if parts[0] in ("heddle", "tests") else ("heddle", *parts)).removesuffix(".__init__")


def _imported(text: str) -> set[str]:
    return {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module}
