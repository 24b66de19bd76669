"""Shorten the interpreter's pauses, for processes whose event loop must not block for more than a few milliseconds."""

import gc
import sys

SWITCH_INTERVAL_S = 0.001


def shorten_pauses() -> None:
    """Set the thread switch interval to 1 ms and freeze the garbage collector; call once, after start-up.

    The default interval of 5 ms lets each thread that decodes telemetry or writes history block the loop for as long.
    Objects that exist by now (modules, the fabric) are excluded from garbage collection, whose full pass stops all
    threads for tens of milliseconds.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
