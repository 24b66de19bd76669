"""Flows whose port is what it is: which tuples are taken, and which flows must share a path."""

import numpy as np

from controller.model.error import AlreadyExists
from controller.planner.clos import Topology
from controller.planner.expand import Flows
from controller.planner.jit import Ints


def tuple_keys(topology: Topology, flows: Flows, ports: Ints) -> Ints:
    """Return a number per (source NIC, destination NIC, port); a NIC has one address."""
    return (flows.src_nic * topology.nics + flows.dst_nic) * 65536 + ports


def refuse_taken_tuples(topology: Topology, job_ids: list[str], flows: Flows) -> None:
    """Raise AlreadyExists where two flows are pinned to one (source, destination, port)."""
    fixed = np.flatnonzero(flows.fixed_port > 0)
    keys = tuple_keys(topology, flows, flows.fixed_port)[fixed]
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(same):
        return
    one, other = fixed[order[same[0]]], fixed[order[same[0] + 1]]
    source, target = topology.nic_ids[flows.src_nic[other]], topology.nic_ids[flows.dst_nic[other]]
    raise AlreadyExists(
        f"job {job_ids[flows.job[other]]}: {source} to {target} from UDP source port {flows.fixed_port[other]} is "
        f"already pinned by job {job_ids[flows.job[one]]}; choose another udp_source_port"
    )


def _pairs(topology: Topology, flows: Flows) -> Ints:
    return tuple_keys(topology, flows, np.zeros(len(flows), dtype=np.int64))


def bundles(topology: Topology, kept: Flows, kept_ports: Ints, new: Flows) -> Ints:
    """Return a number per new flow that has to share a path with every flow of that number, -1 for the others.

    A pin by addresses takes all of its pair's traffic along but what has a pin of its own, so the pair shares a path.
    A flow whose fixed port a running job already sends from between the same NICs shares that flow's path: to the
    switches they are one.
    """
    pairs, fixed = _pairs(topology, new), new.fixed_port > 0
    pinned = np.concatenate((_pairs(topology, kept)[kept.by_addresses], pairs[new.by_addresses]))
    bundle = np.where(~fixed & np.isin(pairs, pinned), pairs, -1)
    if fixed.any() and len(kept):
        keys = tuple_keys(topology, new, new.fixed_port)
        bundle = np.where(fixed & np.isin(keys, tuple_keys(topology, kept, kept_ports)), keys, bundle)
    return np.asarray(bundle, dtype=np.int64)


def given_paths(topology: Topology, kept: Flows, kept_ports: Ints, kept_hops: Ints, bundle: Ints) -> dict[int, Ints]:
    """Return the hops of bundles that flows already running decide.

    Where steered flows of a pair run already and a pin of the whole pair comes, it takes the first one's path.
    """
    if not len(kept) or (bundle < 0).all():
        return {}
    wanted, pairs = bundle[bundle >= 0], _pairs(topology, kept)
    found: dict[int, Ints] = {}
    pinned = np.where(kept.by_addresses, pairs, -1)
    for keys in (pinned, pairs, tuple_keys(topology, kept, kept_ports)):
        for row in np.flatnonzero(np.isin(keys, wanted)).tolist():
            found.setdefault(int(keys[row]), kept_hops[row])
    return found
