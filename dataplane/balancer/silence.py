"""Close back ends that answer none of their new connections while others answer (passive health checks): pure.

    open --MIN_UNANSWERED unanswered in a row, others answer--> closed --it answers, or its pause ends--> open

A connection is answered by the first data or FIN that the back end sends: kernels complete handshakes for programs that
are frozen. It counts as unanswered once it had a whole reading to be answered in.

Clients decide what they send, so what they get is no proof against a back end. These rules limit what they can do:

- One answered connection is enough to stay open, so a back end that serves anyone stays open.
- Others must have answered most of theirs meanwhile: a service that replies rarely, or a flood, closes none.
- Of N back ends at most N/3 are closed, but one may always be; the one that answered last never is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

K = TypeVar("K")
READING_S = 3.0
REMEMBERED = 10
"""Readings before the newest one that are remembered, of a back end that answers none."""
MIN_UNANSWERED = 20
MIN_ANSWERED = 10
MIN_ANSWERED_SHARE = 0.75
"""What others must have answered. At this share, 20 unanswered ones in a row are chance once in 4^20."""
PAUSE, MAX_PAUSE = 10, 100
"""Readings that a back end is closed for; each closing in a row doubles them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """New connections of a back end since the reading before."""

    opened: int
    answered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What a back end has done; the initial value is that of a new one."""

    readings: tuple[Reading, ...] = ()
    """While it is open: the newest is the last."""
    closings: int = 0
    """Since it last answered while it was open."""
    pause: int = 0
    """Readings until it is open again; 0: it is open."""


def observed(before: Mapping[K, Conduct], readings: Mapping[K, Reading]) -> dict[K, Conduct]:
    """Return the conduct of a service's back ends after one more reading.

    `readings` has all that may get new connections by their probes and weights, in any fixed order. The others are
    forgotten: one that comes back is new.
    """
    after = {key: _after(before.get(key, Conduct()), reading) for key, reading in readings.items()}
    room = max(1, len(after) // 3) - sum(each.pause > 0 for each in after.values())
    answering = [_answering(after.values(), span) for span in range(REMEMBERED + 2)]
    silent = {key: each for key, each in after.items() if _is_silent(each, answering[_quiet(each)])}
    worst = sorted(silent, key=lambda key: -_unanswered(silent[key]))
    return {**after, **{key: _closed(after[key]) for key in worst[: max(room, 0)]}}


def _after(before: Conduct, reading: Reading) -> Conduct:
    if before.pause > 0:
        return replace(before, pause=0 if reading.answered else before.pause - 1)
    readings = (*before.readings, reading)[-REMEMBERED - 1 :]
    return Conduct(readings=readings, closings=0 if reading.answered else before.closings)


def _closed(each: Conduct) -> Conduct:
    return Conduct(closings=each.closings + 1, pause=min(PAUSE << min(each.closings, 8), MAX_PAUSE))


def _quiet(each: Conduct) -> int:
    """Return the number of newest readings without an answer."""
    count = 0
    while count < len(each.readings) and each.readings[-1 - count].answered == 0:
        count += 1
    return count


def _unanswered(each: Conduct) -> int:
    return sum(reading.opened for reading in each.readings[len(each.readings) - _quiet(each) : -1])


def _answering(all_ends: Iterable[Conduct], span: int) -> Reading:
    """Return the connections of those that answered in the last `span` readings, opened before the newest one."""
    opened = answered = 0
    for each in all_ends:
        last = each.readings[max(len(each.readings) - span, 0) :]
        mine = sum(reading.answered for reading in last)
        if mine:
            answered += mine
            opened += sum(reading.opened for reading in last[:-1])
    return Reading(opened, answered)


def _is_silent(each: Conduct, others: Reading) -> bool:
    return _unanswered(each) >= MIN_UNANSWERED and others.answered >= max(
        MIN_ANSWERED, MIN_ANSWERED_SHARE * others.opened
    )
