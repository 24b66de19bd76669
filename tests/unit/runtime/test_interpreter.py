"""The garbage collector's pauses: what survives is not walked in each full pass, and still no cycle stays for good."""

import gc
import math
import sys
import weakref

import pytest

from heddle.controller.runtime import interpreter


@pytest.fixture
def excluded(monkeypatch):
    """Return how many objects are excluded from passes; those from before this test always are."""
    gc.collect()
    gc.freeze()
    before = gc.get_freeze_count()
    monkeypatch.setattr(interpreter, "MAX_WALKED", 1_500)
    for name, value in (("_whole", before), ("_since", 0), ("_is_whole_next", False), ("CALM_S", -1.0)):
        monkeypatch.setattr(interpreter, name, value)
    callbacks = list(gc.callbacks)  # a controller of an earlier test has left its own
    gc.callbacks[:] = [interpreter._exclude_survivors]
    yield lambda: gc.get_freeze_count() - before
    gc.callbacks[:] = callbacks
    gc.unfreeze()


@pytest.fixture
def settings():
    """Restore the interpreter's settings."""
    before, interval_s = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*before)
    sys.setswitchinterval(interval_s)


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self):
        self.own = self


def test_survivors_are_excluded_from_later_passes_once_there_are_many(excluded):
    held = [[number] for number in range(6_000)]
    gc.collect()
    assert excluded() >= len(held)


def test_few_survivors_and_young_generations_exclude_nothing(excluded):
    held = [[number] for number in range(6_000)]
    gc.collect(1)
    del held[500:]
    gc.collect()
    assert excluded() <= 0


def test_cycles_that_are_dropped_after_they_were_excluded_are_freed_before_the_process_has_grown_by_much(excluded):
    """Each pass finds a twentieth of all objects in use, as calls in progress, which end later."""
    gc.unfreeze()
    interpreter._is_whole_next = True
    gc.collect()
    size = gc.get_freeze_count() // 20
    assert size > interpreter.MAX_WALKED
    dropped = []
    for _ in range(20):
        calls = [Cycle() for _ in range(size)]
        gc.collect()
        dropped.append(weakref.ref(calls[0]))
        del calls
    assert sum(each() is not None for each in dropped) <= 6


def test_what_grows_fast_may_double_before_a_pass_walks_all_of_it(excluded, monkeypatch):
    monkeypatch.setattr(interpreter, "CALM_S", math.inf)
    gc.unfreeze()
    interpreter._is_whole_next = True
    gc.collect()
    held, first = [], gc.get_freeze_count()
    while gc.get_freeze_count() > 0:
        held.append([[number] for number in range(first // 10)])
        before = gc.get_freeze_count()
        gc.collect()
    assert before > 1.7 * first


def test_what_is_made_to_stay_begins_no_pass_and_is_excluded(excluded):
    before = excluded()
    with interpreter.growing():
        assert not gc.isenabled()
        made = [[number] for number in range(5_000)]
    assert gc.isenabled()
    assert excluded() - before >= len(made)


def test_what_former_lives_leave_in_cycles_is_walked_once_it_is_a_quarter_of_all(excluded, settings):
    gc.unfreeze()
    interpreter.shorten_pauses()
    first = gc.get_freeze_count()
    for share, is_whole in ((0.1, False), (0.3, True)):
        with interpreter.growing():
            left = [Cycle() for _ in range(int(share * first))]
        interpreter.shorten_pauses(collects=False)
        gc.collect()
        assert (gc.get_freeze_count() == 0) is is_whole
        del left


def test_to_exclude_survivors_does_not_count_all_that_are_excluded(excluded, monkeypatch):
    """A count walks them: with a million objects that held all threads for 40 ms, twice a pass."""
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("it counts"))
    held = [[number] for number in range(6_000)]
    gc.collect()
    assert held


def test_young_objects_are_collected_as_often_as_python_does_whatever_the_start_has_set(excluded, settings):
    gc.set_threshold(50_000)
    interpreter.shorten_pauses()
    assert gc.get_threshold()[:2] == (700, 10)
