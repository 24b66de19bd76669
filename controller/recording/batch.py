"""One turn of the control loop: as the loop hands it over, and as it is written."""

from dataclasses import dataclass
from typing import NamedTuple

from heddle.controller.brain.state import State
from heddle.controller.model.effect import Effect
from heddle.controller.model.event import Event


class Decided(NamedTuple):
    """One effect that the brain returned: its kind and the digest of its values."""

    kind: str
    digest: bytes


class Batch(NamedTuple):
    """What the brain was given in one turn, and what it decided; `fault` is the exception that it raised."""

    unix_ms: int
    events: tuple[Event, ...]
    decided: tuple[Decided, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of the control loop, before it is written."""

    before: State
    unix_ms: int
    events: tuple[Event, ...]
    effects: tuple[Effect, ...]
    fault: str = ""


def fault_text(fault: Exception) -> str:
    """Return an exception of the brain as it is recorded."""
    return f"{type(fault).__name__}: {fault}"
