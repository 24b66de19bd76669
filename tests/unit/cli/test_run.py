"""Signals end `heddle run` in order, and its log names them."""

import asyncio
import logging
import os
import signal
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from heddle.controller.config.service import ServiceConfig
from heddle.controller.runtime.fabric_apply import Life
from heddle.controller.runtime.limits.log_limit import LogLimit
from heddle.programs.console import run
from tests.unit.brain.driver import small_fabric

LIFE = Life(fabric=small_fabric())


class Application:
    """A controller that only starts and ends."""

    is_closed = left_open = False
    reloads = 0

    def __init__(self, number):
        self._number = number

    @asynccontextmanager
    async def started(self, *, hands_over=False):
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), self._number)
        yield {}
        self.is_closed = True

    async def failed(self):
        await asyncio.Event().wait()

    async def reload_policy(self):
        self.reloads += 1
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_the_controller_and_is_logged(caplog, number):
    caplog.set_level(logging.INFO)
    application = Application(number)
    before = signal.signal(signal.SIGHUP, lambda *_: None)  # a process under nohup ignores it
    try:
        asyncio.run(
            asyncio.wait_for(run._serve(lambda *_: cast("Any", application), ServiceConfig(), LogLimit(), LIFE), 20)
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    assert application.is_closed
    assert f"{number.name}: ending" in caplog.messages


def test_sighup_reloads_the_policy_and_ends_nothing_where_there_is_a_policy_file(caplog):
    caplog.set_level(logging.INFO)
    application = Application(signal.SIGHUP)
    config = ServiceConfig(policy="policy.yaml")
    asyncio.run(asyncio.wait_for(run._serve(lambda *_: cast("Any", application), config, LogLimit(), LIFE), 20))
    assert application.reloads == 1
    assert [text for text in caplog.messages if "ending" in text] == ["SIGTERM: ending"]


def test_the_limit_of_the_log_ends_with_the_controller():
    handlers = logging.getLogger().handlers
    with run._limited_log() as limit:
        assert handlers
        assert all(limit in handler.filters for handler in handlers)
    assert not any(limit in handler.filters for handler in handlers)


def test_lines_that_were_left_out_are_summarised_while_the_controller_runs(monkeypatch):
    monkeypatch.setattr(run, "SUMMARY_S", 0.001)
    summarised = asyncio.Event()

    class Limit(LogLimit):
        def summarise(self):
            summarised.set()

    class Waiting(Application):
        @asynccontextmanager
        async def started(self, *, hands_over=False):
            yield {}

        async def failed(self):
            await summarised.wait()
            os.kill(os.getpid(), signal.SIGTERM)

    application = cast("Any", Waiting(signal.SIGTERM))
    asyncio.run(asyncio.wait_for(run._serve(lambda *_: application, ServiceConfig(), Limit(), LIFE), 20))
