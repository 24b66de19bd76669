"""Each public name of `heddle` is listed once, documented and seen by type checkers; the import itself is cheap."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import heddle
from tests.support.library_reference import markdown

ROOT = Path(__file__).parents[3]
SOURCE = ast.parse((ROOT / "heddle" / "__init__.py").read_text())
PAGE = (ROOT / "docs" / "library.md").read_text()
TYPED = """
import pathlib
import heddle

fabric: heddle.Fabric = heddle.load_fabric(pathlib.Path("fabric.yaml"))
ring = heddle.Collective(kind=heddle.CollectiveKind.RING_ALL_REDUCE, size_bytes=1)
job = heddle.Job(job_id="a", ranks=tuple(fabric.nic_by_id), collectives=(ring,))
plan: heddle.Plan = heddle.plan(fabric, [job])
paths: dict[str, tuple[str, ...]] = dict(plan.paths)
flow: heddle.FlowPlan = plan.flows[0]
found: heddle.WhatIf = heddle.what_if(plan, failed=["spine1"])
last: float = heddle.completion(found.after).last_ns
proven: heddle.Bound = heddle.bound(fabric, [job])
hashed: heddle.Hashed = heddle.ecmp(fabric, [job])
try:
    print(heddle.plan(fabric, heddle.load_jobs("jobs.yaml", fabric)).certificate.lower_bound)
except heddle.PlanError as error:
    print(error)
"""
WRONG = {
    'heddle.plan(fabric, [job], faild=["spine1"])': "call-arg",
    "heddle.plan(fabric, job)": "arg-type",
    "heddle.palm": "attr-defined",
    "number: int = heddle.bound(fabric, [job]).kind": "assignment",
}
"""Lines that a type checker has to refuse, and by which of mypy's errors."""


def seen_by_type_checkers() -> list[str]:
    """Return the names that are imported where a type checker looks."""
    (block,) = (node for node in SOURCE.body if isinstance(node, ast.If) and not isinstance(node.test, ast.UnaryOp))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return [alias.asname or alias.name for node in imports for alias in node.names]


def test_every_public_name_is_listed_once_and_seen_by_type_checkers():
    assert heddle.__all__ == sorted(set(heddle.__all__))
    assert sorted(seen_by_type_checkers()) == heddle.__all__
    assert set(heddle.__all__) <= set(dir(heddle))


@pytest.mark.parametrize("name", heddle.__all__)
def test_a_public_name_exists_has_a_docstring_and_is_on_the_page(name):
    found = getattr(heddle, name)
    assert inspect.getdoc(found)
    assert f"`{name}`" in PAGE or f"heddle.{name}" in PAGE


def test_the_reference_is_that_of_the_code():
    page = (ROOT / "docs" / "library-reference.md").read_text()
    assert page == markdown(), "run: python -m tests.support.library_reference > docs/library-reference.md"


def test_a_name_that_is_not_public_is_refused():
    with pytest.raises(AttributeError, match="module 'heddle' has no attribute 'palm'"):
        _ = heddle.palm  # type: ignore[attr-defined]


def imported_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())


def test_the_import_alone_imports_nothing_else_of_heddle():
    modules = imported_by("import heddle")
    assert {name for name in modules if name.startswith("heddle.")} == set()
    assert modules.isdisjoint({"numpy", "numba", "grpc", "pydantic", "importlib.metadata"})


def test_a_job_is_described_without_the_planner():
    modules = imported_by("import heddle; heddle.Job(job_id='a', ranks=('h1-n0',), collectives=())")
    assert modules.isdisjoint({"numpy", "numba", "grpc"})


@pytest.mark.soak
def test_a_user_s_file_passes_a_strict_type_checker_and_mistakes_do_not(tmp_path):
    (tmp_path / "good.py").write_text(TYPED)
    (tmp_path / "wrong.py").write_text(TYPED + "\n".join(WRONG) + "\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--no-error-summary",
        "good.py",
        "wrong.py",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    lines = [line for line in run.stdout.splitlines() if ": error: " in line]
    first = TYPED.count("\n") + 1
    expected = [(f"wrong.py:{first + row}", f"[{kind}]") for row, kind in enumerate(WRONG.values())]
    assert [(line.split(": error")[0], line.rsplit(" ", 1)[1]) for line in lines] == expected
