"""Shorten the interpreter's pauses, for processes whose event loop must not block for more than a few milliseconds."""

import gc
import sys
import time
from typing import Any

SWITCH_INTERVAL_S = 0.001
COLLECTION_THRESHOLDS = (700, 10, 10)
"""Python's own. `heddle` starts with a larger first one, whose passes would take milliseconds."""
LONG_PASS_NS = 5_000_000
"""Objects that a full pass of the garbage collector walks in more processor time are excluded from later ones."""
_began_ns = 0


def shorten_pauses() -> None:
    """Set the thread switch interval to 1 ms, and exclude old objects from garbage collection; call after start-up.

    The default interval of 5 ms lets each thread that decodes telemetry or writes history block the loop for as long.
    A full pass of the garbage collector stops all threads: tens of milliseconds for what exists by now (modules, the
    fabric), 300 ms for half a million rules.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    gc.collect()
    gc.freeze()
    if _exclude_survivors not in gc.callbacks:
        gc.callbacks.append(_exclude_survivors)


def _exclude_survivors(phase: str, info: dict[str, Any]) -> None:
    """Exclude what survives a long full pass: the next one walks only newer objects.

    Reference counts free excluded objects as before; only a cycle that is dropped later stays in memory. A pass is long
    after the state has grown by some ten thousand objects, so few cycles (streams, exceptions) are affected.
    """
    global _began_ns
    if info["generation"] < 2:
        return
    if phase == "start":
        _began_ns = time.thread_time_ns()
    elif time.thread_time_ns() - _began_ns > LONG_PASS_NS:
        gc.freeze()
