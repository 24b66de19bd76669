"""Send steps of rule changes: to all switches of a step concurrently, each followed by a barrier, step after step.

Invariants: at most `MESSAGES_PER_TURN` messages are encoded in one turn of the event loop, over all switches; where an
error is raised, every switch of its step has replied to its barrier, disconnected, or is named as lagging: messages of
the step are in flight to no other.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from heddle.controller.model.rule import Change, Step
from heddle.controller.runtime.ports import InstallError, InstallWatch
from heddle.controller.southbound.batch import Batch
from heddle.controller.southbound.codec.templates import encoded
from heddle.controller.southbound.pending import RequestRejectedError, SessionClosedError
from heddle.controller.southbound.session import SwitchSession

_LOG = logging.getLogger("heddle.southbound")
MESSAGES_PER_TURN = 500
MESSAGES_OF_A_SWITCH = 25
"""A barrier and the system calls for one switch take as long as encoding so many messages."""
RULES_PER_S = 10_000
"""What an installation with many changes takes without lagging: on a busy machine, much of it is the controller's."""
_Sent = asyncio.Task[str | None]
"""The changes of a step for one switch; its result is why they failed, None where they did not."""


class Installer:
    """Write changes to sessions, a bounded number per turn of the event loop."""

    def __init__(self, may_send: Callable[[], bool] = lambda: True, lag_s: float = 0.3) -> None:
        """Create it; nothing is sent any more when `may_send` returns False."""
        self._may_send = may_send
        self._lag_s = lag_s
        self._turn = asyncio.Lock()
        self._written_this_turn = 0
        self._lagging: dict[str, _Sent] = {}

    async def install(self, steps: Sequence[Step], sessions: Mapping[str, SwitchSession], watch: InstallWatch) -> None:
        """Send every step; raises InstallError for the first step that fails, with nothing of later ones sent."""
        for step in steps:
            absent = [switch for switch in step.changes if switch not in sessions]
            if absent:
                raise InstallError(absent[0], "the switch is not connected")
            sent = {
                switch: asyncio.create_task(self._apply(sessions[switch], changes))
                for switch, changes in step.changes.items()
            }
            try:
                changes = sum(map(len, step.changes.values()))
                await self._acknowledged(sent, self._lag_s + changes / RULES_PER_S, watch)
            except asyncio.CancelledError:
                for task in sent.values():
                    task.cancel()
                raise

    async def caught_up(self, switch: str) -> None:
        """Wait until nothing is in flight to a switch that lagged in an installation that has ended."""
        if sent := self._lagging.get(switch):
            await asyncio.wait((sent,))

    async def _acknowledged(self, sent: Mapping[str, _Sent], lag_s: float, watch: InstallWatch) -> None:
        """Wait for the barriers of a step; without those that lag where one failed, or where the caller gives up."""
        done, waiting = await asyncio.wait(sent.values(), timeout=lag_s)
        given_up = asyncio.ensure_future(watch.given_up.wait())
        try:
            while waiting and not given_up.done() and not any(map(_failure, done)):
                watch.lags(frozenset(switch for switch, task in sent.items() if task in waiting))
                await asyncio.wait((*waiting, given_up), return_when=asyncio.FIRST_COMPLETED)
                done, waiting = await asyncio.wait(sent.values(), timeout=0)
                if not waiting:
                    watch.lags(frozenset())
        finally:
            given_up.cancel()
        lagging = {switch: task for switch, task in sent.items() if task in waiting}
        self._follow(lagging)
        for switch, task in sent.items():
            if task in done and (reason := _failure(task)) is not None:
                raise InstallError(switch, reason, frozenset(lagging))
        if lagging:
            raise InstallError(next(iter(lagging)), "no reply to its barrier yet", frozenset(lagging))

    def _follow(self, lagging: Mapping[str, _Sent]) -> None:
        """Keep the tasks that go on beyond their installation."""
        for switch, task in lagging.items():
            self._lagging[switch] = task
            task.add_done_callback(lambda task, switch=switch: self._ended(switch, task))  # type: ignore[misc]

    def _ended(self, switch: str, task: _Sent) -> None:
        if self._lagging.get(switch) is task:
            del self._lagging[switch]
        if not task.cancelled() and (fault := task.exception()) is not None:
            _LOG.error("an installation failed", exc_info=fault)

    async def _apply(self, session: SwitchSession, changes: Sequence[Change]) -> str | None:
        """Send changes, and return once the switch has acknowledged them: None, or why they failed."""
        batch = Batch(changes)
        session.open_batch(batch)
        clock = asyncio.get_running_loop().time
        try:
            async with self._turn:
                await self._count(MESSAGES_OF_A_SWITCH)
            began, outstanding = clock(), session.outstanding
            await self._write(session, batch)
            await session.barrier(outstanding)
            session.pace.replied(outstanding, clock() - began)
        except (SessionClosedError, RequestRejectedError) as why:
            batch.fail(str(why))
        except TimeoutError:
            batch.fail("no reply to a barrier in time")
        except ValueError as why:
            batch.fail(f"a rule that cannot be sent: {why}")
        finally:
            session.close_batch(batch)
        return batch.outcome

    async def _write(self, session: SwitchSession, batch: Batch) -> None:
        changes = iter(batch.changes)
        xid = batch.first_xid
        while chunk := list(islice(changes, MESSAGES_PER_TURN)):
            await session.writable(session.outstanding)
            async with self._turn:
                if not self._may_send():
                    raise SessionClosedError("this controller no longer leads")
                session.transport.write(encoded(chunk, xid))
                await self._count(len(chunk))
            xid += len(chunk)

    async def _count(self, written: int) -> None:
        """Yield to the event loop after MESSAGES_PER_TURN; the lock makes the other switches wait as well."""
        self._written_this_turn += written
        if self._written_this_turn >= MESSAGES_PER_TURN:
            await asyncio.sleep(0)
            self._written_this_turn = 0


def _failure(task: _Sent) -> str | None:
    """Return why a task that is done failed; raises a fault of the controller."""
    return task.result()
