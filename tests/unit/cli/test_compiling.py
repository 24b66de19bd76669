import pytest

from controller.cli import compiling as module
from controller.cli.compiling import compiling
from kernels import cache


@pytest.fixture(autouse=True)
def observers(monkeypatch):
    monkeypatch.setattr(cache, "_observers", [])


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
