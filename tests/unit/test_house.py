"""The house rules that no linter knows: how large a file or function may be, and names that say nothing."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCTION = ("controller", "mininet_topos", "telemetry", "dataplane", "heddle", "benchmarks")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
EMPTY_NAMES = {"utils", "util", "common", "manager", "helper", "helpers", "misc"}


def production_files() -> list[Path]:
    found = [path for package in PRODUCTION for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))]


@functools.cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_production_code_is_where_this_test_looks() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in production_files()} == {*PRODUCTION}


def test_no_file_is_longer_than_400_lines() -> None:
    sizes = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in production_files()}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    sizes = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in production_files()
        for node in functions(path)
    }
    assert {name: size for name, size in sizes.items() if size > MAX_FUNCTION_LINES} == {}


def imported_modules(path: Path) -> set[str]:
    """Return the absolute names of the modules that a file imports, in functions and for typing as well."""
    found: set[str] = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_of_the_tests_those_of_benchmarks_alone_import_benchmarks() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / "tests").rglob("*.py")
        if "benchmarks" in path.read_text()  # to parse all files takes two seconds
        for name in imported_modules(path)
        if name.startswith("heddle.benchmarks") and path.parent.name != "benchmarks"
    }
    assert wrong == set()


def test_of_the_tests_benchmarks_import_the_support_and_the_fakes_alone() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / "benchmarks").rglob("*.py")
        for name in imported_modules(path)
        if name.split(".")[0] == "tests" and name.split(".")[1:2] not in (["support"], ["fakes"])
    }
    assert wrong == set()


def test_every_module_has_a_name_that_says_what_it_does() -> None:
    names = {path.relative_to(ROOT): set(path.relative_to(ROOT).with_suffix("").parts) for path in production_files()}
    assert [str(path) for path, parts in names.items() if parts & EMPTY_NAMES] == []


def test_a_file_of_end_to_end_tests_names_its_marks_itself() -> None:
    """A run collects the files that name its marks (tests/conftest.py): tests with imported marks would never run."""
    files = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)}
    unmarked = [path for path, text in files.items() if "e2e" in path.parts and "pytest.mark.e2e" not in text]
    importing = [path for path, text in files.items() if re.search(r"import [^#\n]*\bpytestmark\b", text)]
    assert (unmarked, importing) == ([], [])
