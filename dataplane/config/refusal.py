"""How input is refused: all problems at once, a line each, and only so many."""

from collections.abc import Iterable

MOST_LINES = 20
LONGEST_SHOWN = 60


class Refused(ValueError):
    """What was told is malformed, unknown, used twice or past a limit. `problems` holds one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def refuse(problems: Iterable[str]) -> None:
    """Raise Refused with the first problems, if there are any; what is left is counted."""
    found = list(problems)
    if len(found) > MOST_LINES:
        found = [*found[:MOST_LINES], f"and {len(found) - MOST_LINES} more problems"]
    if found:
        raise Refused(found)


def shown(text: object) -> str:
    """Return a value as it was given, quoted and cut."""
    full = repr(text)
    return full if len(full) <= LONGEST_SHOWN else full[:LONGEST_SHOWN] + "…"
