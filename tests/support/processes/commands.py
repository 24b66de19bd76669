"""Client commands of `heddle` in a process that stays: a command costs no start of Python.

As a program this reads the words of a command in each line, in JSON, and writes what it ended with.
"""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

from heddle.programs.console.main import main


class Commands:
    """A process that runs commands, from the first one until `close`."""

    def __init__(self, entrance: Sequence[str] = ()) -> None:
        """`entrance` is a command that runs another, such as one in a network namespace."""
        self._command = [*entrance, sys.executable, "-m", __name__]
        self._process: subprocess.Popen[str] | None = None

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command and return its status and output."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        line = self._process.stdout.readline()
        assert line, f"the process of commands ended with status {self._process.wait()}"
        return subprocess.CompletedProcess(words, *json.loads(line))

    def result(self, *words: str) -> Any:
        """Run a command that must succeed and return its JSON."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        """End the process; a later command starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def ended(words: Sequence[str]) -> tuple[Any, str, str]:
    """Run a command in this process; return its status, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", ["heddle", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            return end.code, out.getvalue(), err.getvalue()
    raise AssertionError("main() always ends by SystemExit")


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(ended(json.loads(line))), flush=True)
