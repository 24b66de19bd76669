"""Word one difference between a switch's configuration and what a plan assumes."""

from typing import NamedTuple

from controller.sonic.config_db import Place


class Difference(NamedTuple):
    """A field, what it holds (empty: not set), what the plan assumes, and why it does."""

    place: Place
    found: str
    wanted: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.found or 'not set'}, the plan assumes {self.wanted}: {self.reason}"
