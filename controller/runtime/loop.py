"""Run the only task that changes the state: take events from the inbox, call the brain, perform its effects.

Edges only post events. Readers take `state`, which is frozen, or follow what `feeds.py` publishes. An exception of the
brain, or of an effect that no event reports, ends the loop and with it the process; the switches keep forwarding
(fail-static), and the next start sends them the differences.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from heddle.controller.brain.cabling.judging import judge
from heddle.controller.brain.decide import decide_all
from heddle.controller.brain.state import State
from heddle.controller.model.effect import (
    Announce,
    Compile,
    Condition,
    Diagnose,
    Effect,
    EndSession,
    FindPorts,
    Follow,
    GiveUp,
    Install,
    NetworksChanged,
    Note,
    Place,
    ReadRules,
    Reply,
    Response,
    Solve,
    TopologyChanged,
    Wake,
)
from heddle.controller.model.error import BudgetExceededError, HeddleError
from heddle.controller.model.event import (
    Diagnosed,
    Due,
    Event,
    Installed,
    InstallFailed,
    InstallLags,
    RulesRead,
    Solved,
    Submit,
    Suggested,
    SwitchCaughtUp,
    Tick,
    Withdraw,
)
from heddle.controller.model.plan import JobPlan
from heddle.controller.recording.batch import Turn, fault_text
from heddle.controller.recording.recorder import Recorder
from heddle.controller.runtime.feeds import Feeds
from heddle.controller.runtime.gateways import Gateways
from heddle.controller.runtime.inbox import Inbox, coalesced
from heddle.controller.runtime.journal.gate import Gate
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.port_search import PortSearch
from heddle.controller.runtime.ports import Clock, Compiler, InstallError, InstallWatch, Planner, Switches

MAX_BATCH = 1_024
"""The events of the topology that are handled in one turn of the event loop, beside a few requests."""
TICK_S = 1.0
MAX_AUDITS_WAITING = 64
GATHER_S = 0.003
"""After replies to several submissions, the next ones wait for each other: their callers often submit again at once."""
_LOG = logging.getLogger("heddle.controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Performers:
    """What performs the brain's effects, beside the switches."""

    planner: Planner
    compiler: Compiler
    port_search: PortSearch
    feeds: Feeds
    gateways: Gateways = field(default_factory=Gateways)
    gate: Gate = field(default_factory=Gate)


class Loop:
    """The owner of the state. `post` never blocks; `request` awaits the brain's reply."""

    def __init__(
        self, state: State, performers: Performers, *, clock: Clock, limited: Counter[Limit] | None = None
    ) -> None:
        """Begin with a state; `limited` counts what each limit has refused."""
        self.state = state
        self._by, self._clock = performers, clock
        self._recorder: Recorder | None = None
        self._switches: Switches | None = None
        self._follow: Callable[[Follow], Coroutine[Any, Any, None]] | None = None
        self._inbox = Inbox(Counter() if limited is None else limited)
        self._responses: dict[int, asyncio.Future[Response]] = {}
        self._next_reply = 1
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults: asyncio.Queue[BaseException] = asyncio.Queue()
        self._gathering: asyncio.Event | None = None
        self._audit_turn = asyncio.Lock()
        self._audits_waiting = 0
        self._installing: dict[int, InstallWatch] = {}
        performers.gate.release_to(self._perform)

    def connect(self, switches: Switches) -> None:
        """Set the southbound that installs rules; call once, before `run`."""
        self._switches = switches

    def follow_with(self, follow: Callable[[Follow], Coroutine[Any, Any, None]]) -> None:
        """Set what puts the cabling as found in force; call once, before `run`."""
        self._follow = follow

    def record_to(self, recorder: Recorder | None) -> None:
        """Set where events and decisions are recorded, if anywhere; call once, before `run`."""
        self._recorder = recorder

    def now_unix_ms(self) -> int:
        """Return the Unix time in milliseconds, from the clock that the brain gets: a set clock does not change it."""
        return self._clock.steady_unix_ms()

    def published_unix_ms(self, at_ms: int) -> int:
        """Return a time of the brain's clock as the machine's clock shows it now; 0 stays 0."""
        return at_ms + self._clock.unix_ms() - self._clock.steady_unix_ms() if at_ms else 0

    def post(self, event: Event, peer: str = "") -> bool:
        """Put an event into the inbox; return False, and count it, where the inbox or the peer's share is full."""
        return self._inbox.put(event, peer)

    @property
    def inbox(self) -> Inbox:
        """Return the events that wait, with their counters."""
        return self._inbox

    async def request(self, make: Callable[[int], Event]) -> Response:
        """Post the event that `make` builds with a reply number, and await the response; raises HeddleError.

        Where the caller leaves first, a request that still waits is withdrawn.
        """
        reply, self._next_reply = self._next_reply, self._next_reply + 1
        response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        event = make(reply)
        await self._by.port_search.admit(event, self.state.jobs)
        self._by.gate.admit(reply, event)
        self._responses[reply] = response
        try:
            if isinstance(event, Submit) and self._gathering is not None:
                await self._gathering.wait()
            if not self.post(event):
                raise BudgetExceededError("the controller's inbox is full; try again in a moment")
            return await response
        except asyncio.CancelledError:
            self.post(Withdraw(reply=reply))
            raise
        finally:
            del self._responses[reply]
            self._by.gate.forget(reply)

    async def run(self) -> None:
        """Process events until cancelled; raises any exception of the brain or of an effect."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ticks())
            group.create_task(self._raise_faults())
            group.create_task(self._serve())
            group.create_task(self._by.port_search.run())

    def close(self) -> None:
        """Cancel running effects; waits neither for the planner nor for the compiler."""
        for task in self._tasks:
            task.cancel()
        self._by.planner.close()
        self._by.compiler.close()

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.post(Tick())

    async def _raise_faults(self) -> None:
        raise await self._faults.get()

    async def _serve(self) -> None:
        while True:
            events = await self._inbox.take(MAX_BATCH)
            effects = self._decided(tuple(coalesced(events)))
            for effect in effects:
                if self._by.gate.passes(effect):
                    self._perform(effect)
            if sum(isinstance(effect, Reply) and isinstance(effect.outcome, JobPlan) for effect in effects) > 1:
                self._gathering = asyncio.Event()  # those with replies continue before it is set, also after a stall
                asyncio.get_running_loop().call_later(GATHER_S, self._gathering.set)
            await asyncio.sleep(0)  # `take` does not yield while events wait

    def _decided(self, events: tuple[Event, ...]) -> tuple[Effect, ...]:
        """Call the brain and record the turn, also where the brain raises an exception."""
        before, now = self.state, self._clock.steady_unix_ms()
        effects: tuple[Effect, ...] = ()
        fault = ""
        try:
            self.state, effects = decide_all(before, events, now)
            return effects
        except Exception as raised:
            fault = fault_text(raised)
            raise
        finally:
            if self._recorder is not None:
                self._recorder.record(Turn(before=before, unix_ms=now, events=events, effects=effects, fault=fault))

    def _perform(self, effect: Effect) -> None:
        _PERFORM[type(effect)](self, effect)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._faults.put_nowait(fault)

    async def _solve(self, problem: Solve) -> None:
        try:
            outcome, solve_ns = await self._by.planner.solve(problem)
        except Exception as fault:
            _LOG.exception("the planner failed")
            outcome, solve_ns = _fault("the planner", fault), 0
        self.post(Solved(token=problem.token, outcome=outcome, solve_ns=solve_ns))

    async def _find_ports(self, search: FindPorts) -> None:
        self.post(await self._by.port_search.result(search))

    async def _place(self, problem: Place) -> None:
        try:
            outcome = await self._by.planner.place(problem)
        except Exception as fault:
            _LOG.exception("a suggestion failed")
            outcome = _fault("the planner", fault)
        self.post(Suggested(token=problem.token, outcome=outcome))

    async def _compile(self, work: Compile) -> None:
        self.post(await self._by.compiler.compile(work))

    async def _diagnose(self, work: Diagnose) -> None:
        try:
            verdict = await asyncio.to_thread(judge, self.state.fabric, work)
        except Exception:
            _LOG.exception("the cabling could not be diagnosed; the last verdict stays")
            verdict = None
        self.post(Diagnosed(token=work.token, verdict=verdict))

    async def _install(self, work: Install) -> None:
        started = self._clock.monotonic_ns()
        watch = InstallWatch(partial(self._lags, work.token))
        self._installing[work.token] = watch
        try:
            if work.steps:
                await asyncio.sleep(work.after_ms / 1000)
                await self._connected().install(work.steps, watch)
        except InstallError as failure:
            switch, reason, lagging = failure.switch, failure.reason, failure.lagging
            self.post(InstallFailed(token=work.token, switch=switch, reason=reason, lagging=lagging))
            for switch in lagging:
                self._spawn(self._catch_up(switch))
        except Exception as fault:
            _LOG.exception("an installation failed")
            self.post(InstallFailed(token=work.token, switch="?", reason=f"a fault of the controller: {fault!r}"))
        else:
            self.post(Installed(token=work.token, install_ns=self._clock.monotonic_ns() - started))
        finally:
            del self._installing[work.token]

    def _lags(self, token: int, switches: frozenset[str]) -> None:
        self.post(InstallLags(token=token, switches=switches))

    async def _catch_up(self, switch: str) -> None:
        """Wait for a switch that lags; where its session ends first, the end of the session is reported."""
        if await self._connected().caught_up(switch):
            self.post(SwitchCaughtUp(switch=switch))

    async def _audit(self, switch: str, audit: int) -> None:
        """Read a switch's rules after those of the audits before: decoding takes the loop milliseconds each."""
        if self._audits_waiting == MAX_AUDITS_WAITING:
            return
        self._audits_waiting += 1
        try:
            async with self._audit_turn:
                await self._read_rules(switch, audit)
        finally:
            self._audits_waiting -= 1

    async def _read_rules(self, switch: str, audit: int) -> None:
        try:
            installed = await self._connected().read_rules(switch)
            self.post(RulesRead(switch=switch, installed=installed, audit=audit))
        except InstallError as failure:
            _LOG.warning("%s: its rules could not be read: %s", failure.switch, failure.reason)

    def _connected(self) -> Switches:
        if self._switches is None:
            raise InstallError("?", "the southbound is not started")
        return self._switches

    def _on_solve(self, effect: Solve) -> None:
        self._spawn(self._solve(effect))

    def _on_find_ports(self, effect: FindPorts) -> None:
        self._by.port_search.replace(self._spawn(self._find_ports(effect)))

    def _on_compile(self, effect: Compile) -> None:
        self._spawn(self._compile(effect))

    def _on_wake(self, effect: Wake) -> None:
        asyncio.get_running_loop().call_later(effect.after_ms / 1000, self.post, Due())

    def _on_place(self, effect: Place) -> None:
        self._spawn(self._place(effect))

    def _on_install(self, effect: Install) -> None:
        self._spawn(self._install(effect))

    def _on_give_up(self, effect: GiveUp) -> None:
        if (watch := self._installing.get(effect.token)) is not None:
            watch.given_up.set()

    def _on_read_rules(self, effect: ReadRules) -> None:
        read = self._audit if effect.audit else self._read_rules
        self._spawn(read(effect.switch, effect.audit))

    def _on_reply(self, effect: Reply) -> None:
        response = self._responses.get(effect.reply)
        if response is None or response.done():
            return
        if isinstance(effect.outcome, HeddleError):
            response.set_exception(effect.outcome)
        else:
            response.set_result(effect.outcome)

    def _on_announce(self, effect: Announce) -> None:
        self._by.feeds.announce(effect.plan)

    def _on_topology(self, effect: TopologyChanged) -> None:
        self._by.feeds.topology_changed(effect.generation)

    def _on_networks(self, effect: NetworksChanged) -> None:
        self._by.gateways.notify()

    def _on_end_session(self, effect: EndSession) -> None:
        self._by.gateways.end(effect.gateway_id, effect.session)

    def _on_diagnose(self, effect: Diagnose) -> None:
        self._spawn(self._diagnose(effect))

    def _on_follow(self, effect: Follow) -> None:
        if self._follow is not None:
            self._spawn(self._follow(effect))

    def _on_condition(self, effect: Condition) -> None:
        self._by.feeds.condition(effect)

    def _on_note(self, effect: Note) -> None:
        self._by.feeds.note(effect)


_PERFORM: dict[type[Effect], Callable[[Loop, Any], None]] = {
    Solve: Loop._on_solve,
    FindPorts: Loop._on_find_ports,
    Compile: Loop._on_compile,
    Wake: Loop._on_wake,
    Place: Loop._on_place,
    Install: Loop._on_install,
    GiveUp: Loop._on_give_up,
    ReadRules: Loop._on_read_rules,
    Reply: Loop._on_reply,
    Announce: Loop._on_announce,
    TopologyChanged: Loop._on_topology,
    NetworksChanged: Loop._on_networks,
    EndSession: Loop._on_end_session,
    Note: Loop._on_note,
    Diagnose: Loop._on_diagnose,
    Follow: Loop._on_follow,
    Condition: Loop._on_condition,
}


def _fault(what: str, fault: Exception) -> HeddleError:
    return HeddleError(f"{what} failed: {fault!r}; this is a fault of the controller")
