"""Run a command as a child: signals go to it, and its exit status comes back."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import FrameType

from heddle.controller.model.error import InputError

FORWARDED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH),
)
SIGNAL_STATUS = 128


class Child:
    """A command that may not have started yet: signals that arrive before it starts end the wait for it.

    Signals that arrive while it starts go to it once it has. Create it in the main thread.
    """

    def __init__(self) -> None:
        """Handle the signals of `FORWARDED` from now on."""
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = False
        self._early: list[int] = []
        for number in FORWARDED:
            signal.signal(number, self._forward)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the command to its end; return its status, 128 + n for signal n as shells do. Raises InputError."""
        self._starts = True
        try:
            self._process = subprocess.Popen(command, env=dict(environment))
        except OSError as error:
            raise InputError(f"{command[0]}: {error.strerror or error}") from None
        while self._early:
            self._send(self._early.pop(0))
        status = self._process.wait()
        return SIGNAL_STATUS - status if status < 0 else status

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if self._process is not None:
            self._send(number)
        elif self._starts:  # the command may run already: ending here would leave it without its parent
            if number not in self._early:
                self._early.append(number)
        elif number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            raise SystemExit(SIGNAL_STATUS + number)

    def _send(self, number: int) -> None:
        """Pass a signal on to the command."""
        # A terminal sends Ctrl-C and Ctrl-\ to the whole group: the command has them already.
        from_terminal = number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()
        if not from_terminal and self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
