"""Find the known name that is most similar to a mistyped one.

The search is bounded, so that a wrong name in a fabric of a million NICs is refused at once.
"""

import difflib
from collections.abc import Iterable
from itertools import islice

MAX_CANDIDATES = 2_000
MAX_NAMES = 100_000
MAX_WORD_LENGTH = 200


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `word`; None where none is similar or too many candidates are."""
    if len(word) > MAX_WORD_LENGTH:
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
