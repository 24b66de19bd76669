import subprocess
import sys
from typing import Any

import pytest

from heddle.kernels import cache
from heddle.programs.console import compiling as module
from heddle.programs.console.compiling import BESIDE, compiling


@pytest.fixture(autouse=True)
def observers(monkeypatch):
    monkeypatch.setattr(cache, "_observers", [])
    monkeypatch.setattr(module, "BESIDE", (sys.executable, "-c", "import signal; signal.pause()"))


def compile_kernels(count):
    for number in range(count):
        for observer in cache._observers:
            observer(f"kernel{number}")


def test_a_long_compilation_is_reported(monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    shown = []
    with compiling(shown.append):
        compile_kernels(2)
    assert shown == [f"compiling kernels, once after an installation ({count} so far)" for count in (1, 2)]


def test_a_short_compilation_is_not_reported(monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 60.0)
    shown = []
    with compiling(shown.append):
        compile_kernels(2)
    assert shown == []


def test_after_the_command_nothing_is_reported(monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    shown = []
    with compiling(shown.append):
        pass
    compile_kernels(1)
    assert shown == []


def test_a_second_process_compiles_what_a_plan_needs_last():
    found = subprocess.run(BESIDE, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "planner: kernels compiled (proof, incast)\n")


def test_the_second_process_ends_with_the_command(monkeypatch):
    begun, popen = [], subprocess.Popen

    def begin(*given: Any, **more: Any) -> Any:
        begun.append(popen(*given, **more))
        return begun[0]

    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1})
    monkeypatch.setattr(subprocess, "Popen", begin)
    with compiling(lambda _text: None):
        compile_kernels(2)
        (process,) = begun
        assert process.poll() is None
    assert process.returncode is not None
