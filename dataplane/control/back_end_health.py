"""The health of a balancer's back ends, as the session with the controller reads it."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from heddle.dataplane.config.balancers import BackEndState


@dataclass(frozen=True, slots=True)
class BackEndHealth:
    """A function that returns the health of all back ends, and an event that is set when it changes."""

    states: Callable[[], Iterable[BackEndState]]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
