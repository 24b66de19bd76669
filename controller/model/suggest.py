"""The remedy for a mistyped name: the known name that comes nearest, or nothing where none is near.

The search is bounded so that a wrong name in a fabric of a million NICs is still refused at once.
"""

import difflib
from collections.abc import Iterable
from itertools import islice

MAX_CANDIDATES = 2_000
MAX_NAMES = 100_000
LONGEST_WORD = 200


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `word`, or None where none is like it or too many are."""
    if len(word) > LONGEST_WORD:
        return None
    candidates: list[str] = []
    for name in islice(known, MAX_NAMES):
        if abs(len(name) - len(word)) <= 2 or name.startswith(word):
            candidates.append(name)
            if len(candidates) > MAX_CANDIDATES:
                return None
    found = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `, did you mean NAME?` for the nearest known name, or nothing."""
    name = nearest(word, known)
    return f", did you mean {name}?" if name else ""
