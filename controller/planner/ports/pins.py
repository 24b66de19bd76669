"""Handle flows with fixed or unknown ports: taken tuples, flows that must share a path, and streams to guard."""

from collections.abc import Mapping

import numpy as np

from heddle.controller.model.error import AlreadyExistsError
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.streams import Streams, tuple_keys


def refuse_taken_tuples(topology: Topology, job_ids: list[str], flows: Flows) -> None:
    """Raise AlreadyExistsError where two flows are pinned to one (source, destination, port)."""
    fixed = np.flatnonzero(flows.fixed_port > 0)
    keys = tuple_keys(topology, flows.src_nic[fixed], flows.dst_nic[fixed], flows.fixed_port[fixed])
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(same):
        return
    one, other = fixed[order[same[0]]], fixed[order[same[0] + 1]]
    source, target = topology.nic_ids[flows.src_nic[other]], topology.nic_ids[flows.dst_nic[other]]
    raise AlreadyExistsError(
        f"job {job_ids[flows.job[other]]}: {source} to {target} from UDP source port {flows.fixed_port[other]} is "
        f"already pinned by job {job_ids[flows.job[one]]}; choose another udp_source_port"
    )


def bundles(topology: Topology, kept: Streams, new: Flows, priority: Ints) -> Ints:
    """Return the bundle of each new flow, -1 for none; flows of one bundle must share a path.

    A pin by addresses applies to all traffic of its pair without a pin of its own, so the pair shares a path. Flows of
    a higher `priority` than the pin are guarded instead. A flow with the fixed port of a running stream between the
    same NICs shares its path: switches cannot distinguish them.
    """
    if not (kept.by_addresses.any() or new.by_addresses.any() or (new.fixed_port > 0).any()):
        return np.full(len(new), -1, dtype=np.int64)
    pairs, fixed = tuple_keys(topology, new.src_nic, new.dst_nic, 0), new.fixed_port > 0
    bound = np.isin(pairs, kept.pair[kept.by_addresses])
    for level in np.unique(priority[new.by_addresses]).tolist():
        pins = pairs[new.by_addresses & (priority == level)]
        bound |= (priority <= level) & np.isin(pairs, pins)
    bundle = np.where(~fixed & bound, pairs, -1)
    if fixed.any() and len(kept.key):
        keys = tuple_keys(topology, new.src_nic, new.dst_nic, new.fixed_port)
        bundle = np.where(fixed & np.isin(keys, kept.key), keys, bundle)
    return np.asarray(bundle, dtype=np.int64)


def given_paths(kept: Streams, bundle: Ints) -> dict[int, Ints]:
    """Return the hops of bundles that running jobs determine.

    A new pin of a whole pair takes the path of the first steered flow of that pair.
    """
    if not len(kept.key) or (bundle < 0).all():
        return {}
    wanted = bundle[bundle >= 0]
    found: dict[int, Ints] = {}
    for keys in (np.where(kept.by_addresses, kept.pair, -1), np.where(kept.data, kept.pair, -1), kept.key):
        for row in np.flatnonzero(np.isin(keys, wanted)).tolist():
            found.setdefault(int(keys[row]), kept.hops[row])
    return found


def pinned_pairs(topology: Topology, kept: Streams, new: Flows, hops: Ints) -> dict[int, Ints]:
    """Return the hops of every pair of NICs that is pinned by addresses, by its tuple key without a port."""
    rows = np.flatnonzero(new.by_addresses)
    pairs = tuple_keys(topology, new.src_nic[rows], new.dst_nic[rows], 0).tolist()
    found = {pair: hops[row] for pair, row in zip(pairs, rows.tolist(), strict=True)}
    return found | {int(kept.pair[row]): kept.hops[row] for row in np.flatnonzero(kept.by_addresses).tolist()}


def taken_along(pairs: Ints, hops: Ints, pinned: Mapping[int, Ints]) -> Ints:
    """Return the hops of streams between these pairs after pins by addresses have changed some of them."""
    rows = np.flatnonzero(np.isin(pairs, np.fromiter(pinned, dtype=np.int64))) if pinned else ()
    if len(rows):
        hops = hops.copy()
        hops[rows] = [pinned[key] for key in pairs[rows].tolist()]
    return hops


def streams_to_guard(topology: Topology, streams: Streams, new: Flows, hops: Ints) -> dict[int, list[int]]:
    """Return, per new job, the rows of `streams` that its pins by addresses would move off their paths.

    Each needs a pin of its own tuple beside that of the pair, because it runs already or has a higher priority.
    """
    if not new.by_addresses.any():
        return {}
    found: dict[int, list[int]] = {}
    own = ~streams.by_addresses & ~streams.fixed
    for job in np.unique(new.job[new.by_addresses]).tolist():
        mine = new.by_addresses & (new.job == job)
        pairs, first = np.unique(tuple_keys(topology, new.src_nic, new.dst_nic, 0)[mine], return_index=True)
        rows = np.flatnonzero(own & np.isin(streams.pair, pairs))
        pins = hops[mine][first[np.searchsorted(pairs, streams.pair[rows])]]
        rows = rows[(streams.hops[rows] != pins).any(axis=1)]
        if len(rows):
            found[job] = rows.tolist()
    return found
