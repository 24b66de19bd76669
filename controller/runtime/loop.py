"""The one writer: a task that takes events from the inbox, asks the brain and performs the effects.

Edges only post events. Readers take `state`, which is frozen. A fault in the brain ends the loop and with it
the process, visibly; the switches go on forwarding (fail-static) and the next start reconciles by difference.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from controller.brain.decide import decide
from controller.brain.state import State
from controller.model.effect import (
    Announce,
    Answer,
    Effect,
    EndSession,
    Install,
    NetworksChanged,
    Note,
    Place,
    ReadRules,
    Reply,
    Solve,
    TopologyChanged,
)
from controller.model.error import BudgetExceededError, HeddleError
from controller.model.event import Event, Installed, InstallFailed, RulesRead, Solved, Suggested, Tick
from controller.model.plan import JobPlan
from controller.runtime.gateways import Gateways
from controller.runtime.ports import Clock, InstallError, Placer, Planner, Switches
from controller.runtime.telemetry import Telemetry
from controller.runtime.watch import Watchers

INBOX_LIMIT = 65_536
TICK_S = 1.0
TOPOLOGY = "topology"
_LOG = logging.getLogger("heddle.controller")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Loop:
    """Owns the state. `post` never blocks; `ask` awaits the brain's answer to one caller."""

    def __init__(
        self, state: State, *, planner: Planner, placer: Placer, clock: Clock, telemetry: Telemetry | None = None
    ) -> None:
        self.state = state
        self.refused_events = 0
        self.plans: Watchers[JobPlan] = Watchers()
        self.topology: Watchers[int] = Watchers()
        self.gateways = Gateways()
        self.telemetry = telemetry or Telemetry()
        self._planner, self._placer = planner, placer
        self._clock = clock
        self._switches: Switches | None = None
        self._inbox: asyncio.Queue[Event] = asyncio.Queue(INBOX_LIMIT)
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._next_reply = 1
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner")
        # Not the planner's own: a job that is to be planned does not wait for somebody's question.
        self._adviser = ThreadPoolExecutor(max_workers=1, thread_name_prefix="placement")

    def connect(self, switches: Switches) -> None:
        """Say who installs rules; called once, before `run`."""
        self._switches = switches

    def now_unix_ms(self) -> int:
        """Return the time as the brain is told it."""
        return self._clock.unix_ms()

    def post(self, event: Event) -> bool:
        """Put an event into the inbox; False (and counted) where it is full."""
        try:
            self._inbox.put_nowait(event)
        except asyncio.QueueFull:
            self.refused_events += 1
            return False
        return True

    async def ask(self, make: Callable[[int], Event]) -> Answer:
        """Post the event that `make` builds around a reply number and await the answer; raises HeddleError."""
        reply, self._next_reply = self._next_reply, self._next_reply + 1
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[reply] = answer
        try:
            if not self.post(make(reply)):
                raise BudgetExceededError("the controller's inbox is full; try again in a moment")
            return await answer
        finally:
            del self._answers[reply]

    async def run(self) -> None:
        """Own the state until cancelled. Any exception of the brain comes out of here."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ticks())
            group.create_task(self._serve())

    def close(self) -> None:
        """End what is under way: outside work is cancelled, the planner's threads are not waited for."""
        for task in self._tasks:
            task.cancel()
        for threads in (self._worker, self._adviser):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.post(Tick())

    async def _serve(self) -> None:
        while True:
            event = await self._inbox.get()
            self.state, effects = decide(self.state, event, self._clock.unix_ms())
            for effect in effects:
                _PERFORM[type(effect)](self, effect)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _solve(self, problem: Solve) -> None:
        running = asyncio.get_running_loop()
        try:
            outcome, solve_ns = await running.run_in_executor(self._worker, self._planner, problem)
        except Exception as fault:
            _LOG.exception("the planner failed")
            outcome = HeddleError(f"the planner failed: {fault!r}; this is a fault of the controller")
            solve_ns = 0
        self.post(Solved(token=problem.token, outcome=outcome, solve_ns=solve_ns))

    async def _place(self, question: Place) -> None:
        running = asyncio.get_running_loop()
        try:
            outcome = await running.run_in_executor(self._adviser, self._placer, question)
        except Exception as fault:
            _LOG.exception("a suggestion failed")
            outcome = HeddleError(f"the planner failed: {fault!r}; this is a fault of the controller")
        self.post(Suggested(token=question.token, outcome=outcome))

    async def _install(self, work: Install) -> None:
        started = self._clock.monotonic_ns()
        try:
            if work.steps:
                await self._connected().install(work.steps)
        except InstallError as failure:
            self.post(InstallFailed(token=work.token, switch=failure.switch, reason=failure.reason))
        except Exception as fault:
            _LOG.exception("an installation failed")
            self.post(InstallFailed(token=work.token, switch="?", reason=f"a fault of the controller: {fault!r}"))
        else:
            self.post(Installed(token=work.token, install_ns=self._clock.monotonic_ns() - started))

    async def _read_rules(self, switch: str) -> None:
        try:
            self.post(RulesRead(switch=switch, installed=await self._connected().read_rules(switch)))
        except InstallError as failure:
            _LOG.warning("%s: its rules could not be read: %s", failure.switch, failure.reason)

    def _connected(self) -> Switches:
        if self._switches is None:
            raise InstallError("?", "the southbound is not started")
        return self._switches

    def _on_solve(self, effect: Solve) -> None:
        self._spawn(self._solve(effect))

    def _on_place(self, effect: Place) -> None:
        self._spawn(self._place(effect))

    def _on_install(self, effect: Install) -> None:
        self._spawn(self._install(effect))

    def _on_read_rules(self, effect: ReadRules) -> None:
        self._spawn(self._read_rules(effect.switch))

    def _on_reply(self, effect: Reply) -> None:
        answer = self._answers.get(effect.reply)
        if answer is None or answer.done():
            return
        if isinstance(effect.outcome, HeddleError):
            answer.set_exception(effect.outcome)
        else:
            answer.set_result(effect.outcome)

    def _on_announce(self, effect: Announce) -> None:
        self.plans.publish(effect.plan.job_id, effect.plan)

    def _on_topology(self, effect: TopologyChanged) -> None:
        self.topology.publish(TOPOLOGY, effect.generation)

    def _on_networks(self, effect: NetworksChanged) -> None:
        self.gateways.notify()

    def _on_end_session(self, effect: EndSession) -> None:
        self.gateways.end(effect.gateway_id, effect.session)

    def _on_note(self, effect: Note) -> None:
        _LOG.log(_LEVELS[effect.severity], "%s: %s", effect.subject, effect.text)
        self.telemetry.note(effect, self._clock.unix_ms())


_PERFORM: dict[type[Effect], Callable[[Loop, Any], None]] = {
    Solve: Loop._on_solve,
    Place: Loop._on_place,
    Install: Loop._on_install,
    ReadRules: Loop._on_read_rules,
    Reply: Loop._on_reply,
    Announce: Loop._on_announce,
    TopologyChanged: Loop._on_topology,
    NetworksChanged: Loop._on_networks,
    EndSession: Loop._on_end_session,
    Note: Loop._on_note,
}
