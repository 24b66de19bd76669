"""`heddle run` with a task in its event loop that sleeps PROBE_S again and again and records how late it wakes.

At SIGUSR1 it prints two JSON arrays, by what was found at each wake since the last time: by how many milliseconds the
task was late, and how many milliseconds of processor time the loop's thread had used while it slept, which no call of
the loop exceeds. The task goes on where another fabric is put in force and the controller begins again.
"""

import asyncio
import json
import runpy
import signal
import time

PROBE_S = 0.005


async def probe(late_ms: list[float], used_ms: list[float]) -> None:
    while True:
        began, used = time.monotonic(), time.thread_time()
        await asyncio.sleep(PROBE_S)
        late_ms.append((time.monotonic() - began - PROBE_S) * 1e3)
        used_ms.append((time.thread_time() - used) * 1e3)


class Probed(asyncio.DefaultEventLoopPolicy):
    """Gives each event loop the task, which ends with the loop."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop, late_ms, used_ms = super().new_event_loop(), list[float](), list[float]()
        self.task: asyncio.Task[None] | None = None

        def report() -> None:
            print(json.dumps([late_ms, used_ms]), flush=True)
            late_ms.clear()
            used_ms.clear()

        def begin() -> None:
            loop.add_signal_handler(signal.SIGUSR1, report)
            self.task = loop.create_task(probe(late_ms, used_ms))

        loop.call_soon(begin)
        return loop


if __name__ == "__main__":
    asyncio.set_event_loop_policy(Probed())
    runpy.run_module("heddle.programs.console.main", run_name="__main__", alter_sys=True)
