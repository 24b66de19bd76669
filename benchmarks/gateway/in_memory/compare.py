"""Run our kernels and C alternately on copies of the same frames; compare times and results."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heddle.benchmarks.gateway.in_memory.c_loop import CLoops
from heddle.benchmarks.gateway.in_memory.cases import NAMES, NOW_NS, Case, case, run
from heddle.benchmarks.gateway.wire.ours import VNI
from heddle.benchmarks.gateway.wire.traffic import FLOWS
from heddle.dataplane.engine.burst import new_rows

REPETITIONS, ROUNDS = 15, 12
NOT_COMPARED = ("node", "start")
"""Fields of a row that differ: the C loop has no graph of nodes, and `start` belongs to the run loop."""


@dataclass(frozen=True)
class Pair:
    """Nanoseconds per packet of ours and of C; C's is NaN without a compiler."""

    kind: int
    length: int
    ours_ns: float
    ours_best_ns: float
    c_ns: float
    c_best_ns: float
    ratio: float
    """The median of the repetitions' own ratios."""


def compared(kind: int, length: int, loops: CLoops | None) -> Pair:
    """Measure one case; raises RuntimeError if ours and C produce different bytes or rows.

    Both sides work on both of two copies in every repetition: the placement of memory and the size of its pages change
    the time per packet by up to a third.
    """
    copies = [(case(kind, length), new_rows()) for _ in range(2)]

    def ours(copy: int) -> float:
        return _ns(lambda rounds: run(*copies[copy], rounds))

    def in_c(copy: int) -> float:
        if loops is None:
            return float("nan")
        each, rows = copies[copy]
        words = (VNI, each.tables, each.state, NOW_NS)
        return _ns(lambda rounds: loops.repeat(kind, *each.frames, rows, rounds, *words))

    took = []
    for number in range(1 + REPETITIONS):
        mine, theirs = ours(0), in_c(1)
        if loops is not None and number in (0, REPETITIONS):
            check_equal(*copies[0], *copies[1])
        took.append(((mine + ours(1)) / 2, (theirs + in_c(0)) / 2))
    columns = list(zip(*took[1:], strict=True))
    return Pair(
        kind=kind, length=length, ours_ns=statistics.median(columns[0]), ours_best_ns=min(columns[0]),
        c_ns=statistics.median(columns[1]), c_best_ns=min(columns[1]),
        ratio=statistics.median(a / b for a, b in took[1:]),
    )  # fmt: skip


def check_equal(mine: Case, rows: np.ndarray, theirs: Case, c_rows: np.ndarray) -> None:
    """Compare every byte of memory, the last burst's rows, and the connections; raises RuntimeError."""
    what = NAMES[mine.kind]
    different = np.flatnonzero(mine.frames.memory != theirs.frames.memory)
    if len(different):
        raise RuntimeError(f"{what}: {len(different)} bytes differ from C's, the first at {different[0]}")
    if (mine.frames.memory == mine.frames.pristine).all() and mine.kind != 1:
        raise RuntimeError(f"{what}: nothing was written")
    assert rows.dtype.names is not None
    for field in rows.dtype.names:
        if field not in NOT_COMPARED and (rows[field] != c_rows[field]).any():
            raise RuntimeError(f"{what}: {field} differs: {rows[field][:3]} beside C's {c_rows[field][:3]}")
    if (mine.state.connections != theirs.state.connections).any():
        raise RuntimeError(f"{what}: connections differ from C's")


def _ns(repeat: Callable[[int], None]) -> float:
    before = time.process_time_ns()
    repeat(ROUNDS)
    return (time.process_time_ns() - before) / (ROUNDS * FLOWS)
