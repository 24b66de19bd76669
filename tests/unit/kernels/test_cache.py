import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core.registry import cpu_target

from heddle.controller import planner
from heddle.kernels import cache, compile_lock
from heddle.kernels.cache import digest, digest_with_imports
from heddle.kernels.compile_lock import CompileLock

digest_of = digest.__wrapped__  # without the process-wide cache


@pytest.fixture
def package(tmp_path):
    inner = tmp_path / "search" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "top.py").write_text("x = 1\n")
    (inner / "kernel.py").write_text("y = 1\n")
    return tmp_path


def test_a_change_in_a_nested_folder_invalidates_the_cached_kernels(package):
    before = digest_of(package)
    (package / "search" / "deep" / "kernel.py").write_text("y = 2\n")
    assert digest_of(package) != before


def test_a_file_moved_between_folders_invalidates_the_cached_kernels(package):
    before = digest_of(package)
    (package / "search" / "deep" / "kernel.py").rename(package / "search" / "kernel.py")
    assert digest_of(package) != before


def test_files_that_are_not_python_keep_the_cached_kernels(package):
    before = digest_of(package)
    (package / "search" / "README.md").write_text("what is here\n")
    assert digest_of(package) == before


PLANNER = Path(planner.__file__).parent


def importing(tmp_path, **texts):
    """Write the files of a package `few`, whose names have `_` for `/`, and return the digest of each with imports."""
    for name, text in texts.items():
        (tmp_path / f"{name.replace('_', '/')}.py").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name.replace('_', '/')}.py").write_text(text)
    cache._read.cache_clear()
    cache.digest_with_imports.cache_clear()
    files = {name: tmp_path / f"{name.replace('_', '/')}.py" for name in texts}
    return {name: digest_with_imports(file, tmp_path, "few") for name, file in files.items()}


def test_a_kernel_is_compiled_again_where_a_file_that_it_imports_by_way_of_others_changes(tmp_path):
    texts = {"top": "from few.mid import y\n", "mid": "def y():\n    from few.deep.low import z\n", "beside": "w = 1\n"}
    before = importing(tmp_path, **texts, deep_low="z = 1\n")
    after = importing(tmp_path, **texts, deep_low="z = 2\n")
    assert [name for name in before if before[name] == after[name]] == ["beside"]


def test_a_kernel_that_imports_a_folder_is_compiled_again_where_any_file_of_it_changes(tmp_path):
    before = importing(tmp_path, top="from few.deep import low\n", deep_low="z = 1\n", deep_other="z = 1\n")
    after = importing(tmp_path, top="from few.deep import low\n", deep_low="z = 1\n", deep_other="z = 2\n")
    assert before["top"] != after["top"]


def test_two_imports_in_a_circle_have_an_end(tmp_path):
    found = importing(tmp_path, one="import few.other\n", other="import few.one\n")
    assert found["one"] == found["other"]


@pytest.mark.parametrize("file", sorted(PLANNER.rglob("*.py")), ids=lambda file: file.relative_to(PLANNER).as_posix())
def test_the_imports_of_each_file_of_the_planner_are_found(file):
    modules = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            modules.append(node.module or "")
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    of_planner = {module for module in modules if module.startswith(planner.__name__)}
    wanted = {
        module.removeprefix(planner.__name__).replace(".", os.sep).lstrip(os.sep) + ".py" for module in of_planner
    }
    assert {each.relative_to(PLANNER).as_posix() for each in cache._read(file, PLANNER, planner.__name__)[1]} == wanted


DOUBLED = """
import sys, time
from heddle.kernels.cache import on_compile
from heddle.controller.planner.ground.jit import kernel

@kernel
def doubled(x: int) -> int:
    return 2 * x

on_compile(lambda name: print(f"compiles {name.split('-')[0]}", flush=True) or time.sleep(1))
print(doubled(21))
"""


def test_of_two_processes_that_need_a_kernel_one_compiles_it(tmp_path):
    (tmp_path / "doubled.py").write_text(DOUBLED)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "doubled.py"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    printed = sorted(process.communicate(timeout=120)[0] for process in both)
    assert printed == ["42\n", "compiles doubled.doubled\n42\n"]


OUTER = """
import sys
import numba
from heddle.kernels.cache import keep_on_disk, on_compile

on_compile(lambda name: print(f"compiles {name.split('-')[0]}"))

def kernel(function):
    compiled = numba.njit(nogil=True)(function)
    keep_on_disk(compiled, stamp="of this test")
    return compiled

@kernel
def inner(x):
    return 2 * x

@kernel
def outer(x):
    return inner(x) + 1

print(*([inner(21)] if sys.argv[1] == "inner" else [inner(21), outer(21)]))
"""


def printed_in_turn(tmp_path, *arguments):
    """Return what a process prints that calls the kernels named by each argument, one process after the other."""
    (tmp_path / "outer.py").write_text(OUTER)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "outer.py"]
    return [
        subprocess.run([*command, each], cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
        for each in arguments
    ]


def test_a_kernel_from_the_cache_is_linked_into_one_that_is_compiled(tmp_path):
    printed = printed_in_turn(tmp_path, "inner", "outer", "outer")
    assert printed == ["compiles outer.inner\n42\n", "compiles outer.outer\n42 43\n", "42 43\n"]


def test_a_lock_that_another_process_keeps_is_waited_for_only_so_long(tmp_path, monkeypatch):
    monkeypatch.setattr(compile_lock, "TIMEOUT_S", 0.1)
    first, second = CompileLock(tmp_path / "lock"), CompileLock(tmp_path / "lock")
    first.acquire()
    second.acquire()
    second.release()
    first.release()
    second.acquire()
    assert (first.held, second.held) == (False, True)


def test_without_a_place_for_the_lock_there_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    lock = CompileLock(tmp_path / "file" / "lock")
    lock.acquire()
    assert not lock.held


KERNELS = """
import numba
from heddle.kernels.cache import keep_on_disk

def kernel(function):
    compiled = numba.njit(nogil=True)(function)
    keep_on_disk(compiled, stamp="of this test")
    return compiled

@kernel
def inner(x):
    return 2 * x

@kernel
def hashed(text):
    return hash(text)

@kernel
def once(x):
    return inner(x) + 1

@kernel
def again(x):
    return inner(x) + 2
"""


FILLED = """
import sys
import numpy as np
from heddle.controller.planner.ground.jit import kernel

@kernel
def filled(count: int, value: float):
    if value < 0.0:
        raise ValueError("a negative value")
    return np.full(count, value)

print(filled(2, 0.5).tolist())
try:
    filled(2, -0.5)
except ValueError as error:
    print(error)
print("numba.np.arrayobj" in sys.modules, "numba.cpython.unicode" in sys.modules)
"""


def test_a_process_that_loads_a_kernel_imports_nothing_to_compile_and_its_errors_stay(tmp_path):
    (tmp_path / "filled.py").write_text(FILLED)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "filled.py"]
    compiles, loads = (
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout for _ in range(2)
    )
    assert compiles == "[0.5, 0.5]\na negative value\nTrue True\n"
    assert loads == "[0.5, 0.5]\na negative value\nFalse False\n"


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Return a function that imports the kernels anew, as another process would, and the names of those it compiles."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "few_kernels.py").write_text(KERNELS)
    compiled = []
    monkeypatch.setattr(cache, "_observers", [lambda name: compiled.append(name.split("-")[0].split(".")[-1])])

    def load():
        monkeypatch.delitem(sys.modules, "few_kernels", raising=False)
        compiled.clear()
        return importlib.import_module("few_kernels"), compiled

    return load


def test_a_loaded_kernel_is_linked_into_each_that_is_compiled_after_it(loaded):
    loaded()[0].inner(21)
    kernels, compiled = loaded()
    assert (kernels.inner(21), kernels.once(21), kernels.again(21)) == (42, 43, 44)
    assert compiled == ["once", "again"]


def test_only_a_loaded_kernel_that_hashes_text_waits_for_a_refresh_of_the_target(loaded, monkeypatch):
    first, _ = loaded()
    first.inner(21), first.hashed("of one process")
    refreshed = []
    monkeypatch.setattr(cpu_target.target_context, "refresh", lambda: refreshed.append(True))
    kernels, compiled = loaded()
    assert (kernels.inner(21), refreshed) == (42, [])
    assert (kernels.hashed("of another"), refreshed) == (hash("of another"), [True])
    assert compiled == []


def test_a_damaged_cache_file_costs_a_compilation(loaded, tmp_path):
    loaded()[0].inner(21)
    for file in (tmp_path / "cache").rglob("few_kernels.inner*.nb*"):
        file.write_bytes(b"no pickle")
    kernels, compiled = loaded()
    assert (kernels.inner(21), compiled) == (42, ["inner"])


def test_a_kernel_that_another_process_compiles_meanwhile_is_loaded_and_lets_others_go_on(loaded, monkeypatch):
    kernels, compiled = loaded()
    kept = kernels.inner._cache
    found = iter([None, "code of another"])
    monkeypatch.setattr(kept, "_read", lambda *_: next(found))
    assert kept.load_overload((), None) == "code of another"
    assert (compiled, kept._lock.held) == ([], False)


def test_where_no_directory_can_be_written_kernels_are_compiled_without_a_lock(loaded, monkeypatch):
    def refused(_):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(cache, "FunctionCache", refused)
    kernels, compiled = loaded()
    assert (kernels.inner(21), compiled) == (42, [])
    assert "_lock" not in vars(kernels.inner._cache)
