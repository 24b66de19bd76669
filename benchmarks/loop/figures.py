"""Summarise and print figures of the parts, and print how far a part has come."""

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

import numpy as np


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median, p99 and maximum of some values, and how many there are."""
    p50, p99, largest = np.percentile(values, (50, 99, 100))
    return {"count": len(values), "p50": float(p50), "p99": float(p99), "max": float(largest)}


def line(out: TextIO, name: str, row: dict[str, float], unit: str = "ms") -> None:
    """Print a summary in a row."""
    cells = "".join(f"{row[key]:10.1f}" for key in ("p50", "p99", "max"))
    print(f"  {name:44}{row['count']:6.0f}{cells} {unit}", file=out, flush=True)


def progress(name: str) -> Callable[[str], None]:
    """Return what prints to standard error how far something of this name has come."""
    return lambda text: print(f"  {name}: {text}", file=sys.stderr, flush=True)
