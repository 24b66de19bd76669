"""The error for invalid configuration: all problems at once, one line each, at most MAX_LINES."""

from collections.abc import Iterable

MAX_LINES = 20
MAX_SHOWN_LENGTH = 60


class ConfigError(ValueError):
    """The input is malformed, contradictory or beyond a limit; `problems` holds one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def refuse(problems: Iterable[str]) -> None:
    """Raise ConfigError with the first MAX_LINES problems and the number of others; return if there are none."""
    found = list(problems)
    if len(found) > MAX_LINES:
        found = [*found[:MAX_LINES], f"and {len(found) - MAX_LINES} more problems"]
    if found:
        raise ConfigError(found)


def shown(text: object) -> str:
    """Return a value as quoted text, cut to MAX_SHOWN_LENGTH."""
    full = repr(text)
    return full if len(full) <= MAX_SHOWN_LENGTH else full[:MAX_SHOWN_LENGTH] + "…"
