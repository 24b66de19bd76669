"""Render rows of numbers and of known texts as one text, by a template: a plan of a million flows is 700 MB of JSON."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.controller.planner.ground.jit import Ints, bare_kernel

Bytes = NDArray[np.uint8]
NO_TEXT = -1
MAX_DIGITS = 20
"""The length of the longest 64-bit integer, with its sign."""
COMMA, SPACE, MINUS, ZERO = b", -0"


class Texts(NamedTuple):
    """Texts by number: text i is `content[begin[i]:begin[i + 1]]`, the longest has `longest` characters."""

    content: Bytes
    begin: Ints
    longest: int

    @staticmethod
    def of(texts: Sequence[str]) -> "Texts":
        """Return texts of ASCII characters; raises UnicodeEncodeError for others."""
        begin = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=begin[1:])
        content = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8)
        return Texts(content, begin, int(np.diff(begin).max(initial=0)))


class Template(NamedTuple):
    """A row is text 0 of `around`, field 0, text 1, field 1, … and the last text.

    The fields are in the order of the columns. One of `width` 0 is a number. Any other is that many numbers of texts,
    NO_TEXT left out, joined by ", ".
    """

    around: Texts
    width: Ints


def rendered(template: Template, texts: Texts, rows: Ints) -> str:
    """Return the text of rows (a row of columns each), joined by ", "."""
    widest = max(texts.longest, MAX_DIGITS) + len(", ")
    text = np.empty(len(rows) * (len(template.around.content) + rows.shape[1] * widest + len(", ")), dtype=np.uint8)
    return str(text[: _render(template, texts, np.ascontiguousarray(rows), text)].data, "ascii")


@bare_kernel
def _render(template: Template, texts: Texts, rows: Ints, text: Bytes) -> int:
    """Write the text of rows; return its length."""
    place, fields = 0, template.width.shape[0]
    for row in range(rows.shape[0]):
        if row > 0:
            place = _separate(text, place)
        column = 0
        for field in range(fields):
            place = _copy(template.around, field, text, place)
            if template.width[field] == 0:
                place = _write_number(rows[row, column], text, place)
                column += 1
            end, joined = column + template.width[field], False
            while column < end:
                if rows[row, column] >= 0:
                    place = _separate(text, place) if joined else place
                    place, joined = _copy(texts, rows[row, column], text, place), True
                column += 1
        place = _copy(template.around, fields, text, place)
    return place


@bare_kernel
def _copy(texts: Texts, number: int, text: Bytes, place: int) -> int:
    """Append one of the texts; return the place after it."""
    begin, end = texts.begin[number], texts.begin[number + 1]
    for i in range(begin, end):
        text[place + i - begin] = texts.content[i]
    return place + end - begin


@bare_kernel
def _separate(text: Bytes, place: int) -> int:
    text[place], text[place + 1] = COMMA, SPACE
    return place + 2


@bare_kernel
def _write_number(value: int, text: Bytes, place: int) -> int:
    """Append a number in decimal digits; return the place after it."""
    if value < 0:
        text[place] = MINUS
        place, value = place + 1, -value
    end, rest = place + 1, value
    while rest >= 10:
        end, rest = end + 1, rest // 10
    for i in range(end - 1, place - 1, -1):
        text[i], value = ZERO + value % 10, value // 10
    return end
