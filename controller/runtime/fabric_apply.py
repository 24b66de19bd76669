"""Change the fabric of a running controller.

A controller has one fabric for all of its life, so a change begins another life in the same process. What it needs is
made ready beside the one that serves; then one key of the journal says which fabric is in force. A controller that is
killed at any moment continues with the former fabric or with the new one, each as after a restart: switches forward by
what they hold, and get the difference.

    read and judge (a process) ─► planner, compiler and first state beside ─► admit no change ─► judge again, if jobs
    have changed ─► write the key ─► the next life begins ─► callers are released
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heddle.controller.brain.state import State
from heddle.controller.model.effect import Follow
from heddle.controller.model.error import (
    BudgetExceededError,
    HeddleError,
    InputError,
    PrerequisiteError,
    UnavailableError,
)
from heddle.controller.model.event import NotFollowed
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.found_cabling import as_described, as_found, with_found
from heddle.controller.runtime.interpreter import growing
from heddle.controller.runtime.journal.fitting import WHOLE, Key, UnfitFabricError, as_in_file, encoded, in_force
from heddle.controller.runtime.journal.foresight import Foresight, lasting_jobs
from heddle.controller.runtime.journal.gate import Gate
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.ports import Compiler, Planner, StateStore
from heddle.controller.runtime.trial.trial import Trial
from heddle.controller.runtime.trial.wire import Checked, Judged, Reader
from heddle.controller.views.fabric_differences import summary

QUIET_S = 30.0
"""A transaction under way is waited for so long."""
QUIET_POLL_S = 0.01
MAX_CHECKS = 3
"""Of the jobs as they are: each check takes the longer the more of them there are, and they may change meanwhile."""

_LOG = logging.getLogger("heddle.controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What the next life of a controller begins with."""

    fabric: Fabric
    planner: Planner | None = None
    compiler: Compiler | None = None
    initial: State | None = None
    """Its first state, with the underlay compiled."""

    def close(self) -> None:
        """End its processes."""
        for each in (self.planner, self.compiler):
            if each is not None:
                each.close()


class FabricChangedError(HeddleError):
    """Another fabric is in force: this life ends, and another begins."""

    def __init__(self, life: Life) -> None:
        super().__init__(f"fabric {life.fabric.name} has changed")
        self.life = life


def use_that_in_force(fabric: Fabric, store: StateStore) -> None:
    """Raise FabricChangedError where another fabric is in force, and InputError where that is damaged."""
    try:
        follow(fabric, store.read())
    except ValueError as wrong:
        raise InputError(f"{store.place}: {wrong}: `heddle state restore`") from None


def follow(fabric: Fabric, stored: Mapping[Key, bytes]) -> None:
    """Raise FabricChangedError where a journal says that another fabric is in force; raises ValueError for damage.

    The journal of several controllers is the one truth: the file of each is its seed alone.
    """
    kept = in_force(stored)
    if kept is not None and kept != as_in_file(fabric):
        if as_described(kept) == as_described(as_in_file(fabric)):
            _LOG.info(
                "the fabric in force, in etcd, has %d cables as they were found; it is followed", len(as_found(kept))
            )
        else:
            _LOG.warning(
                "the fabric in force, in etcd, is not that of this controller, which follows it: give it that file; "
                "`heddle fabric apply` changes the fabric in force"
            )
        raise FabricChangedError(Life(fabric=kept))


class FabricApply:
    """Changes of one life of a controller. Used in its event loop."""

    def __init__(
        self, loop: Loop, gate: Gate, read: Reader, make: Callable[[Fabric], tuple[Planner, Compiler]],
        begin: Callable[[Fabric], State],
    ) -> None:  # fmt: skip
        """`read` reads a fabric file from its text; `make` returns the processes of a life, `begin` its first state."""
        self._loop, self._gate, self._read, self._make, self._begin = loop, gate, read, make, begin
        self._busy = False
        self.next: asyncio.Future[Life] = asyncio.get_running_loop().create_future()
        """The next life, once its fabric is in force."""
        self.served = asyncio.Event()
        """Set once the next life serves, or cannot: callers of this one are released."""
        loop.follow_with(self.follow)

    async def wait(self, running: asyncio.Task[None]) -> None:
        """Wait for the end of this life: raises what its loop raises, and FabricChangedError."""
        ends: set[asyncio.Future[Any]] = {running, self.next}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self.next.done():
            raise FabricChangedError(self.next.result())
        running.result()

    async def apply(self, source: str | Fabric, name: str = "", *, dry_run: bool) -> tuple[Foresight, bool]:
        """Return what a fabric, or the text of its file, changes, and whether it is in force now.

        Then this life ends, and `served` says when the next one serves. A file gets the cables that were found in the
        fabric in force. `name` is that of the fabric, if it is given.

        Raises InputError for a file that is wrong, or does not fit what runs unless it is a dry run,
        BudgetExceededError while another change is under way, and UnavailableError.
        """
        if self._busy or self.next.done():
            raise BudgetExceededError("another change of the fabric, or a dry run, is under way; try again")
        self._busy = True
        try:
            async with Trial(source, self._read) as trial:
                if name not in ("", found := await trial.name()):
                    raise InputError(f"name: the file is of fabric {found}, the request of {name}")
                state = self._loop.state
                judged = await trial.judge(state)
                if dry_run or judged.is_same:
                    return judged.found, False
                _check(judged.found.refusal)
                await self._prepare(trial, state, judged)
                return judged.found, True
        finally:
            self._busy = False

    async def follow(self, effect: Follow) -> None:
        """Put the fabric in force with cables as they were found; post why, where that is refused."""
        try:
            await self.apply(with_found(self._loop.state.fabric, effect.found), dry_run=False)
        except HeddleError as why:
            self._loop.post(NotFollowed(token=effect.token, reason=str(why)))

    async def _prepare(self, trial: Trial, state: State, judged: Judged) -> None:
        """Make the next life ready, and put its fabric in force."""
        if self._gate.journal is None:
            raise PrerequisiteError("a change of the fabric needs a journal: start the controller with --state DIR")
        with growing():
            fabric, whole = await trial.hand_over()
            planner, compiler = await asyncio.to_thread(self._make, fabric)
            life = Life(
                fabric=fabric, planner=planner, compiler=compiler, initial=await asyncio.to_thread(self._begin, fabric)
            )
        try:
            compiler.start()
            planner.start()
            with self._gate.paused("the fabric is being changed; try again in a few seconds"):
                await self._quiet()
                gone = await self._judged_again(trial, state, judged)
                await self._put_in_force(life, whole, gone)
            _LOG.info("another fabric is in force; it differs by: %s", summary(judged.found.change))
        except BaseException:
            life.close()
            raise

    async def _put_in_force(self, life: Life, whole: bytes, gone: frozenset[Key]) -> None:
        """Write the fabric of a life, and let it begin: this one admits nothing more."""
        try:
            self._gate.keep({WHOLE: whole, **dict.fromkeys(gone)})
            await self._gate.settled()
        except BaseException:
            former = {("drain", name): name for kind, name in gone if kind == "drain"}
            self._gate.keep({WHOLE: encoded(self._loop.state.fabric), **former})
            raise
        self._gate.end("the controller begins again with another fabric; try again in a few seconds")
        self.next.set_result(life)

    async def _quiet(self) -> None:
        """Wait until no transaction is under way: what it has begun is written for the former fabric."""
        try:
            async with asyncio.timeout(QUIET_S):
                while self._loop.state.active is not None or self._loop.state.installing is not None:
                    await asyncio.sleep(QUIET_POLL_S)
        except TimeoutError:
            text = f"a change of the controller has not ended in {QUIET_S:.0f} s; nothing was changed: try again"
            raise UnavailableError(text) from None

    async def _judged_again(self, trial: Trial, before: State, judged: Judged) -> frozenset[Key]:
        """Judge jobs and drains as they are now; return the keys that the new fabric has no use for."""
        found = Checked(judged.found.refusal, judged.gone)
        for _ in range(MAX_CHECKS):
            state = self._loop.state
            jobs, then = lasting_jobs(state), lasting_jobs(before)
            kept = frozenset(name for name, job in jobs.items() if name in then and job.flows is then[name].flows)
            if kept == jobs.keys() == then.keys() and _parts(state) == _parts(before):
                return found.gone
            found, before = await trial.check(state, kept), state
            _check(found.refusal)
        raise UnavailableError("jobs change faster than they are checked; nothing was changed: try again")


def _check(refusal: str) -> None:
    if refusal:
        raise UnfitFabricError(refusal)


def _parts(state: State) -> tuple[object, ...]:
    """Return what of a state, beside jobs, needs parts of the fabric."""
    return state.drained, state.down_ports, state.out_of_use
