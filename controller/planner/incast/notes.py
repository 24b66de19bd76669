"""Describe the incasts of a job: how senders share a receiver, and why."""

from collections.abc import Sequence

import numpy as np

from heddle.controller.model.job import Incast, JobRequest
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.planner.incast.confinement import top_of_paths
from heddle.controller.planner.incast.incast import crowded_nics
from heddle.controller.planner.incast.windows import MAX_UNSYNCHRONISED, PORT_BUFFER_BYTES

MAX_NAMED = 3
"""The number of incasts above which a job's note has only their number."""


NO_ROOM = "for their paths leave no room for turns"


def incast_notes(
    topology: Topology, jobs: Sequence[JobRequest], whole: Paths, rates: Ints, turns: Turns | None
) -> dict[int, tuple[str, ...]]:
    """Return, per job number, a line for each incast of the job's own senders, and one for NICs with incasts of others.

    Jobs without either are left out. `topology` has the capacities that the rates are for.
    """
    flows = whole.flows
    if np.array_equal(rates, flows.demand_bps):
        return {}
    into = np.flatnonzero(crowded_nics(topology, flows)[flows.dst_nic])
    notes: dict[int, tuple[str, ...]] = {}
    taking_part = np.unique(flows.job[into]).tolist() if len(into) else []
    for number in taking_part:
        mine = into[flows.job[into] == number]
        own, guest = _receivers(topology, flows.src_nic[mine], flows.dst_nic[mine])
        if len(own) > MAX_NAMED:
            here = mine[np.isin(flows.dst_nic[mine], own)]
            some = turns is not None and bool(turns.slots[here].any())
            how = "some senders in turns" if some else "each sender at its rate"
            if not some and jobs[number].incast == Incast.WINDOWS:
                how += f", {NO_ROOM}"
            lines = [f"incasts into {len(own)} NICs: 0.95 of each one's rate is shared, {how}"]
        else:
            lines = [
                _note(topology, jobs[number], whole, rates, turns, mine[flows.dst_nic[mine] == receiver])
                for receiver in own
            ]
        if guest:
            lines.append(_guest_note(topology, flows, rates, mine[np.isin(flows.dst_nic[mine], guest)], guest))
        notes[number] = tuple(lines)
    return notes


def _receivers(topology: Topology, source: Ints, target: Ints) -> tuple[list[int], list[int]]:
    """Return the NICs that a job's flows enter: those with an incast of its own senders, and those with one sender.

    At the latter the incast is that of other jobs, whose notes describe it.
    """
    pairs = np.unique(target * topology.nics + source)
    senders = np.bincount(pairs // topology.nics)
    return np.flatnonzero(senders > 1).tolist(), np.flatnonzero(senders == 1).tolist()


def _guest_note(topology: Topology, flows: Flows, rates: Ints, mine: Ints, receivers: list[int]) -> str:
    """Describe the flows that enter NICs beside an incast of other jobs."""
    where = f"{len(receivers)} NICs"
    if len(receivers) <= MAX_NAMED:
        where = ", ".join(topology.nic_ids[receiver] for receiver in receivers)
    each = " each" if len(receivers) > 1 else ""
    return f"sends into {where} beside other jobs, at {_rates(flows.src_nic[mine], rates[mine])}{each}"


def _note(
    topology: Topology, job: JobRequest, whole: Paths, rates: Ints, turns: Turns | None, mine: Ints
) -> str:  # fmt: skip
    """Describe one receiver's incast; `mine` are the job's rows of it."""
    flows, receiver = whole.flows, int(whole.flows.dst_nic[mine[0]])
    senders = len(np.unique(flows.src_nic[mine]))
    others = len(np.unique(flows.src_nic[(flows.dst_nic == receiver) & (flows.job != flows.job[mine[0]])]))
    beside = f", beside {others} of other jobs" if others else ""
    head = f"incast of {senders} senders into {topology.nic_ids[receiver]}{beside}: "
    in_turn = mine[turns.slots[mine] > 0] if turns is not None else mine[:0]
    if turns is None or not len(in_turn):
        into, out = topology.capacity[topology.first_nic_link :].reshape(2, -1)[::-1, receiver]
        other = " less traffic of no job" if into < out else ""
        how = f"each sends at {_rates(flows.src_nic[mine], rates[mine])} (0.95 of its rate{other} shared)"
        if job.incast == Incast.WINDOWS:
            how += f", {NO_ROOM}"
    else:
        first = turns.window(int(in_turn[0]))
        senders_in_turn = "they" if len(in_turn) == len(mine) else f"{len(np.unique(flows.src_nic[in_turn]))} of them"
        why = "the job asks for it"
        if job.incast != Incast.WINDOWS:
            size = PORT_BUFFER_BYTES >> 20
            why = f"packets of more than {MAX_UNSYNCHRONISED} at once could be more than a port's {size} MiB"
        how = (
            f"{senders_in_turn} take turns in {first.slots} slots of {_time(first.slot_ns)}, "
            f"at {_rates(flows.src_nic[in_turn], rates[in_turn])} each, because {why}"
        )
    tops = np.unique(top_of_paths(whole.hops[mine], topology.upper))
    count = int((tops >= 0).sum())
    name = "top switch" if (topology.tier == 1).any() else "spine"
    return head + how + (f", over {count} {_plural(name, count)}" if count else "")


def _plural(name: str, count: int) -> str:
    return name if count == 1 else f"{name}es" if name.endswith("ch") else f"{name}s"


def _rates(senders: Ints, rates: Ints) -> str:
    """Render the rates of senders, as a range where they differ by more than 1 %."""
    _, which = np.unique(senders, return_inverse=True)
    total = np.bincount(which, weights=rates)
    lowest, highest = float(total.min()), float(total.max())
    return _rate(lowest) if highest <= 1.01 * lowest else f"{_rate(lowest)} to {_rate(highest)}"


def _rate(bps: float) -> str:
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= size:
            return f"{bps / size:.3g} {unit}"
    return f"{bps:.3g} bit/s"


def _time(ns: int) -> str:
    return f"{ns // 1_000_000} ms" if ns >= 1_000_000 else f"{ns // 1_000} us"
