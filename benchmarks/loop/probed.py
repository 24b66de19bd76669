"""`heddle run` with a task in its event loop that sleeps PROBE_S again and again and records how late it wakes.

At SIGUSR1 it prints a JSON array: the milliseconds that the task was late since the last one.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from pathlib import Path

from heddle.controller.app import Application
from heddle.controller.config import load_fabric
from heddle.controller.config.service import load_service
from heddle.controller.runtime.interpreter import shorten_pauses

PROBE_S = 0.005


async def probe(late_ms: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(PROBE_S)
        late_ms.append((time.monotonic() - began - PROBE_S) * 1e3)


async def serve(options: argparse.Namespace) -> None:
    """Run until SIGTERM."""
    settings = load_service(
        options.config, openflow=options.openflow, grpc=options.grpc, http=options.http, state=options.state
    )
    late_ms: list[float] = []

    def report() -> None:
        print(json.dumps(late_ms), flush=True)
        late_ms.clear()

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, report)
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    async with Application(load_fabric(options.fabric), settings).started() as addresses:
        shorten_pauses()
        print(json.dumps(addresses), flush=True)
        task = asyncio.create_task(probe(late_ms))
        await ended.wait()
        task.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run"])
    parser.add_argument("fabric", type=Path)
    parser.add_argument("--config", type=Path)
    for name in ("openflow", "grpc", "http", "state"):
        parser.add_argument(f"--{name}")
    asyncio.run(serve(parser.parse_args(sys.argv[1:])))
