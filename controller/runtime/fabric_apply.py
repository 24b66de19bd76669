"""Change the fabric of a running controller.

A controller has one fabric for all of its life, so a change begins another life in the same process. What it needs is
made ready beside the one that serves; then one key of the journal says which fabric is in force. A controller that is
killed at any moment continues with the former fabric or with the new one, each as after a restart: switches forward by
what they hold, and get the difference.

    check ─► start planner and compiler beside ─► admit no change ─► check again ─► write the key ─► the next life
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.found_cabling import with_cables_found, with_found
from heddle.controller.model.health import Health
from heddle.controller.runtime.journal.fitting import WHOLE, Key, UnfitFabricError, as_in_file, encoded, in_force
from heddle.controller.runtime.journal.foresight import Foresight, foreseen
from heddle.controller.runtime.journal.gate import Gate
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.ports import Compiler, Planner, StateStore

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
    """Raise FabricChangedError where the file of one of several controllers lacks parts of the fabric in force.

    So a controller with the file of before a change leads with what the change has added.
    """
    kept = in_force(store.read())
    if kept is not None and not _ids(kept) <= _ids(fabric):
        _LOG.warning("the fabric file lacks parts of the fabric in force, which is used: give this controller its file")
        raise FabricChangedError(Life(fabric=kept))


def _ids(fabric: Fabric) -> frozenset[str]:
    return frozenset((*fabric.switch_by_id, *fabric.cable_by_link, *fabric.nic_by_id))


class FabricApply:
    """Changes of one life of a controller. Used in its event loop."""

    def __init__(
        self, loop: Loop, gate: Gate, read: Callable[[str], Fabric],
        make: Callable[[Fabric], tuple[Planner, Compiler]],
    ) -> None:  # fmt: skip
        """`read` reads a fabric file from its text; `make` returns the processes of a life."""
        self._loop, self._gate, self._read, self._make = loop, gate, read, make
        self._busy = False
        self.next: asyncio.Future[Life] = asyncio.get_running_loop().create_future()
        """The next life, once its fabric is in force."""
        loop.follow_with(self.follow)

    async def wait(self, running: asyncio.Task[None]) -> None:
        """Wait for the end of this life: raises what its loop raises, and FabricChangedError."""
        ends: set[asyncio.Future[Any]] = {running, self.next}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self.next.done():
            raise FabricChangedError(self.next.result())
        running.result()

    async def apply(self, source: str | Fabric, name: str = "", *, dry_run: bool) -> tuple[Foresight, bool]:
        """Return what a fabric, or the text of its file, changes, and whether it is in force now: then this life ends.

        A file gets the cables that were found in the fabric in force. `name` is that of the fabric, if it is given.

        Raises InputError for a file that is wrong, or does not fit what runs unless it is a dry run,
        BudgetExceededError while another change is under way, and UnavailableError.
        """
        if self._busy or self.next.done():
            raise BudgetExceededError("another change of the fabric, or a dry run, is under way; try again")
        self._busy = True
        try:
            fabric = source if isinstance(source, Fabric) else await asyncio.to_thread(self._read, source)
            state = self._loop.state
            if not isinstance(source, Fabric):
                fabric = with_cables_found(fabric, state.fabric)
            if name not in ("", fabric.name):
                raise InputError(f"name: the file is of fabric {fabric.name}, the request of {name}")
            found = await asyncio.to_thread(_foreseen, state, fabric)
            if dry_run or as_in_file(state.fabric) == fabric:
                return found, False
            if found.refusal:
                raise UnfitFabricError(found.refusal)
            await self._begin(fabric, state)
            return found, True
        finally:
            self._busy = False

    async def follow(self, effect: Follow) -> None:
        """Put the fabric in force with cables as they were found; post why, where that is refused."""
        try:
            await self.apply(with_found(self._loop.state.fabric, effect.found), dry_run=False)
        except HeddleError as why:
            self._loop.post(NotFollowed(token=effect.token, reason=str(why)))

    async def _begin(self, fabric: Fabric, state: State) -> None:
        """Make the next life ready, and put its fabric in force."""
        if self._gate.journal is None:
            raise PrerequisiteError("a change of the fabric needs a journal: start the controller with --state DIR")
        if state.jobs and fabric.steered_by is SteeredBy.OPENFLOW:
            fabric = replace(fabric, port_layout=state.layout)  # what ports of running jobs mean
        planner, compiler = self._make(fabric)
        life = Life(fabric=fabric, planner=planner, compiler=compiler)
        try:
            compiler.start()
            planner.start()
            await self._put_in_force(life)
        except BaseException:
            life.close()
            raise

    async def _put_in_force(self, life: Life) -> None:
        """Write the fabric of a life, and let it begin."""
        content = await asyncio.to_thread(encoded, life.fabric)
        with self._gate.paused("the fabric is being changed; try again in a few seconds"):
            await self._quiet()
            gone = await self._checked(life.fabric)
            try:
                self._gate.keep({WHOLE: content, **dict.fromkeys(gone)})
                await self._gate.settled()
            except BaseException:
                former = {("drain", name): name for kind, name in gone if kind == "drain"}
                self._gate.keep({WHOLE: encoded(self._loop.state.fabric), **former})
                raise
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

    async def _checked(self, fabric: Fabric) -> frozenset[Key]:
        """Check the jobs as they are now; return the keys that the new fabric has no use for."""
        for _ in range(MAX_CHECKS):
            state = self._loop.state
            found, gone = await asyncio.to_thread(_foreseen, state, fabric), _gone(state, fabric)
            if found.refusal:
                raise UnfitFabricError(found.refusal)
            if self._loop.state.jobs is state.jobs and self._loop.state.drained is state.drained:
                return gone
        raise UnavailableError("jobs change faster than they are checked; nothing was changed: try again")


def _foreseen(state: State, fabric: Fabric) -> Foresight:
    """Return what another fabric changes; refused is also what a start with its file would take."""
    found = foreseen(state, fabric, _gone(state, fabric))
    refusal = _why_not(state, fabric) or found.refusal
    return replace(found, refusal=refusal)


def _why_not(state: State, fabric: Fabric) -> str:
    """Return why a fabric cannot follow that in force, "" where it can: what is gone is to be drained before."""
    if fabric.name != state.fabric.name or fabric.steered_by is not state.fabric.steered_by:
        return "fabric: name and steering of the fabric in force stay; start another controller"
    idle = state.out_of_use.union(Health(down_cables=state.cabling.verdict.wrong))  # those are not there
    for cable in state.fabric.cables:
        is_idle = not idle.down_switches.isdisjoint((cable.lower.switch, cable.upper.switch))
        is_idle = is_idle or not idle.down_cables.isdisjoint((cable.up_link, cable.down_link))
        if cable.up_link not in fabric.cable_by_link and not is_idle:
            return f"cable {cable.id} is in use: `heddle drain '{cable.up_link}'` first, then leave it out"
    return ""


def _gone(state: State, fabric: Fabric) -> frozenset[Key]:
    """Return the keys of drains, and of ports that are down, that a fabric has no part for."""
    switches = {switch.id for switch in fabric.switches}
    drains = (name for name in state.drained if name not in switches and name not in fabric.cable_by_link)
    ports = (port for port in state.down_ports if port.switch not in switches)
    return frozenset((*(("drain", name) for name in drains), *(("port", str(port)) for port in ports)))
