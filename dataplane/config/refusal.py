"""How input is refused: all problems at once, a line each, and only so many."""

from collections.abc import Iterable

MAX_LINES = 20
LONGEST_SHOWN = 60


class ConfigError(ValueError):
    """What was told is malformed, unknown, used twice or past a limit. `problems` holds one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def refuse(problems: Iterable[str]) -> None:
    """Raise ConfigError with the first problems, if there are any; what is left is counted."""
    found = list(problems)
    if len(found) > MAX_LINES:
        found = [*found[:MAX_LINES], f"and {len(found) - MAX_LINES} more problems"]
    if found:
        raise ConfigError(found)


def shown(text: object) -> str:
    """Return a value as it was given, quoted and cut."""
    full = repr(text)
    return full if len(full) <= LONGEST_SHOWN else full[:LONGEST_SHOWN] + "…"
