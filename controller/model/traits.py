"""What the runtime does with an event or effect of a class: how it prints it, and whether the journal comes first.

All of it is base classes and class attributes, never fields: a recording has the fields of an event, in their order.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple


class Line(NamedTuple):
    """What an event or a decision is, and the ids of its jobs."""

    text: str
    jobs: frozenset[str] = frozenset()


Wording = Callable[[Any], Line | None]
"""Returns a value of a class as a line; None for one that says nothing by itself."""


def _named(value: Any) -> Line:
    job_id = getattr(value, "job_id", None)
    return Line(type(value).__name__, frozenset(() if job_id is None else (job_id,)))


class Printed:
    """An event or effect; `line()` is what `heddle replay` prints of it: its class, and the job of its `job_id`."""

    __slots__ = ()
    line: ClassVar[Wording] = _named


class Change(Printed):
    """A request whose reply promises that its outcome survives a restart: the reply waits for the journal."""

    __slots__ = ()


class Held(Printed):
    """An effect that acknowledges or publishes a change: it waits until the journal has what came before."""

    __slots__ = ()
