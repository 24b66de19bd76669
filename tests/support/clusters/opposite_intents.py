"""Two controllers with opposite intents that lead in turn, while messages to switches are late and overtake each other.

The method is GapFuzz's: delay and reorder what controllers and switches send around a change of the leader, and compare
the switches with the leader's intent at the end. Everything is real but the switches, the wires and the election.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from functools import partial

from heddle.controller.brain.begin import begin
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import wanted
from heddle.controller.model.error import UnavailableError
from heddle.controller.model.event import Drain, Event, Release, Submit
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Steering
from heddle.controller.model.lease_clock import granted
from heddle.controller.model.rule import SwitchRules
from heddle.controller.runtime.leadership import Leadership
from heddle.controller.southbound.posting import Inbound
from heddle.controller.southbound.server import OpenFlowServer
from heddle.testing.switches.shared_switch import SharedSwitch
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.clusters.delayed_wire import DelayedWire
from tests.support.controllers.bare_loop import bare_loop
from tests.unit.brain.driver import shift_job, small_fabric

PORTS = 8
SETTLE_S = 60.0
LEASE_NS = 1_000
CHANGES_OF_LAST = 4
HOUR_MS = 3_600_000
# No audit and no grace for pins of before: only the order of messages may make switches right.
SETTINGS = Settings(audit_ms=HOUR_MS, pin_grace_ms=0, follow_ms=0)


class SteadyClock:
    """The machine's clock."""

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    steady_unix_ms = unix_ms

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class Controller:
    """One life of a controller: it waits, it may lead, and it ends. `now_ns` is the clock of its lease."""

    def __init__(self, fabric: Fabric, avoids: str) -> None:
        self.fabric, self.avoids = fabric, avoids
        self.now_ns = 0
        self._is_last = False
        self.changes = 0
        """Changes that were acknowledged."""
        self.leadership = Leadership(lambda: self.now_ns)
        clock = SteadyClock()
        state = begin(fabric, SETTINGS, clock.unix_ms())
        self.loop = bare_loop(state, ThreadPlanner(fabric), ThreadCompiler(fabric), clock)
        known = {switch.datapath_id: switch.id for switch in fabric.switches}
        self.server = OpenFlowServer("127.0.0.1", 0, known.get, Inbound(self.loop), leadership=self.leadership)
        self.loop.connect(self.server)
        self._tasks: list[asyncio.Task[None]] = []
        self.intended: asyncio.Task[None] | None = None

    def lead(self, generation: int, *, is_last: bool = False) -> None:
        """Lead until the lease ends by its own clock; all jobs avoid one spine. The last leader comes to rest."""
        self._is_last = is_last
        self.leadership.lease = granted(self.now_ns, LEASE_NS)
        self.leadership.begin(generation)
        self.intended = asyncio.create_task(self._intend())
        self._tasks = [asyncio.create_task(self.loop.run()), self.intended]

    async def _intend(self) -> None:
        """Drain a spine, and submit and release a pinned job without end; the last leader's job stays."""
        await self._called(partial(Drain, target=self.avoids))
        while True:
            await self._called(partial(Submit, request=shift_job("job", ranks=4, by=2, steering=Steering.PIN)))
            if self._is_last and self.changes == CHANGES_OF_LAST:
                return
            await self._called(partial(Release, job_id="job"))

    async def _called(self, call: Callable[..., Event]) -> None:
        """Request a change, and again where a switch was not connected."""
        while True:
            try:
                await self.loop.request(lambda reply: call(reply=reply))
                self.changes += 1
                return
            except UnavailableError:
                await asyncio.sleep(0.01)

    def end_lease(self) -> None:
        self.now_ns += LEASE_NS

    def is_idle(self) -> bool:
        state = self.loop.state
        connected = all(switch.connected and switch.installed is not None for switch in state.switches.values())
        intended = self.intended is not None and self.intended.done() and self.intended.exception() is None
        return connected and intended and state.active is None and state.installing is None

    async def close(self) -> None:
        await self.server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.loop.close()


class Rivals:
    """Two controllers' places, their wires, and the switches that both share."""

    def __init__(self, seed: int, *, obeys_roles: bool = True) -> None:
        self.drawn = random.Random(seed)
        self.fabric = small_fabric(spines=2, leaves=2, hosts_per_leaf=2)
        self.switches = {each.id: SharedSwitch(each.datapath_id, PORTS) for each in self.fabric.switches}
        for switch in self.switches.values():
            switch.obeys_roles = obeys_roles
        self.wires = [DelayedWire(self.drawn), DelayedWire(self.drawn)]
        self.controllers: list[Controller] = []

    async def run(self, settle_s: float = SETTLE_S) -> dict[str, tuple[SwitchRules, SwitchRules]]:
        """Let the two lead in turn; return each switch that differs: its rules, and what the leader wants."""
        for wire, spine in zip(self.wires, ("spine1", "spine2"), strict=True):
            self.controllers.append(Controller(self.fabric, spine))
            wire.target = await self.controllers[-1].server.start()
            await wire.start()
        for switch in self.switches.values():
            switch.connect([wire.address for wire in self.wires])
        try:
            terms = self.drawn.randint(2, 4)
            self.controllers[0].lead(1)
            for term in range(1, terms):
                await self._change(term, is_last=term == terms - 1)
            return await self._settled(self.controllers[(terms - 1) % 2], settle_s)
        finally:
            for controller in self.controllers:
                await controller.close()
            for switch in self.switches.values():
                await switch.close()
            for wire in self.wires:
                await wire.close()

    async def _change(self, term: int, *, is_last: bool) -> None:
        """Let the other controller lead, at a moment when anything may be on its way."""
        drawn, old, new = self.drawn, (term - 1) % 2, term % 2
        await self._changed(old, drawn.randrange(1, 8))
        self.wires[old].hold(share=drawn.choice((0.5, 1.0)))
        await asyncio.sleep(drawn.uniform(0, 0.2))  # the leader goes on meanwhile
        self.controllers[old].end_lease()  # by its own clock, before the other's term begins
        await asyncio.sleep(drawn.uniform(0, 0.02))
        self.controllers[new].lead(term + 1, is_last=is_last)
        await self._changed(new, drawn.choice((0, 1, CHANGES_OF_LAST, CHANGES_OF_LAST)))
        for switch in self.switches.values():
            if drawn.random() < 0.2:
                await switch.restart()  # it forgets the generation
        ended, self.controllers[old] = self.controllers[old], Controller(self.fabric, self.controllers[old].avoids)
        await asyncio.gather(ended.close(), self.wires[old].release())
        self.wires[old].target = await self.controllers[old].server.start()  # it waits again, with nothing of before

    async def _changed(self, number: int, changes: int) -> None:
        """Wait until a leader has made some changes, and a moment more."""
        await _until(lambda: self.controllers[number].changes >= changes, SETTLE_S)
        await asyncio.sleep(self.drawn.uniform(0, 0.05))

    async def _settled(self, leader: Controller, within_s: float) -> dict[str, tuple[SwitchRules, SwitchRules]]:
        def differing() -> dict[str, tuple[SwitchRules, SwitchRules]]:
            state = leader.loop.state
            pairs = {name: (each.tables.rules(), wanted(state, name)) for name, each in self.switches.items()}
            return {name: pair for name, pair in pairs.items() if not _same(*pair)}

        await _until(leader.is_idle, SETTLE_S)
        with contextlib.suppress(TimeoutError):
            await _until(lambda: leader.is_idle() and not differing(), within_s)
        return differing()

    def count(self, what: Callable[[SharedSwitch], int]) -> int:
        """Return the sum over all switches."""
        return sum(map(what, self.switches.values()))


async def _until(reached: Callable[[], bool], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while not reached():
            await asyncio.sleep(0.02)


def _same(found: SwitchRules, intended: SwitchRules) -> bool:
    return set(found.rules) == set(intended.rules) and set(found.groups) == set(intended.groups)
