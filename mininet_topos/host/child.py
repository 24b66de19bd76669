"""Control a child process over JSON lines on its standard input and output: NICs, capture, queue daemon."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.json_lines import LineReader, read_one, write_line

REPLY_TIMEOUT_S = 20.0
PACKAGE_PARENT = Path(__file__).parents[3]


class Child:
    """A running child process; a caller may send requests to many children before it reads the first reply."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        """Start the child in a session of its own, so that Ctrl-C reaches the lab's process alone."""
        self.name = name
        self._process = subprocess.Popen(
            command,
            env={**environment, "PYTHONPATH": str(PACKAGE_PARENT), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader = LineReader(self._process.stdout.fileno())
        self._waiting: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def fd(self) -> int:
        """Return the descriptor that becomes readable when the child has written a message or has ended."""
        return self._reader.fd

    def send_request(self, **request: Any) -> None:
        """Send a request without waiting for the reply; raises PrerequisiteError if the child has ended."""
        assert self._process.stdin is not None
        try:
            write_line(self._process.stdin, request)
        except BrokenPipeError:
            raise PrerequisiteError(f"{self.name} ended unexpectedly (status {self._process.wait()})") from None

    def read_reply(self) -> dict[str, Any]:
        """Return the reply to the oldest request; append events that arrive before it to `events`.

        Raises PrerequisiteError if the child reports an error, has ended, or does not reply in time.
        """
        while True:
            message = read_one(self._reader, self._waiting, REPLY_TIMEOUT_S)
            if message is None and self._reader.closed:
                raise PrerequisiteError(f"{self.name} ended unexpectedly (status {self._process.wait()})")
            if message is None:
                raise PrerequisiteError(f"{self.name} does not reply")
            if "event" in message:
                self.events.append(message)
            elif not message.get("ok"):
                raise PrerequisiteError(f"{self.name}: {message.get('error')}")
            else:
                return message

    def poll_events(self) -> None:
        """Read the events that have arrived; call it when `fd` is readable and no reply is outstanding."""
        self._waiting += self._reader.read()
        if self._reader.closed:
            raise PrerequisiteError(f"{self.name} ended unexpectedly (status {self._process.wait()})")
        self.events += self._waiting
        self._waiting = []

    def close(self) -> None:
        """Close the child's input, which makes it exit."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # unread data of a child that has ended
                    pipe.close()

    def reap(self) -> None:
        """Wait for the exit status of a child after `close`."""
        self._process.wait(REPLY_TIMEOUT_S)
