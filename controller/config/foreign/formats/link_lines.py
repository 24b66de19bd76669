"""What the simulators' topology files have in common: lines of words, node numbers, rates such as 400Gbps."""

import re
from collections.abc import Iterator

from heddle.controller.config.foreign.draft import Draft
from heddle.controller.config.text.complaint import shown

MAX_NUMBER_LENGTH = 12
_RATE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(|[kKMGT])(?:bps|b/s)\Z")
_UNIT = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def lines_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the number and the words of each line that is not blank."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield str(number), line.split()


def is_count(word: str) -> bool:
    """Return whether a word is a whole number of a length that can be read."""
    return word.isdecimal() and len(word) <= MAX_NUMBER_LENGTH


def node_number(draft: Draft, place: str, word: str, nodes: int) -> int:
    """Return the number of a node; raises InputError if there is none."""
    if not (is_count(word) and int(word) < nodes):
        draft.refuse(place, f"{shown(word)} is no node: they are numbered 0 to {nodes - 1}")
    return int(word)


def rate_bps(draft: Draft, place: str, word: str) -> int:
    """Return a rate in bit/s; raises InputError."""
    found = _RATE.match(word)
    if not found:
        draft.refuse(place, f"{shown(word)} is no rate such as 400Gbps")
    return round(float(found[1]) * _UNIT[found[2]])
