"""Decide: map the state and an event to the next state and the effects to perform."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from controller.brain import gateways, jobs, suggestions, switches, vpcs
from controller.brain.lifecycle import WorkKind
from controller.brain.restate import restate_solved, start_restate
from controller.brain.state import State
from controller.brain.transact import Outcome, changed_topology, on_install_failed, on_installed, start_sync
from controller.brain.withdraw import withdraw
from controller.model.effect import Effect
from controller.model.event import (
    ApplyBorder,
    ApplyPeering,
    ApplyVpc,
    DeletePeering,
    DeleteVpc,
    Event,
    ForgetGateway,
    GatewayAcked,
    GatewayDown,
    GatewayUp,
    Installed,
    InstallFailed,
    PortStatus,
    Release,
    Renew,
    RulesRead,
    Solved,
    Submit,
    Suggest,
    Suggested,
    SwitchDown,
    SwitchUp,
    Tick,
    Withdraw,
)


def decide(state: State, event: Event, now: int) -> Outcome:
    """Return the next state and the effects to perform, in order; `now` is Unix time in milliseconds.

    The same state, event and time give the same result, so an incident is replayed from its events.
    """
    state, effects = _HANDLERS[type(event)](state, event, now)
    return _start_waiting(state, effects)


class WorkHandlers(NamedTuple):
    """The functions that run one kind of transaction; None where a step needs nothing beyond `transact`.

    `start(state, work)`, `solved(state, work, event, now)`, `installed(state, work, install_ns)`, and
    `failed(state, work, event)`; each returns an Outcome.
    """

    start: Callable[[State, Any], Outcome]
    solved: Callable[[State, Any, Solved, int], Outcome] | None = None
    installed: Callable[[State, Any, int], Outcome] | None = None
    failed: Callable[[State, Any, InstallFailed], Outcome] | None = None


WORK_HANDLERS: Mapping[WorkKind, WorkHandlers] = {
    WorkKind.PLAN: WorkHandlers(jobs.start_plan, jobs.plan_solved, jobs.plan_installed, jobs.plan_failed),
    WorkKind.RELEASE: WorkHandlers(jobs.start_release),
    WorkKind.SYNC: WorkHandlers(start_sync),
    WorkKind.RESTATE: WorkHandlers(start_restate, restate_solved),
}


def _start_waiting(state: State, effects: tuple[Effect, ...]) -> Outcome:
    """Start queued work until a transaction is active or the queue is empty."""
    done = list(effects)
    while state.active is None and state.queue:
        work, state = state.queue[0], replace(state, queue=state.queue[1:])
        state, more = WORK_HANDLERS[work.kind].start(state, work)
        done += more
    return state, tuple(done)


def _solved(state: State, event: Solved, now: int) -> Outcome:
    active = state.active
    if active is None or active.token != event.token:
        return state, ()
    solved = WORK_HANDLERS[active.work.kind].solved
    return solved(state, active.work, event, now) if solved is not None else (state, ())


def _installed(state: State, event: Installed, now: int) -> Outcome:
    active, outcome = state.active, on_installed(state, event)
    if outcome is None or active is None:
        return state, ()
    state, effects = outcome
    if active.target:
        state, changed = changed_topology(state)
        effects += changed
    if (installed := WORK_HANDLERS[active.work.kind].installed) is not None:
        state, more = installed(state, active.work, event.install_ns)
        effects += more
    return state, effects


def _tick(state: State, event: Tick, now: int) -> Outcome:
    state, effects = jobs.tick(state, event, now)
    state, more = gateways.tick(state, now)
    return state, (*effects, *more)


def _install_failed(state: State, event: InstallFailed, now: int) -> Outcome:
    active, outcome = state.active, on_install_failed(state, event)
    if outcome is None or active is None:
        return state, ()
    state, effects = outcome
    if (failed := WORK_HANDLERS[active.work.kind].failed) is not None:
        state, more = failed(state, active.work, event)
        effects += more
    return state, effects


_HANDLERS: dict[type, Callable[[State, Any, int], Outcome]] = {
    Submit: jobs.submit,
    Suggest: suggestions.suggest,
    Suggested: suggestions.suggested,
    Withdraw: withdraw,
    Renew: jobs.renew,
    Release: jobs.release,
    Tick: _tick,
    Solved: _solved,
    SwitchUp: switches.switch_up,
    SwitchDown: switches.switch_down,
    PortStatus: switches.port_status,
    RulesRead: switches.rules_read,
    Installed: _installed,
    InstallFailed: _install_failed,
    ApplyVpc: vpcs.apply_vpc,
    DeleteVpc: vpcs.delete_vpc,
    ApplyPeering: vpcs.apply_peering,
    DeletePeering: vpcs.delete_peering,
    ApplyBorder: vpcs.apply_border,
    GatewayUp: gateways.gateway_up,
    GatewayDown: gateways.gateway_down,
    ForgetGateway: gateways.forget_gateway,
    GatewayAcked: gateways.gateway_acked,
}
