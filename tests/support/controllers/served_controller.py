"""Run a controller in a thread, for tests of the command line: real gRPC, no switches, no process for the planner."""

import asyncio
import threading
from contextlib import contextmanager

from heddle.controller.app import Application
from heddle.controller.config.service import ServiceConfig
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.fabrics.planner_cases import fabric_of


class ServedController:
    """`grpc` is its address; `run` runs a coroutine in its loop and returns the result, `begin` lets it run."""

    def __init__(self, application, grpc, loop):
        self.application, self.grpc = application, grpc
        self._loop = loop

    def begin(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine, timeout_s=60):
        return self.begin(coroutine).result(timeout_s)


@contextmanager
def served(**config):
    settings = ServiceConfig(**{"openflow": "127.0.0.1:0", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0", **config})
    fabric = fabric_of(leaves=4)
    application = Application(fabric, settings, ThreadPlanner(fabric), ThreadCompiler(fabric))
    ready, bound, loop = threading.Event(), {}, asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve():
        async with application.started() as addresses:
            bound.update(addresses)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(110)  # the first start after a change compiles kernels
    try:
        yield ServedController(application, bound["grpc"], loop)
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(60)
        loop.close()
