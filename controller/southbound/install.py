"""Send steps of rule changes: to all switches of a step concurrently, each followed by a barrier, step after step.

Invariants: at most `MESSAGES_PER_TURN` messages are encoded in one turn of the event loop, over all switches; an error
is raised only after every switch of its step has replied to its barrier or disconnected, so that no message of the
step is in flight.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from heddle.controller.model.rule import Change, Step
from heddle.controller.runtime.ports import InstallError
from heddle.controller.southbound.batch import Batch
from heddle.controller.southbound.codec.templates import encoded
from heddle.controller.southbound.pending import RequestRejectedError, SessionClosedError
from heddle.controller.southbound.session import SwitchSession

MESSAGES_PER_TURN = 500
MESSAGES_OF_A_SWITCH = 25
"""A barrier and the system calls for one switch take as long as encoding so many messages."""


class Installer:
    """Write changes to sessions, a bounded number per turn of the event loop."""

    def __init__(self, may_send: Callable[[], bool] = lambda: True) -> None:
        """Create it; nothing is sent any more when `may_send` returns False."""
        self._may_send = may_send
        self._turn = asyncio.Lock()
        self._written_this_turn = 0

    async def install(self, steps: Sequence[Step], sessions: Mapping[str, SwitchSession]) -> None:
        """Send every step; raises InstallError for the first step that fails, with nothing of later ones sent."""
        for step in steps:
            absent = [switch for switch in step.changes if switch not in sessions]
            if absent:
                raise InstallError(absent[0], "the switch is not connected")
            outcomes = await asyncio.gather(
                *(self._apply(switch, sessions[switch], changes) for switch, changes in step.changes.items()),
                return_exceptions=True,
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _apply(self, switch: str, session: SwitchSession, changes: Sequence[Change]) -> None:
        batch = Batch(changes)
        session.open_batch(batch)
        try:
            async with self._turn:
                await self._count(MESSAGES_OF_A_SWITCH)
            await self._write(session, batch)
            await session.barrier()
        except (SessionClosedError, RequestRejectedError) as why:
            batch.fail(str(why))
        except TimeoutError:
            batch.fail("no reply to a barrier in time")
        except ValueError as why:
            batch.fail(f"a rule that cannot be sent: {why}")
        finally:
            session.close_batch(batch)
        if batch.failure is not None:
            raise InstallError(switch, batch.failure)

    async def _write(self, session: SwitchSession, batch: Batch) -> None:
        changes = iter(batch.changes)
        xid = batch.first_xid
        while chunk := list(islice(changes, MESSAGES_PER_TURN)):
            await session.transport.writable()
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
