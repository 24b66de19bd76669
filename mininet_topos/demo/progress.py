"""Progress of the demo on standard error: a progress bar on a terminal, plain lines elsewhere."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class DemoProgress:
    """The progress of named steps, measured in the seconds that they are expected to take."""

    def __init__(self) -> None:
        """Show a bar if standard error is a terminal."""
        console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._done_s = 0.0
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)

    def __enter__(self) -> "DemoProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, seconds: float) -> None:
        """Set the expected duration of everything from now on."""
        self._done_s = 0.0
        if self._bar is not None and self._task is None:
            self._task = self._bar.add_task("", total=seconds)
        elif self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=seconds, completed=0)

    def log(self, line: str) -> None:
        """Print a permanent line."""
        if self._bar is not None:
            self._bar.console.print(line, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def begin(self, name: str) -> None:
        """Show the name of the present step on the bar; without a bar nothing is printed."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=name)

    def within(self, seconds: float) -> None:
        """Move the bar to `seconds` after the start of the present step."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done_s + seconds)

    def end(self, seconds: float) -> None:
        """End the present step, whose expected duration was `seconds`."""
        self._done_s += seconds
        self.within(0.0)
