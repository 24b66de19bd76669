"""The supervisor publishes tables to a data process, restarts it after a failure, and stops it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.control.process.messages import Options
from heddle.dataplane.control.process.shared import Word
from heddle.dataplane.control.process.supervisor import DataProcessError, Supervisor
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.rings import Injector, Ring, front
from heddle.dataplane.jit import kernel
from tests.fakes.gateway.gateway_site import LOCAL, site_tables

SMALL = replace(LOCAL, limits=Limits(connections=1 << 6, mappings=1 << 6, fragments=1 << 6))
TABLES = site_tables()
PATIENCE_S = 60


@kernel
def nothing_left(ring: Ring) -> bool:
    return front(ring) < 0


class Watched:
    """A supervisor and its notifications."""

    def __init__(self, mode: str, *program: str) -> None:
        self.notices: list[str] = []
        command = program or (sys.executable, "-m", "tests.fakes.gateway.data_process", mode)
        self.supervisor = Supervisor(SMALL, Options(), self.notices.append, command=command, sample_s=0.05)
        self.publish(1)

    def publish(self, generation: int) -> None:
        self.supervisor.publish(TABLES._replace(generation=np.array([generation])))

    async def uses(self, generation: int) -> None:
        await self.until(lambda: bool(self.supervisor.shared.words[Word.IN_USE] == generation))

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await asyncio.sleep(0.002)


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def begin(mode: str, *program: str) -> Watched:
        made.append(Watched(mode, *program))
        return made[-1]

    yield begin
    for one in made:
        await one.supervisor.stop()


async def test_a_data_process_gets_the_tables_that_are_published(start: Callable[..., Watched]) -> None:
    watched = start("well")
    assert (await watched.supervisor.start()).backend == "none"
    await watched.uses(1)
    for generation in range(2, 30):
        watched.publish(generation)
    await watched.uses(29)
    assert watched.notices == []


async def test_each_state_has_its_own_secret(start: Callable[..., Watched]) -> None:
    watched, secrets = start("crash"), set[int]()
    await watched.supervisor.start()
    watching = asyncio.create_task(watched.supervisor.watch())

    def another() -> bool:
        state = watched.supervisor.state()
        secrets.update([] if state is None else [int(state.counts[SEED])])
        return len(secrets) >= 3

    await watched.until(another)
    assert any(abs(secret) >> 32 for secret in secrets)
    await watched.supervisor.stop()
    await watching


async def test_a_data_process_that_dies_is_reported_and_restarted_with_the_newest_tables(
    start: Callable[..., Watched],
) -> None:
    watched = start("crash")
    await watched.supervisor.start()
    watching = asyncio.create_task(watched.supervisor.watch())
    watched.publish(7)
    await watched.until(lambda: watched.supervisor.restarts >= 2 and len(watched.notices) >= 2)
    await watched.uses(7)
    await watched.supervisor.stop()
    await watching
    assert all(line.startswith("the data process was ended by SIGSEGV; restarting in ") for line in watched.notices)


async def test_the_pause_before_a_restart_grows(start: Callable[..., Watched]) -> None:
    watched = start("crash")
    await watched.supervisor.start()
    watching = asyncio.create_task(watched.supervisor.watch())
    await watched.until(lambda: len(watched.notices) >= 3)
    await watched.supervisor.stop()
    await watching
    pauses = [float(line.split()[-2]) for line in watched.notices]
    assert pauses[:3] == sorted(set(pauses[:3]))


async def test_frames_queued_for_a_data_process_that_ended_are_discarded(start: Callable[..., Watched]) -> None:
    watched = start("crash")
    injector = Injector(watched.supervisor.shared.injects)
    injector.send(bytes(60), 0)
    await watched.supervisor.start()
    assert nothing_left(watched.supervisor.shared.injects)
    assert injector.withdrawn() == 1


async def test_a_suspended_data_process_hangs_until_it_resumes(start: Callable[..., Watched]) -> None:
    watched = start("well")
    supervisor = watched.supervisor
    await supervisor.start()
    watching = asyncio.create_task(supervisor.watch())
    await watched.until(lambda: supervisor.shared.words[Word.CALLS] > 0)
    supervisor.changed.clear()
    os.kill(supervisor.pid(), signal.SIGSTOP)
    await watched.until(lambda: supervisor.hangs)
    assert supervisor.changed.is_set()
    os.kill(supervisor.pid(), signal.SIGCONT)
    await watched.until(lambda: not supervisor.hangs)
    assert (supervisor.hung, supervisor.restarts, watched.notices) == (1, 0, [])
    await supervisor.stop()
    await watching


async def test_a_stuck_data_process_is_killed_and_restarted(start: Callable[..., Watched]) -> None:
    watched = start("silent")
    await watched.supervisor.start()
    watching = asyncio.create_task(watched.supervisor.watch())
    await watched.until(lambda: watched.supervisor.restarts >= 1)
    await watched.supervisor.stop()
    await watching
    assert "made no progress for" in watched.notices[0]


@pytest.mark.parametrize(
    ("mode", "why"),
    [("refuse", "eth9 is no interface here"), ("torn", "ended with status 3: RuntimeError: torn apart")],
)
async def test_a_failed_start_is_one_line(start: Callable[..., Watched], mode: str, why: str) -> None:
    with pytest.raises(DataProcessError, match=f"^{why}$"):
        await start(mode).supervisor.start()


async def test_a_program_that_cannot_be_started_is_one_line(start: Callable[..., Watched]) -> None:
    watched = start("well", "/missing/data-process")
    with pytest.raises(DataProcessError, match=r"^No such file or directory$"):
        await watched.supervisor.start()
    assert watched.supervisor.pid() == 0


async def test_without_tables_it_does_not_start() -> None:
    supervisor = Supervisor(SMALL, Options(), pytest.fail)
    with pytest.raises(DataProcessError, match="no tables were published"):
        await supervisor.start()
    await supervisor.stop()


async def test_after_the_end_it_does_not_start(start: Callable[..., Watched]) -> None:
    supervisor = start("well").supervisor
    await supervisor.stop()
    with pytest.raises(DataProcessError, match="it was stopped"):
        await supervisor.start()


async def test_it_ends_on_request(start: Callable[..., Watched]) -> None:
    watched = start("well")
    await watched.supervisor.start()
    watching = asyncio.create_task(watched.supervisor.watch())
    await asyncio.sleep(0)
    await watched.supervisor.stop()
    await asyncio.wait_for(watching, PATIENCE_S)
    assert watched.notices == []
