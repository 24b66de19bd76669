"""The garbage collector's pauses: what survives a long full pass is not walked again."""

import gc
import sys

import pytest

from heddle.controller.runtime import interpreter


@pytest.fixture
def frozen():
    gc.unfreeze()  # what an earlier test of this process has excluded could end now
    gc.callbacks.append(interpreter._exclude_survivors)
    yield gc.get_freeze_count
    gc.callbacks.remove(interpreter._exclude_survivors)
    gc.unfreeze()


def test_survivors_of_a_long_pass_are_excluded_from_later_ones(frozen, monkeypatch):
    monkeypatch.setattr(interpreter, "LONG_PASS_NS", 0)
    held = [[number] for number in range(1_000)]
    gc.collect()
    assert frozen() >= len(held)


def test_short_passes_and_young_generations_exclude_nothing(frozen, monkeypatch):
    gc.collect(1)
    monkeypatch.setattr(interpreter, "LONG_PASS_NS", 10**12)
    gc.collect()
    assert frozen() == 0


def test_young_objects_are_collected_as_often_as_python_does_whatever_the_start_has_set(frozen):
    before, interval_s = gc.get_threshold(), sys.getswitchinterval()
    try:
        gc.set_threshold(50_000)
        interpreter.shorten_pauses()
        assert gc.get_threshold()[:2] == (700, 10)
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(interval_s)
