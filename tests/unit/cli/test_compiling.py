import subprocess

import pytest

from controller.cli import compiling as module
from controller.cli.compiling import BESIDE, compiling
from controller.planner.incast import confinement
from controller.planner.proof import ecmp, fluid
from controller.planner.search import repair, spread
from kernels import cache


class Beside:
    """Stands for the second process."""

    def __init__(self):
        self.ended = False

    def terminate(self):
        self.ended = True

    def wait(self):
        return 0


@pytest.fixture
def beside(monkeypatch):
    started = []

    def start(*_, **__):
        started.append(Beside())
        return started[-1]

    monkeypatch.setattr(cache, "_observers", [])
    monkeypatch.setattr(subprocess, "Popen", start)
    return started


def compile_kernels(count):
    for number in range(count):
        for observer in cache._observers:
            observer(f"kernel{number}")


def test_a_long_compilation_is_reported_and_shared_with_a_second_process(beside, monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    shown = []
    with compiling(shown.append):
        compile_kernels(2)
        assert [process.ended for process in beside] == [False]
    assert shown == [f"compiling kernels, once after an installation ({count} so far)" for count in (1, 2)]
    assert beside[0].ended


def test_a_short_compilation_is_not_reported(beside, monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 60.0)
    shown = []
    with compiling(shown.append):
        compile_kernels(2)
    assert (shown, beside) == ([], [])


def test_after_the_command_nothing_is_reported(beside, monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    shown = []
    with compiling(shown.append):
        pass
    compile_kernels(1)
    assert (shown, beside) == ([], [])


def test_the_second_process_compiles_kernels_that_exist():
    found = {name for each in (confinement, ecmp, fluid, repair, spread) for name in vars(each)}
    assert set(BESIDE) <= found
