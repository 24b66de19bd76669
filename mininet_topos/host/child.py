"""The lab's end of a child process that speaks JSON lines: NICs and the capture."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from controller.model.error import PrerequisiteError
from mininet_topos.host.json_lines import LineReader, read_one, write_line

REPLY_TIMEOUT_S = 20.0
PACKAGE_PARENT = Path(__file__).parents[2]


class Child:
    """A running child; requests may be sent to many children before the first answer is read."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        """Start it, outside of the terminal's process group so that Ctrl-C reaches the lab alone."""
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
        """Return its process id."""
        return self._process.pid

    @property
    def fd(self) -> int:
        """Return the descriptor that becomes readable when the child says something."""
        return self._reader.fd

    def send_request(self, **request: Any) -> None:
        """Send a request without waiting; raises PrerequisiteError where the child has ended."""
        assert self._process.stdin is not None
        try:
            write_line(self._process.stdin, request)
        except BrokenPipeError:
            raise PrerequisiteError(f"{self.name} ended unexpectedly (status {self._process.wait()})") from None

    def read_reply(self) -> dict[str, Any]:
        """Return the answer to the oldest request; events that come first are kept in `events`."""
        while True:
            message = read_one(self._reader, self._waiting, REPLY_TIMEOUT_S)
            if message is None and self._reader.closed:
                raise PrerequisiteError(f"{self.name} ended unexpectedly (status {self._process.wait()})")
            if message is None:
                raise PrerequisiteError(f"{self.name} does not answer")
            if "event" in message:
                self.events.append(message)
            elif not message.get("ok"):
                raise PrerequisiteError(f"{self.name}: {message.get('error')}")
            else:
                return message

    def poll_events(self) -> None:
        """Take what the child has said by now; call when `fd` is readable and no answer is due."""
        self._waiting += self._reader.read()
        if self._reader.closed:
            raise PrerequisiteError(f"{self.name} ended unexpectedly (status {self._process.wait()})")
        self.events += self._waiting
        self._waiting = []

    def close(self) -> None:
        """Let the child end by closing its input."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it did not read before it ended
                    pipe.close()

    def reap(self) -> None:
        """Collect the status of a child that has been ended."""
        self._process.wait(REPLY_TIMEOUT_S)
