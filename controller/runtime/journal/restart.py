"""Read a journal at the start of a controller: the state that it continues with."""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain import durable
from heddle.controller.brain.state import State
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import DEFAULT_STEERING, Fabric
from heddle.controller.planner.ground.clos import Topology, topology_of
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.runtime.journal import jobs, values
from heddle.controller.runtime.ports import EPOCH_SHIFT, StateStore

FABRIC = ("fabric", "cables")
"""The key of the cables' names, in the order by which jobs' paths number them."""
STEERING = ("fabric", "steering")
"""The key of how jobs are steered; absent where it is OpenFlow, as in journals of before there was another."""

MAX_UNWRITTEN = 1 << 16
"""A restart skips so many generations of virtual networks: gateways may run some that were never written."""


def continued(state: State, store: StateStore, generation: int, now: int) -> State:
    """Return an initial state with what the store holds, for the `generation` of this start.

    Raises InputError where it is damaged or of another fabric.
    """
    stored = store.read()
    topology = topology_of(state.fabric)
    then = stored.get(FABRIC)
    try:
        cables = topology.cable_ids if then is None else values.decode(tuple[str, ...], then)
        renumbered = jobs.renumbering(topology, cables)
        found: dict[str, dict[str, object]] = {}
        for (kind, name), content in stored.items():
            if (kind, name) not in (FABRIC, STEERING):
                found.setdefault(kind, {})[name] = _value(topology, kind, content, renumbered)
    except jobs.ForeignFabricError as why:
        raise InputError(_foreign(state.fabric, store, str(why))) from None
    except ValueError as why:
        raise InputError(f"{store.place} is damaged or of a newer version: {why}; `heddle state restore`") from None
    _check_drains(state.fabric, store, found)
    _check_steering(state.fabric, store, stored)
    if then is not None:  # else nothing was ever written: pins that switches hold may be of jobs that submit again
        state = durable.restored(state, found, now)
    floor = max(generation >> EPOCH_SHIFT << EPOCH_SHIFT, state.networks.generation + MAX_UNWRITTEN)
    return replace(state, settings=replace(state.settings, is_journaled=True, generation_floor=floor))


def remember_fabric(state: State, store: StateStore) -> None:
    """Write what the paths of jobs refer to, and all jobs anew, where the fabric's cables have changed."""
    topology = topology_of(state.fabric)
    names, steering = values.encode(topology.cable_ids), _steering(state.fabric)
    stored = store.read()
    if stored.get(STEERING) != steering:
        store.write({STEERING: steering})
    if stored.get(FABRIC) != names:
        again = {("job", name): jobs.encode(topology, job) for name, job in state.jobs.items()}
        store.write({FABRIC: names, **again})


def _value(topology: Topology, kind: str, content: bytes, renumbered: Ints | None) -> object:
    if kind == "job":
        return jobs.decode(topology, content, renumbered)
    if kind not in durable.TYPES:
        raise ValueError(f"an unknown kind of value, {kind}")
    return values.decode(durable.TYPES[kind], content)


def _check_drains(fabric: Fabric, store: StateStore, found: dict[str, dict[str, object]]) -> None:
    known = {switch.id for switch in fabric.switches} | fabric.cable_by_link.keys()
    for name in found.get("drain", {}):
        if name not in known:
            raise InputError(_foreign(fabric, store, f"{name} is drained"))


def _steering(fabric: Fabric) -> bytes | None:
    return fabric.steered_by.value.encode() if fabric.steered_by is not DEFAULT_STEERING else None


def _check_steering(fabric: Fabric, store: StateStore, stored: Mapping[tuple[str, str], bytes]) -> None:
    """Refuse jobs whose source ports were found for the other kind of switches: they name other paths here."""
    jobs_then = [name for kind, name in stored if kind == "job"]
    if jobs_then and stored.get(STEERING) != _steering(fabric):
        before = stored.get(STEERING, DEFAULT_STEERING.value.encode()).decode()
        raise InputError(
            f"{store.place}: job {min(jobs_then)} was planned with `steering: {before}`, and the fabric file has "
            f"`{fabric.steered_by.value}`: release its jobs with the former, or name another directory by --state"
        )


def _foreign(fabric: Fabric, store: StateStore, what: str) -> str:
    return (
        f"{store.place}: {what}, which fabric {fabric.name} does not have: keep it in the fabric file until no job "
        "needs it, or name another directory by --state"
    )
