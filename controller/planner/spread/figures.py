"""Compare path sets with what else a NIC could do: one path a flow, sets drawn at random, and all paths."""

from dataclasses import replace

import numpy as np

from heddle.controller.model.plan import Spraying
from heddle.controller.planner.ground.clos import Live
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import link_loads, utilisation
from heddle.controller.planner.ground.path_sets import PathSets
from heddle.controller.planner.spread.lists import denied
from heddle.controller.planner.spread.sprayed import Sprayed

MAX_DRAWN = 400_000
"""The limit of entries drawn at random, which take some 0.2 s; above it the figure is 0."""
MAX_ALL = 50_000_000
"""The limit of paths times links for the figure of all paths."""
SAME = 1e-6


def spraying(found: Sprayed, live: Live, loads: Floats) -> Spraying:
    """Return the figures of a plan with these loads."""
    topology, split = found.topology, found.split
    planned = _fullest(found, loads)
    single = _fullest(found, link_loads(topology, found.flows, found.hops))
    every, drawn = 0.0, 0.0
    if found.rotations.count * topology.first_nic_link <= MAX_ALL:
        every = _with_lists(
            found, live, split, [np.arange(found.rotations.count)], np.zeros(split.sum(), dtype=np.int64)
        )
    if int(found.paths[split].sum()) <= MAX_DRAWN and split.sum() * found.rotations.count <= 10 * MAX_DRAWN:
        lists = _random_lists(found, split)
        drawn = _with_lists(found, live, split, lists, np.arange(len(lists)))
    return Spraying(
        flows=int(split.sum()), single_path_max_link_utilisation=single, random_sets_max_link_utilisation=drawn,
        all_paths_max_link_utilisation=every, advice=_advice(planned, every, int((~split).sum())),
    )  # fmt: skip


def _advice(planned: float, every: float, others: int) -> str:
    found = []
    if 0 < every <= planned * (1 + SAME):
        found.append("spraying over all paths does as well: where NICs take so many, no plan of paths is needed")
    if others:
        found.append(f"{others} flows with one path lose beside sprayed ones: give them as many")
    return "; ".join(found)


def _fullest(found: Sprayed, loads: Floats) -> float:
    return float(utilisation(found.topology, loads)[: found.topology.first_nic_link].max(initial=0.0))


def _with_lists(found: Sprayed, live: Live, split: Flags, lists: list[Ints], which: Ints) -> float:
    """Return the largest utilisation where the flows `split` have other lists, without paths out of use."""
    of_row = np.full(len(split), len(lists), dtype=np.int64)
    of_row[split] = which
    other = replace(found, sets=PathSets.of([*lists, np.zeros(1, dtype=np.int64)], of_row))
    if not live.whole:
        other = replace(other, sets=denied(live, other))
    return _fullest(other, other.loads())


def _random_lists(found: Sprayed, split: Flags) -> list[Ints]:
    """Return for each flow as many different rotations as it asks for, by a hash of its row (splitmix64)."""
    rows, count = np.flatnonzero(split), found.rotations.count
    keys = np.arange(len(rows) * count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    order = np.argsort((keys ^ (keys >> np.uint64(31))).reshape(len(rows), count), axis=1)
    return [each[:size] for each, size in zip(order, found.paths[rows].tolist(), strict=True)]
