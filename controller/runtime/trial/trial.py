"""A trial of a fabric file, as the controller sees it: a process that reads the file and compares it with what runs.

Reading 16,000 cables and 8,000 NICs, and comparing them and a thousand jobs, takes seconds of computation. In a thread
it would hold the interpreter for tenths of a second at a time; the event loop only sends and receives here.
"""

import asyncio
import pickle
from types import TracebackType
from typing import Any, Self

from heddle.controller.brain.state import State
from heddle.controller.model.error import HeddleError, UnavailableError
from heddle.controller.model.fabric import Fabric
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.runtime.child_process import LOST, ChildProcess
from heddle.controller.runtime.journal import jobs
from heddle.controller.runtime.journal.foresight import Running, lasting_jobs, running_with
from heddle.controller.runtime.trial.wire import Begin, Check, Checked, HandedOver, HandOver, Judge, Judged, Reader

MODULE = "heddle.controller.runtime.trial.child"
LIMIT_S = 120.0
"""A process that takes longer for a reply counts as lost; the largest file takes 30 s to read."""
MAX_FLOWS_IN_LOOP = 200
"""Jobs up to so many flows are encoded in the event loop, in about a millisecond each; larger ones in a thread."""


class Trial:
    """One process for one fabric, as long as the context lasts; one request at a time."""

    def __init__(self, source: str | Fabric, read: Reader, limit_s: float = LIMIT_S) -> None:
        """`source` is a fabric, or the text of its file, which `read` reads: a function that can be pickled."""
        self._first, self._limit_s = Begin(source, read), limit_s
        self._process: ChildProcess | None = None

    async def __aenter__(self) -> Self:
        self._process = ChildProcess(MODULE)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.close()

    async def name(self) -> str:
        """Return the name of the fabric, once it is read; raises InputError where that fails, and UnavailableError."""
        found = await self._request(self._first)
        assert isinstance(found, str)
        return found

    async def judge(self, state: State) -> Judged:
        """Return what the fabric would change of a state; raises UnavailableError."""
        found = await self._request(Judge(await _running(state)))
        assert isinstance(found, Judged)
        return found

    async def check(self, state: State, kept: frozenset[str]) -> Checked:
        """Return whether the fabric may follow a later state, whose jobs in `kept` are as they were judged last."""
        found = await self._request(Check(await _running(state, without=kept), kept))
        assert isinstance(found, Checked)
        return found

    async def hand_over(self) -> tuple[Fabric, bytes]:
        """Return the fabric that was judged last, and as the journal has it; raises UnavailableError."""
        found = await self._request(HandOver())
        assert isinstance(found, HandedOver)
        return await asyncio.to_thread(pickle.loads, found.pickled), found.whole

    async def _request(self, message: object) -> Any:
        assert self._process is not None
        try:
            async with asyncio.timeout(self._limit_s):
                await self._process.send(await asyncio.to_thread(pickle.dumps, message))
                found = await self._process.receive()
        except LOST as lost:
            text = (
                f"the process that reads the fabric file ended ({type(lost).__name__}); nothing was changed: try again"
            )
            raise UnavailableError(text) from None
        if isinstance(found, HeddleError):
            raise found
        return found


async def _running(state: State, without: frozenset[str] = frozenset()) -> Running:
    """Return what of a state crosses, without some jobs.

    Small jobs are encoded in turn with all else: a thread that computes makes each turn of the loop wait for it.
    """
    topology = topology_of(state.fabric)
    found: dict[str, bytes] = {}
    for name, job in lasting_jobs(state).items():
        if name in without:
            continue
        if len(job.flows.flows) > MAX_FLOWS_IN_LOOP:
            found[name] = await asyncio.to_thread(jobs.encode, topology, job)
        else:
            found[name] = jobs.encode(topology, job)
            await asyncio.sleep(0)
    return running_with(state, found)
