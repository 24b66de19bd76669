"""Write JSON such that the interpreter is never held for more than about a millisecond.

`json.dumps` keeps the interpreter, and with it the event loop, until it has written everything: 100 ms for the links of
a large fabric. So long lists are written a few items at a time.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

ITEMS_AT_ONCE = 200
MAX_TEXTS = 100_000


def document_text(document: Mapping[str, object]) -> str:
    """Return a document as JSON; lists and iterators of its first level are written in parts."""
    return "{" + ",".join(f"{json_text(key)}:{_value_text(value)}" for key, value in document.items()) + "}"


def json_text(value: object) -> str:
    """Return a small value as JSON, without spaces."""
    return json.dumps(value, separators=(",", ":"), check_circular=False, allow_nan=False)


def list_text(items: Iterable[object]) -> str:
    """Return a list as JSON, written in parts."""
    return "[" + ",".join(part for part in _parts(iter(items)) if part) + "]"


def _value_text(value: object) -> str:
    return list_text(value) if isinstance(value, list | tuple | Iterator) else json_text(value)


def _parts(items: Iterator[object]) -> Iterator[str]:
    while some := list(islice(items, ITEMS_AT_ONCE)):
        yield json_text(some)[1:-1]


class _Texts(dict[int, str]):
    """The text of each number of thousandths, written on first use."""

    def __missing__(self, thousandths: int) -> str:
        if len(self) > MAX_TEXTS:
            self.clear()
        text = self[thousandths] = f"{thousandths / 1000:.3f}".rstrip("0").rstrip(".")
        return text


_TEXTS = _Texts()
_UNKNOWN = -1_000_000_000
"""Stands for nan: no share of a capacity is negative."""


def shares_text(values: NDArray[np.float64]) -> str:
    """Return numbers of one dimension as a JSON list, rounded to three digits; nan is null."""
    thousandths = np.where(np.isnan(values), _UNKNOWN, np.rint(values * 1000)).astype(np.int64)
    _TEXTS[_UNKNOWN] = "null"
    return "[" + ",".join(map(_TEXTS.__getitem__, thousandths.tolist())) + "]"


def flags_text(values: NDArray[np.bool_]) -> str:
    """Return flags of one dimension as a JSON list of 0 and 1."""
    return "[" + ",".join(map("01".__getitem__, values.astype(np.int64).tolist())) + "]"
