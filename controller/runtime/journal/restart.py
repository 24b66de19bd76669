"""Read a journal at the start of a controller: the state that it continues with."""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain import durable
from heddle.controller.brain.state import State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.transactions.replan import enqueue_replan
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import Topology, topology_of
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.runtime.journal import fitting, jobs, values
from heddle.controller.runtime.ports import EPOCH_SHIFT, StateStore

MAX_UNWRITTEN = 1 << 16
"""A restart skips so many generations of virtual networks: gateways may run some that were never written."""


def continued(state: State, store: StateStore, now: int) -> State:
    """Return an initial state with what the store holds; nothing is written.

    Raises UnfitFabricError where the fabric file does not fit its jobs, and InputError where it is damaged.
    """
    stored = store.read()
    fabric = _fitting(state.fabric, stored, store.place)
    found = _read(fabric, stored, store.place)
    if fitting.CABLES not in stored:  # nothing was ever written: pins that switches hold may be of jobs to come again
        return state
    if fabric is not state.fabric:
        layout = layout_of(fabric)
        underlay = steering_of(fabric).underlay(fabric, layout, state.compiled_for)
        state = replace(state, fabric=fabric, layout=layout, underlay=underlay)
    state = durable.restored(state, found, now)
    if not state.jobs or fitting.PORTS not in stored or fitting.is_of(state.fabric, stored):
        return state
    step = steering_of(state.fabric).continued(state, now)
    return enqueue_replan(step.state, step.replan) if step.replan is not None else step.state


def numbered(state: State, generation: int) -> State:
    """Return a state that is written from now on, for the `generation` of this start."""
    floor = max(generation >> EPOCH_SHIFT << EPOCH_SHIFT, state.networks.generation + MAX_UNWRITTEN)
    return replace(state, settings=replace(state.settings, is_journaled=True, generation_floor=floor))


def why_unfit(fabric: Fabric, stored: Mapping[fitting.Key, bytes], place: str) -> str:
    """Return why a fabric file does not fit the jobs of a journal, "" where it does, or where that cannot be read."""
    try:
        _read(_fitting(fabric, stored, place), stored, place)
    except fitting.UnfitFabricError as why:
        return str(why)
    except InputError:
        return ""  # the one that leads next says so
    return ""


def remember_fabric(state: State, store: StateStore) -> None:
    """Write what paths and ports of jobs refer to where that has changed, and all jobs anew for other cables."""
    stored, own = store.read(), fitting.described(state.fabric)
    changed: dict[fitting.Key, bytes | None] = {key: own[key] for key in own if stored.get(key) != own[key]}
    if fitting.CABLES in changed:
        topology = topology_of(state.fabric)
        changed |= {("job", name): jobs.encode(topology, job) for name, job in state.jobs.items()}
    if changed:
        store.write(changed)


def _fitting(fabric: Fabric, stored: Mapping[fitting.Key, bytes], place: str) -> Fabric:
    """Return the fabric with the port layout of the journal's jobs; raises InputError where that is damaged."""
    try:
        return fitting.with_kept_layout(fabric, stored)
    except ValueError as why:
        raise _damaged(place, why) from None


def _damaged(place: str, why: ValueError) -> InputError:
    return InputError(f"{place} is damaged or of a newer version: {why}; `heddle state restore`")


def _read(fabric: Fabric, stored: Mapping[fitting.Key, bytes], place: str) -> dict[str, dict[str, object]]:
    """Return the values of a journal by kind and id; raises UnfitFabricError, and InputError where it is damaged."""
    topology = topology_of(fabric)
    then = stored.get(fitting.CABLES)
    try:
        cables = topology.cable_ids if then is None else values.decode(tuple[str, ...], then)
        renumbered = jobs.renumbering(topology, cables)
        found: dict[str, dict[str, object]] = {}
        for (kind, name), content in stored.items():
            if (kind, name) not in fitting.OF_FABRIC:
                found.setdefault(kind, {})[name] = _value(topology, kind, content, renumbered)
        fitting.check_drains(fabric, place, found.get("drain", {}))
        fitting.check_steering(fabric, place, stored)
        fitting.check_ports(fabric, place, stored, found.get("job", {}))  # type: ignore[arg-type]  # of kind job
    except jobs.ForeignFabricError as why:
        raise fitting.foreign(fabric, place, str(why)) from None
    except ValueError as why:
        raise _damaged(place, why) from None
    return found


def _value(topology: Topology, kind: str, content: bytes, renumbered: Ints | None) -> object:
    if kind == "job":
        return jobs.decode(topology, content, renumbered)
    if kind not in durable.TYPES:
        raise ValueError(f"an unknown kind of value, {kind}")
    return values.decode(durable.TYPES[kind], content)
