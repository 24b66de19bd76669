"""Decide: map the state and events to the next state and the effects to perform.

    state, effects = decide(state, event, now)

This is the whole interface of the brain. What follows are the rules that all of `controller/brain` keeps. The loop
that calls it is `controller/runtime/loop.py`.

One writer. One task holds the state, calls this module, and performs the effects. gRPC handlers, OpenFlow sessions
and timers only post events into its inbox; readers take the frozen state of the moment. So a decision sees everything
that was decided before it, and needs no lock.

A decision is pure. It reads the state, the event and `now`, and nothing else: no clock, socket, logger or random
number. Ids and tokens come from counters in the state, which is never changed in place. The same events at the same
times give the same decisions, so an incident is a list of events that a test, or `heddle replay`, decides again. What
a caller has done wrong is a value, the `HeddleError` of its `Reply`. An exception is a fault of the controller: it
ends the process, and the switches keep forwarding.

An effect is what the loop does for the brain: send rules, plan, find ports, reply, publish, log. Effects are
performed in the order in which they were returned. Those that take time run beside the loop, and their result arrives
as a later event with the token of the effect: Solve and Solved, Install and Installed or InstallFailed. A token that
nothing in the state waits for any more is stale, and its event changes nothing. Deadlines are times in the state,
which a Tick compares with `now`; a Wake brings the next Tick sooner.

Transactions run one at a time (`transactions/`). Submissions, drains and replans are planned, installed and
acknowledged one after the other, so no two plan on each other's loads; a release takes its turn among them.
`State.active` is the one under way, `State.queue` holds those that wait. What needs no plan changes at once: a lease,
and virtual networks (`networks/`), whose callers wait for the gateways. Previews and suggestions change nothing, and
are planned beside the transactions. A failed link waits for no plan: the underlay without it is compiled and
installed meanwhile, and a plan that is still computed for the fabric of before is begun again.

No switch delays what does not need it. A transaction needs the switches on new paths and those whose pins it changes.
Where its installation waits for one that lags, and other work waits, the installation ends: the submission is undone,
and parked until that switch has caught up (`transactions/parking.py`). A switch that refuses rules gets installations
of its own; no new job uses it, and jobs that cross it are degraded (`lacking.py`).

Desired, installed, difference. What a switch should hold is computed from the state (`state.wanted`), what it holds
is what it reported or acknowledged (`SwitchState.installed`), and `install.py` alone sends the difference. A handler
changes what is wanted, and marks switches as dirty.

Acknowledge before announce. A caller gets its reply, and watchers get new paths, after the last barrier reply; for a
new job, those of all switches on its paths. On a fabric that hashes, probes have confirmed the ports by then. Only
rates that fall while flows move are published before the rules change; those that rise follow after. A request gets
one Reply, also where it fails, unless its caller has left (Withdraw).

What survives a restart is one table, `TABLES` in `durable.py`. A handler does nothing for it: the states before and
after a turn are compared, and what differs becomes a Persist in front of the other effects. Effects that are `Held`,
such as the Reply to a `Change` (`controller/model/traits.py`), wait until that is written, so none of them shows what
a restart would undo. A job that still waits for its switches is not kept. Leases begin again in full, and switches
report the rules that they hold.

A turn handles the events that have arrived together: first each event's handler, then once what follows from all of
them, a compilation, the next transaction, an installation. A handler queues a transaction, and starts none.

To add an event: its class in `controller/model/event.py`; a function (state, event, now) -> (state, effects) in the
module of its family; its row in `HANDLERS` below. Tests demand one handler for each event, and a performer for each
effect. docs/where-to-change.md has the whole list, from the gRPC method to the tests.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from heddle.controller.brain import congestion, durable, storms, switches
from heddle.controller.brain.cabling import following, hearing
from heddle.controller.brain.install import (
    Outcome,
    caught_up,
    changed_topology,
    give_up,
    on_install_failed,
    on_installed,
    on_lags,
    start_install,
    unread,
)
from heddle.controller.brain.lacking import with_lacking
from heddle.controller.brain.lifecycle import WorkKind
from heddle.controller.brain.networks import gateways, load_balancers, vpcs
from heddle.controller.brain.state import Active, ReplanWork, State
from heddle.controller.brain.steering.interface import Step
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.transactions import bad_cables, convergence, drains, jobs, previews, replan, suggestions
from heddle.controller.brain.transactions.parking import delayed, unparked, unready_of
from heddle.controller.brain.transactions.submissions import withdraw
from heddle.controller.model.effect import Effect
from heddle.controller.model.event import (
    CablesJudged,
    Compiled,
    Congested,
    Diagnosed,
    Drain,
    Due,
    Event,
    Heard,
    Installed,
    InstallFailed,
    InstallLags,
    NotFollowed,
    PortsAstray,
    PortsFound,
    PortStatus,
    Release,
    Renew,
    RulesRead,
    Solved,
    Submit,
    Suggest,
    Suggested,
    SwitchCaughtUp,
    SwitchDown,
    SwitchUp,
    Tick,
    Withdraw,
)
from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyNetwork,
    ApplyPeering,
    ApplyVpc,
    BackEndsReported,
    DeleteLoadBalancer,
    DeletePeering,
    DeleteVpc,
    DropUnknownVpcs,
    ForgetGateway,
    GatewayAcked,
    GatewayDown,
    GatewayUp,
)
from heddle.controller.model.plan import Infeasible, Replan


def decide(state: State, event: Event, now: int) -> Outcome:
    """Return the next state and the effects to perform, in order; `now` is Unix time in milliseconds.

    The same state, event and time give the same result, so an incident is replayed from its events.
    """
    return decide_all(state, (event,), now)


def decide_all(state: State, events: Iterable[Event], now: int) -> Outcome:
    """Handle several events, then start what follows from all of them together: one plan, one compilation."""
    before = state
    effects: list[Effect] = []
    for kind, alike in groupby(events, type):
        if kind in TOGETHER:
            state, more = TOGETHER[kind](state, list(alike), now)
            effects += more
            continue
        for event in alike:
            state, more = HANDLERS[kind](state, event, now)
            effects += more
    judges = partial(hearing.start_diagnosis, before, now=now)
    for follow in (
        judges,
        partial(with_lacking, before),
        partial(_compiles, now=now),
        _without_unready,
        _start_waiting,
        partial(convergence.follow, before, now=now),
    ):
        state, more = follow(state)
        effects += more
    state, more = start_install(state, now)
    effects += more
    state, more = give_up(state)
    return state, (*durable.changes(before, state), *effects, *more)


def _compiles(state: State, now: int) -> Outcome:
    return steering_of(state.fabric).start_compile(state, now)


MAY_DEADLOCK = "the buffers of its paths and their failover could wait for each other in a circle (a PFC deadlock)"


class WorkHandlers(NamedTuple):
    """The functions that run one kind of transaction.

    `start(state, work)`, `solved(state, work, event, now)`, `installed(state, work, active, install_ns)`, and
    `failed(state, work, active, event)`; each returns an Outcome. A release needs no plan: it only starts.
    """

    start: Callable[[State, Any], Outcome]
    solved: Callable[[State, Any, Solved, int], Outcome] | None = None
    installed: Callable[[State, Any, Active, int], Outcome] | None = None
    failed: Callable[[State, Any, Active, InstallFailed], Outcome] | None = None


def _replan_solved(state: State, work: ReplanWork, event: Solved, now: int) -> Outcome:
    was, is_void = state.jobs, state.active is None or state.active.health != state.out_of_use
    state, effects = replan.replan_solved(state, work, event, now)
    if is_void or not isinstance(event.outcome, Replan):
        return state, effects
    state, more = congestion.moved_off(state, work.ports, was, event.outcome.moved, now)
    return state, (*effects, *more)


WORK_HANDLERS: Mapping[WorkKind, WorkHandlers] = {
    WorkKind.PLAN: WorkHandlers(jobs.start_plan, jobs.plan_solved, jobs.plan_installed, jobs.plan_failed),
    WorkKind.RELEASE: WorkHandlers(jobs.start_release),
    WorkKind.REPLAN: WorkHandlers(replan.start_replan, _replan_solved, replan.replan_installed, replan.replan_failed),
    WorkKind.DRAIN: WorkHandlers(drains.start_drain, drains.drain_solved, drains.drain_installed, drains.drain_failed),
}


def _start_waiting(state: State) -> Outcome:
    """Start queued work until a transaction is active or the queue is empty; a failure interrupts a plan."""
    state, effects = _interrupted(state)
    done = list(effects)
    while state.active is None and state.queue:
        work, state = state.queue[0], replace(state, queue=state.queue[1:])
        state, more = WORK_HANDLERS[work.kind].start(state, work)
        done += more
    return state, tuple(done)


def _without_unready(state: State) -> Outcome:
    """End a transaction whose next installation needs a switch that is not ready; return to the queue what may go on.

    Its installation would leave that switch out, and its acknowledgement would not be one of all its rules.
    """
    active = state.active
    if active is not None and active.before is not None and not _is_installing(state, active):
        unready = sorted(unready_of(state, active))
        if unready:
            event = InstallFailed(token=active.token, switch=unready[0], reason=NOT_READY, lagging=frozenset(unready))
            state, effects = _failed(state, active, event)
            return unparked(state), effects
    return unparked(state), ()


NOT_READY = "it still processes earlier rules"


def _is_installing(state: State, active: Active) -> bool:
    return state.installing is not None and state.installing.of == active.token


def _interrupted(state: State) -> Outcome:
    """Return the work that is being solved to the queue where a failure waits: its plan would be void."""
    active = state.active
    waits = bool(state.queue) and state.queue[0].kind is WorkKind.REPLAN
    if active is None or active.before is not None or not waits or active.health == state.out_of_use:
        return state, ()
    if active.work.kind is WorkKind.PLAN:
        return jobs.plan_again(state, active.work)
    return replace(state, active=None, queue=replan.after_replans(state, active.work)), ()


def _congested(state: State, event: Congested, now: int) -> Outcome:
    state, effects = storms.stormed(state, event, now)
    state, more = congestion.congested(state, event, now)
    return state, (*effects, *more)


def _solved(state: State, event: Solved, now: int) -> Outcome:
    if isinstance(event.outcome, Replan) and not event.outcome.certificate.deadlock_free:
        event = replace(event, outcome=Infeasible(why=MAY_DEADLOCK))
    if state.previews and state.previews[0].token == event.token:
        return previews.previewed(state, event, now)
    if state.convergence.token == event.token:
        return convergence.sought(state, event, now)
    active = state.active
    if active is None or active.token != event.token:
        return state, ()
    return _stepped(steering_of(state.fabric).solved(state, event, now), now)


def _of_steering(state: State, event: Event, now: int) -> Outcome:
    return _stepped(steering_of(state.fabric).on_event(state, event, now), now)


def _steering_tick(state: State, now: int) -> Outcome:
    return _stepped(steering_of(state.fabric).tick(state, now), now)


def _stepped(step: Step, now: int) -> Outcome:
    """Queue the replan of a steering's step; handle a plan that takes effect now."""
    state = step.state if step.replan is None else replan.enqueue_replan(step.state, step.replan)
    active = state.active
    if active is None or step.solved is None:
        return state, step.effects
    solved = WORK_HANDLERS[active.work.kind].solved
    state, effects = solved(state, active.work, step.solved, now) if solved is not None else (state, ())
    return state, (*step.effects, *effects)


def _installed(state: State, event: Installed, now: int) -> Outcome:
    done, outcome = state.installing, on_installed(state, event, now)
    if outcome is None or done is None:
        return state, ()
    state, effects = outcome
    if done.target:
        state, changed = changed_topology(state)
        effects += changed
    active = state.active
    if active is not None and active.token == done.of:
        installed = WORK_HANDLERS[active.work.kind].installed
        assert installed is not None
        state, more = installed(replace(state, active=None), active.work, active, event.install_ns)
        effects += more
    return state, effects


def _install_failed(state: State, event: InstallFailed, now: int) -> Outcome:
    done, outcome = state.installing, on_install_failed(state, event)
    if outcome is None or done is None:
        return state, ()
    state, effects = outcome
    active = state.active
    if active is not None and active.token == done.of:
        state, more = _failed(state, active, event)
        effects += more
    return state, effects


def _failed(state: State, active: Active, event: InstallFailed) -> Outcome:
    """End a transaction whose installation failed; what a switch has delayed, or one that it does not need, goes on."""
    work = active.work
    at_fault = event.switch not in event.lagging and (
        event.switch in (active.own or active.needed) or event.switch not in state.switches
    )
    if work.kind is WorkKind.PLAN and not at_fault and work.attempts < jobs.MAX_ATTEMPTS:
        return delayed(replace(state, active=None), work, active)
    failed = WORK_HANDLERS[work.kind].failed
    assert failed is not None
    return failed(replace(state, active=None), work, active, event)


def _tick(state: State, event: Tick, now: int) -> Outcome:
    state, effects = jobs.end_leases(state, now)
    state, more = _due(state, Due(), now)
    effects += more
    for due in (switches.tick, storms.ended, bad_cables.tick, gateways.tick, following.tick):
        state, more = due(state, now)
        effects += more
    return state, (*effects, *unread(state))


def _due(state: State, event: Due, now: int) -> Outcome:
    state, effects = switches.held_ports(state, now)
    state, more = _steering_tick(state, now)
    return state, (*effects, *more)


TOGETHER: Mapping[type, Callable[[State, Any, int], Outcome]] = {
    PortStatus: switches.port_statuses,
    Submit: previews.submitted,
}
"""Events of which those in a row are handled as one."""
HANDLERS: Mapping[type, Callable[[State, Any, int], Outcome]] = {
    Drain: drains.drain,
    Congested: _congested,
    CablesJudged: bad_cables.judged,
    Compiled: _of_steering,
    Suggest: suggestions.suggest,
    Suggested: suggestions.suggested,
    Withdraw: withdraw,
    Renew: jobs.renew,
    Release: jobs.release,
    Tick: _tick,
    Due: _due,
    Solved: _solved,
    PortsFound: _of_steering,
    PortsAstray: _of_steering,
    SwitchUp: switches.switch_up,
    SwitchDown: switches.switch_down,
    RulesRead: switches.rules_read,
    Installed: _installed,
    InstallFailed: _install_failed,
    InstallLags: on_lags,
    SwitchCaughtUp: caught_up,
    ApplyVpc: vpcs.apply_vpc,
    DeleteVpc: vpcs.delete_vpc,
    ApplyPeering: vpcs.apply_peering,
    DeletePeering: vpcs.delete_peering,
    ApplyBorder: vpcs.apply_border,
    ApplyNetwork: vpcs.apply_network,
    ApplyLoadBalancer: load_balancers.apply_load_balancer,
    DeleteLoadBalancer: load_balancers.delete_load_balancer,
    BackEndsReported: load_balancers.back_ends_reported,
    GatewayUp: gateways.gateway_up,
    GatewayDown: gateways.gateway_down,
    ForgetGateway: gateways.forget_gateway,
    DropUnknownVpcs: gateways.drop_unknown_vpcs,
    GatewayAcked: gateways.gateway_acked,
    Heard: hearing.heard,
    Diagnosed: hearing.diagnosed,
    NotFollowed: following.not_followed,
}
"""The function that decides about each other event."""
