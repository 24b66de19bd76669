"""The one entrance: an event goes in, the next state and the effects come out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controller.brain import gateways, jobs, suggestions, switches, vpcs
from controller.brain.restate import start_restate
from controller.brain.state import PlanWork, ReleaseWork, RestateWork, State
from controller.brain.transact import Outcome, changed_topology, install, on_install_failed, on_installed
from controller.model.effect import Effect
from controller.model.event import (
    ApplyBorder,
    ApplyPeering,
    ApplyVpc,
    DeletePeering,
    DeleteVpc,
    Event,
    ForgetGateway,
    GatewayAnswered,
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
)


def decide(state: State, event: Event, now: int) -> Outcome:
    """Return the next state and what is to be done; `now` is Unix time in milliseconds.

    The same state, event and time give the same answer: an incident is replayed from its events.
    """
    state, effects = _HANDLERS[type(event)](state, event, now)
    return _go_on(state, effects)


def _go_on(state: State, effects: tuple[Effect, ...]) -> Outcome:
    """Start waiting work until a transaction is under way or nothing waits."""
    done = list(effects)
    while state.active is None and state.queue:
        work, state = state.queue[0], replace(state, queue=state.queue[1:])
        if isinstance(work, PlanWork):
            state, more = jobs.start_plan(state, work)
        elif isinstance(work, ReleaseWork):
            state, more = jobs.start_release(state, work)
        elif isinstance(work, RestateWork):
            state, more = start_restate(state, work)
        else:
            state, more = install(state, work) if state.dirty else (state, ())
        done += more
    return state, tuple(done)


def _installed(state: State, event: Installed, now: int) -> Outcome:
    active, outcome = state.active, on_installed(state, event)
    if outcome is None or active is None:
        return state, ()
    state, effects = outcome
    if active.target:
        state, changed = changed_topology(state)
        effects += changed
    if isinstance(active.work, PlanWork):
        state, told = jobs.installed_job(state, active.work, event.install_ns)
        effects += told
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
    if isinstance(active.work, PlanWork):
        state, more = jobs.failed_job(state, active.work, event.switch, event.reason)
        return state, (*effects, *more)
    return state, effects


_HANDLERS: dict[type, Callable[[State, Any, int], Outcome]] = {
    Submit: jobs.submit,
    Suggest: suggestions.suggest,
    Suggested: suggestions.suggested,
    Renew: jobs.renew,
    Release: jobs.release,
    Tick: _tick,
    Solved: jobs.solved,
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
    GatewayAnswered: gateways.gateway_answered,
}
