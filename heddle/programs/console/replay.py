"""`heddle replay`: decide a recording again, compare, and print it as a timeline."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from heddle.controller.model.error import HeddleError, InputError
from heddle.controller.model.traits import Line, Printed
from heddle.controller.recording.replay import Gap, Replayed, replay, segments


class DifferenceError(HeddleError):
    """A decision differs from the recorded one."""


def from_unix_ms(text: str) -> int:
    """Return the Unix time in milliseconds of a time as the timeline prints it, UTC by default; raises InputError."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0, round(moment.timestamp() * 1000))
    except (ValueError, OverflowError):
        raise InputError(f"--from: {text[:80]!r} is no time; write 2026-11-22T23:01:05Z") from None


def run(path: Path, *, since: str | None, job: str | None, as_json: bool) -> None:
    """Replay all files from a time on; raises InputError, and DifferenceError at the first difference."""
    begin, batches = from_unix_ms(since) if since is not None else 0, 0
    for file in segments(path, begin):
        for each in replay(file):
            if isinstance(each, Gap):
                _print_gap(each, as_json)
                continue
            batches += 1
            if each.difference:
                _print_batch(each, None, as_json)
                raise DifferenceError(_difference(file, each))
            if each.batch.unix_ms >= begin:
                _print_batch(each, job, as_json)
    if not as_json:
        print(f"{batches} batches of events replayed, all decisions are the recorded ones")


def _difference(file: Path, each: Replayed) -> str:
    events = "; ".join(_text(line) for line in _lines(each.batch.events))
    return f"{file}: differs at {_moment(each.batch.unix_ms)}: {each.difference} (after: {events or 'a tick'})"


def _print_gap(gap: Gap, as_json: bool) -> None:
    if gap.cut and not as_json:
        print(f"{gap.path.name} ends within a record: its process was ended while it wrote")


def _print_batch(each: Replayed, job: str | None, as_json: bool) -> None:
    """Print a batch with what it decided; with `job`, only if one of its lines is about that job."""
    events, effects = _lines(each.batch.events), _lines(each.effects)
    if job is not None and not any(job in line.jobs for line in (*events, *effects)):
        return
    failed = [f"the brain failed: {each.batch.fault}"] if each.batch.fault else []
    decided = [*map(_text, effects), *failed]
    if not events and not decided:
        return
    if as_json:
        entry = {"unix_ms": each.batch.unix_ms, "events": [*map(_text, events)], "decisions": decided}
        json.dump(entry | ({"difference": each.difference} if each.difference else {}), sys.stdout)
        print()
        return
    print(_moment(each.batch.unix_ms))
    for text in map(_text, events):
        print(f"  {text}")
    for text in decided:
        print(f"    -> {text}")


def _lines(values: Iterable[Printed]) -> list[Line]:
    return [line for each in values if (line := each.line()) is not None]


def _text(line: Line) -> str:
    return line.text.replace("\n", "; ")


def _moment(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00") + "Z"
