"""Keep a process that probes back ends running, and report what it finds.

Probes have a process of their own, because compiling tables must not delay them, nor a slow probe the tables. If it
ends, the next one begins anew: back ends keep their state until it reports another one.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from heddle.dataplane.control.probing.orders import MAX_KEYS, Forget, Turned, Watch, read_messages
from heddle.dataplane.control.probing.probes import Target
from heddle.dataplane.control.process import messages
from heddle.foundation.backoff import Backoff

COMMAND = (sys.executable, "-m", "heddle.dataplane.control.probing.process")
RESTART = Backoff(first_s=0.1, max_s=5.0, steady_s=10.0)


class Prober:
    """The control process's end."""

    def __init__(self, turned: Callable[[Any, bool], None], notify: Callable[[str], None]) -> None:
        """Call `turned` with each key whose health changed; `notify` with one line for the operator."""
        self._turned, self._notify = turned, notify
        self._targets: dict[Any, Target] = {}
        self._end: Any = None

    def watch(self, targets: Mapping[Any, Target]) -> None:
        """Probe these targets, and no others, from now on."""
        gone = tuple(key for key in self._targets if key not in targets)
        news = {key: target for key, target in targets.items() if self._targets.get(key) != target}
        self._targets = dict(targets)
        self._send(news, gone)

    async def run(self) -> None:
        """Keep the process running until cancelled."""
        loop, attempt = asyncio.get_running_loop(), 1
        while True:
            since = loop.time()
            await self._run_once()
            attempt = RESTART.next_attempt(attempt, loop.time() - since)
            pause_s = RESTART.delay_s(attempt, jitter=1.0)
            self._notify(f"the process that probes back ends ended; restarting in {pause_s:g} s")
            await asyncio.sleep(pause_s)

    async def _run_once(self) -> None:
        end, other = messages.pair()
        with end:
            with other:
                process = await asyncio.create_subprocess_exec(
                    *COMMAND,
                    str(other.fileno()),
                    pass_fds=(other.fileno(),),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._end = end
            self._send(self._targets, ())
            try:
                await read_messages(end, self._report)
            finally:
                self._end = None
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()

    def _report(self, message: Any) -> None:
        """Report a change, unless its target is not probed any more."""
        if isinstance(message, Turned) and message.key in self._targets:
            self._turned(message.key, message.is_up)

    def _send(self, targets: Mapping[Any, Target], gone: tuple[Any, ...]) -> None:
        if self._end is None:
            return
        with contextlib.suppress(OSError):  # it ended: the next one gets all targets
            for at in range(0, len(gone), MAX_KEYS):
                messages.send(self._end, Forget(gone[at : at + MAX_KEYS]))
            keys = list(targets)
            for at in range(0, len(keys), MAX_KEYS):
                messages.send(self._end, Watch({key: targets[key] for key in keys[at : at + MAX_KEYS]}))
