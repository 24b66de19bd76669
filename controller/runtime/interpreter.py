"""Python's own pauses, made short: for processes whose loop may not be held up for more than some milliseconds."""

import gc
import sys

SWITCH_INTERVAL_S = 0.001


def shorten_pauses() -> None:
    """Call once, when what a process loads is loaded.

    A thread that others wait for is asked for the interpreter after 1 ms instead of 5 ms: so long each thread that
    decodes telemetry, writes history or metrics could hold up the loop. And what is there by now, modules and the
    fabric, is not looked through again by the garbage collector, which takes tens of ms with everything stopped.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
