"""`heddle events`: print the event log of a running controller."""

import json
import re
import sys
import time
from datetime import UTC, datetime

from rich.text import Text

from heddle.controller.model.error import InputError
from heddle.programs.console import show as screen
from heddle.programs.console.client import connected
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SINCE = re.compile(r"([0-9]{1,9})([smhd])\Z", re.ASCII)
_STYLES = {"warning": "yellow", "error": "bold red"}


def since_ns(text: str, now_ns: int) -> int:
    """Return the Unix time in nanoseconds a duration (90s, 15m, 1h, 7d) before now; raises InputError."""
    found = _SINCE.match(text)
    if found is None:
        raise InputError(f"--since: {text!r} is not a duration; write 90s, 15m, 1h or 7d")
    return max(1, now_ns - int(found[1]) * _UNITS_S[found[2]] * 1_000_000_000)


def events(server: str, *, since: str, follow: bool, as_json: bool) -> None:
    """Print the events since a duration ago; with `follow`, go on with new ones."""
    request = pb.WatchEventsRequest(since_unix_ns=since_ns(since, time.time_ns()), history_only=not follow)
    printed = 0
    with connected(server) as client:
        for event in client.telemetry.WatchEvents(request):
            printed += 1
            if as_json:
                json.dump(as_dict(event), sys.stdout)
                print()
            else:
                screen.console().print(line(event), soft_wrap=True)
            sys.stdout.flush()
    if not printed and not as_json:
        print(f"no events in the last {since} that the controller has kept")


def line(event: pb.Event) -> Text:
    """Return one event as a line."""
    moment = datetime.fromtimestamp(event.timestamp_unix_ns / 1e9, UTC).isoformat(" ", "milliseconds")
    text = Text(moment.removesuffix("+00:00") + "Z ", style="dim")
    text.append(f"{event.severity:<7} {event.kind}", style=_STYLES.get(event.severity, "default"))
    return text.append(f" {event.subject}: {event.text}", style="default")
