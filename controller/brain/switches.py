"""Handle switch sessions and port status: health, reconciliation, and the state of running jobs."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from controller.brain.lifecycle import JobEvent, after
from controller.brain.state import Job, State, SwitchState, SyncWork
from controller.brain.transact import Outcome, changed_topology, enqueue, out_of_transaction
from controller.model.effect import Announce, Effect, Note
from controller.model.event import PortStatus, RulesRead, SwitchDown, SwitchUp
from controller.model.fabric import PortRef
from controller.model.health import Health
from controller.rules.compile import compile_fabric


def switch_up(state: State, event: SwitchUp, now: int) -> Outcome:
    """Record a new session and the rules that the switch holds already; only the difference will be sent."""
    state = out_of_transaction(state, event.switch)
    fresh = SwitchState(connected=True, installed=event.installed)
    state = replace(state, switches={**state.switches, event.switch: fresh}, dirty=state.dirty | {event.switch})
    state, effects = _ports(state, event.switch, event.ports)
    state, changed = changed_topology(state)
    text = f"connected with {len(event.installed.rules)} rules installed"
    note = Note(severity="info", subject=event.switch, text=text)
    return enqueue(state, SyncWork()), (note, *effects, *changed)


def switch_down(state: State, event: SwitchDown, now: int) -> Outcome:
    """Record the end of a session; the switch keeps forwarding by its installed rules (fail-static)."""
    state = out_of_transaction(state, event.switch)
    state = replace(state, switches={**state.switches, event.switch: SwitchState()})
    state, changed = changed_topology(state)
    return state, (Note(severity="warning", subject=event.switch, text=f"session ended: {event.reason}"), *changed)


def rules_read(state: State, event: RulesRead, now: int) -> Outcome:
    """Record the rules read from a switch and queue a synchronisation."""
    known = state.switches[event.switch]
    if not known.connected:
        return state, ()
    fresh = replace(known, installed=event.installed)
    state = replace(state, switches={**state.switches, event.switch: fresh}, dirty=state.dirty | {event.switch})
    return enqueue(state, SyncWork()), ()


def port_status(state: State, event: PortStatus, now: int) -> Outcome:
    """Record a port's state: its cable or NIC goes out of use or back in."""
    before = state.health
    state, effects = _ports(state, event.switch, {event.port: event.up})
    if state.health == before:
        return state, effects
    state, changed = changed_topology(state)
    return enqueue(state, SyncWork()), (*effects, *changed)


def _ports(state: State, switch: str, ports: Mapping[int, bool]) -> Outcome:
    """Record port states; failures in the fabric file remain."""
    down = {PortRef(switch, number) for number, up in ports.items() if not up}
    up = {PortRef(switch, number) for number, is_up in ports.items() if is_up}
    state = replace(state, down_ports=(state.down_ports | down) - up)
    fabric, health = state.fabric, _health_of(state)
    changed = sorted(health.down_cables ^ state.health.down_cables | health.down_nics ^ state.health.down_nics)
    if not changed:
        return state, ()
    if health.down_cables != state.health.down_cables:
        underlay = compile_fabric(fabric, state.layout, health, ())
        differing = {switch for switch, rules in underlay.items() if rules != state.underlay[switch]}
        state = replace(state, underlay=underlay, dirty=state.dirty | differing)
    state, effects = regrade(replace(state, health=health))
    words = [f"{name} {'down' if name in health.down_cables | health.down_nics else 'up'}" for name in changed]
    more = f" (+{len(words) - 5} more)" if len(words) > 5 else ""
    return state, (Note(severity="warning", subject="fabric", text=", ".join(words[:5]) + more), *effects)


def _health_of(state: State) -> Health:
    fabric = state.fabric
    cables = {fabric.cable_by_port[port].id for port in state.down_ports if port in fabric.cable_by_port}
    nics = {fabric.nic_by_port[port].id for port in state.down_ports if port in fabric.nic_by_port}
    return fabric.failed.union(Health(down_cables=frozenset(cables), down_nics=frozenset(nics)))


def regrade(state: State) -> Outcome:
    """Set running jobs with a failed link on their paths to degraded, and back to running after repair."""
    dead = {link for name in state.health.down_cables for link in _links(state, name)}
    dead |= {link for nic in state.health.down_nics for link in _nic_links(state, nic)}
    effects: list[Effect] = []
    jobs = dict(state.jobs)
    for job_id, job in state.jobs.items():
        graded = _graded(job, dead)
        if graded is not job:
            jobs[job_id] = graded
            effects.append(Announce(plan=graded.as_plan()))
    return replace(state, jobs=jobs), tuple(effects)


def _graded(job: Job, dead: set[str]) -> Job:
    links = chain(job.flows.link_loads_bps, sorted(job.flows.reverse_links))
    hit = next((link for link in links if link in dead), None) if dead else None
    state = after(job.state, JobEvent.LINKS_UP if hit is None else JobEvent.LINK_DOWN)
    if state is job.state:
        return job
    reason = "its links are up again" if hit is None else f"link {hit} down"
    return replace(job, state=state, reason=reason, generation=job.generation + 1)


def _links(state: State, cable_id: str) -> tuple[str, str]:
    cable = state.fabric.cable_by_link[cable_id]
    return cable.up_link, cable.down_link


def _nic_links(state: State, nic_id: str) -> tuple[str, str]:
    nic = state.fabric.nic_by_id[nic_id]
    return nic.up_link, nic.down_link
