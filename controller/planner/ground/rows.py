"""Structured dtypes for arrays of records that kernels and Python read by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def row(fields: Sequence[tuple[Any, ...]]) -> np.dtype[np.void]:
    """Return an aligned dtype of these fields; in interpreted code too, its records have them as attributes."""
    return np.dtype((np.record, np.dtype(list(fields), align=True)))
