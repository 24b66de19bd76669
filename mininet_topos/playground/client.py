"""The client of a lab's control socket: find the running lab, send one request, read progress and result."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from heddle.controller.model.error import HeddleError, InputError, NotFoundError, PrerequisiteError, UnavailableError
from heddle.mininet_topos.host.json_lines import LineReader, write_line
from heddle.mininet_topos.host.registry import LabEntry, entry_of, living_labs
from heddle.mininet_topos.playground.control import SOCKET, Message

NAME = "name"
"""The file of a lab's name in its directory; a lab without one is named by its id."""


def running_labs() -> dict[str, LabEntry]:
    """Return the labs that can be controlled, by name; raises PrerequisiteError without root."""
    if os.geteuid() != 0:
        raise PrerequisiteError("labs belong to root: run this with sudo")
    entries = [entry_of(lab_id) for lab_id in living_labs()]
    return {_name(entry): entry for entry in entries if (entry.directory / SOCKET).exists()}


def _name(entry: LabEntry) -> str:
    with suppress(OSError):
        return (entry.directory / NAME).read_text()
    return entry.id


def check_name(name: str) -> None:
    """Raise InputError if a running lab has this name, or it is not made of letters, digits, - and _."""
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or len(name) > 32:
        raise InputError(f"--name {name!r}: must be at most 32 letters, digits, - and _")
    if name in running_labs():
        raise InputError(f"--name {name}: a lab of this name is running")


def find_lab(name: str | None) -> LabEntry:
    """Return the lab of a name or id, or the only one; raises NotFoundError, InputError if there are several."""
    labs = running_labs()
    if name is not None:
        by_id = {entry.id: entry for entry in labs.values()}
        found = labs.get(name) or by_id.get(name)
        if found is None:
            raise NotFoundError(f"no lab {name} runs here; running: {', '.join(sorted(labs)) or 'none'}")
        return found
    if not labs:
        raise NotFoundError("no lab runs here; start one with `heddle lab fabric`")
    if len(labs) > 1:
        raise InputError(f"several labs run here, choose one by --name: {', '.join(sorted(labs))}")
    return next(iter(labs.values()))


def call(lab: LabEntry, request: Message, on_progress: Callable[[Message], None] = lambda _: None) -> Any:
    """Send a request and return its result; raises the lab's error, UnavailableError if the lab ends before."""
    ended = UnavailableError(f"lab {lab.id} has ended")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(lab.directory / SOCKET))
        except OSError:
            raise ended from None
        with suppress(OSError), connection.makefile("wb") as stream:  # a refusal may come before the request
            write_line(stream, request)
        reader = LineReader(connection.fileno())
        while not reader.closed:
            try:
                messages = reader.read()
            except OSError:
                break
            for message in messages:
                if "progress" in message:
                    on_progress(message["progress"])
                elif message["ok"]:
                    return message["result"]
                else:
                    raise _error(message)
    raise ended


def _error(message: Message) -> HeddleError:
    fault = HeddleError(message["error"])
    fault.exit_status = message["exit_status"]
    return fault
