"""Shorten the interpreter's pauses, for processes whose event loop must not block for more than a few milliseconds."""

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SWITCH_INTERVAL_S = 0.001
COLLECTION_THRESHOLDS = (700, 10, 10)
"""Python's own. `heddle` starts with a larger first one, whose passes would take milliseconds."""
MAX_WALKED = 50_000
"""Objects that a full pass of the garbage collector may walk, in 2 to 5 ms; where more survive, they are excluded."""
MAX_GROWTH = 1.25
"""Once so many times the excluded objects of the last whole pass are excluded, the next pass is whole."""
MAX_GROWTH_AT_ONCE = 2.0
"""The same within CALM_S of the last whole pass: ten thousand calls that arrive in a few seconds began six."""
CALM_S = 60.0
_whole = 0
"""How many objects were excluded after the last whole pass: all of them were in use."""
_since = 0
"""How many were excluded since, at most: those that were freed meanwhile count until they are counted again."""
_whole_at_s = 0.0
"""When the last whole pass ended, by a clock that only grows."""
_is_whole_next = False
"""Whether nothing is excluded from the next full pass."""


def shorten_pauses(*, collects: bool = True) -> None:
    """Set the thread switch interval to 1 ms, and exclude old objects from garbage collection; call after start-up.

    Without `collects` no garbage is looked for, which stops all threads: for a controller that has served already.
    What its former life has left in cycles is excluded too, so once that is a quarter the next pass is whole.

    The default interval of 5 ms lets each thread that decodes telemetry or writes history block the loop for as long.
    A full pass of the garbage collector stops all threads: tens of milliseconds for what exists by now (modules, the
    fabric), 300 ms for half a million rules.
    """
    global _whole, _since, _whole_at_s, _is_whole_next
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    if collects:
        gc.collect()
    gc.freeze()
    if collects:
        _whole, _whole_at_s, _is_whole_next = gc.get_freeze_count(), time.monotonic(), False
    _since = gc.get_freeze_count() - _whole
    if _exclude_survivors not in gc.callbacks:
        gc.callbacks.append(_exclude_survivors)


@contextmanager
def growing() -> Iterator[None]:
    """Make many values that stay: no pass of the garbage collector begins meanwhile, and later ones exclude them.

    Passes would walk all that is there already, again and again. What is in use elsewhere meanwhile is excluded too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _exclude_survivors(phase: str, info: dict[str, Any]) -> None:
    """Exclude what survives a full pass from later ones, once it is too much to walk each time.

    Reference counts free excluded objects as before, but a cycle that is dropped later stays in memory: calls, streams
    and connections in progress are such cycles. So few survivors are not excluded, however long the pass took, and
    once the excluded objects have grown by a quarter, the next pass walks all of them: a pause that is as rare as that.
    Where they grow so fast that one such pause would follow another, they may double first.
    """
    global _whole, _since, _whole_at_s, _is_whole_next
    if phase == "start" or info["generation"] < 2:
        return
    survivors = len(gc.get_objects(generation=2))
    if survivors > MAX_WALKED:
        gc.freeze()
        _since += survivors
        if _is_whole_next:
            _whole, _since, _whole_at_s, _is_whole_next = survivors, 0, time.monotonic(), False
    growth = MAX_GROWTH if time.monotonic() - _whole_at_s > CALM_S else MAX_GROWTH_AT_ONCE
    if _since > (growth - 1) * _whole:
        _since = gc.get_freeze_count() - _whole  # it walks all of them: 40 ms for a million
        if _since > (growth - 1) * _whole:
            gc.unfreeze()
            _since, _is_whole_next = 0, True
