"""Decide when each port sends its next frame; pure, time is an argument.

A port that has come up sends often at first, as its switch or the other end may not listen yet, then once a second,
then every few seconds. Each stage waits in order of time, so that a turn costs what is due, not what is known.
"""

from collections import deque
from typing import NamedTuple

from heddle.controller.model.fabric import PortRef


class Stage(NamedTuple):
    """The time between two frames of a port until it has been up for so long."""

    every_s: float
    until_s: float


STAGES = (Stage(0.3, 1.5), Stage(1.0, 10.0), Stage(5.0, float("inf")))


class _Turn(NamedTuple):
    at_s: float
    port: PortRef
    number: int
    """Of its port's life: turns of an earlier one are void."""
    began_s: float


class Rounds:
    """The ports that send, and when they are due."""

    def __init__(self) -> None:
        self._lives: dict[PortRef, int] = {}
        self._next = 0
        self._waiting: tuple[deque[_Turn], ...] = tuple(deque() for _ in STAGES)

    def __contains__(self, port: object) -> bool:
        return port in self._lives

    def begin(self, port: PortRef, now_s: float) -> None:
        """Let a port send from now on: it has come up, or its switch has connected."""
        self._next += 1
        self._lives[port] = self._next
        self._waiting[0].appendleft(_Turn(now_s, port, self._next, now_s))

    def end(self, port: PortRef) -> None:
        """Let a port send no more."""
        self._lives.pop(port, None)

    def next_due(self, now_s: float, *, resting: bool = False) -> PortRef | None:
        """Return a port that has changed, or one that rests, whose turn has come, and schedule its next; None: none."""
        for waiting in self._waiting[-1:] if resting else self._waiting[:-1]:
            while waiting and waiting[0].at_s <= now_s:
                turn = waiting.popleft()
                if self._lives.get(turn.port) != turn.number:
                    continue
                number, stage = _stage(now_s - turn.began_s)
                self._waiting[number].append(turn._replace(at_s=now_s + stage.every_s))
                return turn.port
        return None


def _stage(age_s: float) -> tuple[int, Stage]:
    """Return the stage of a port that has been up for so long, and its number."""
    return next((number, stage) for number, stage in enumerate(STAGES) if age_s < stage.until_s)
