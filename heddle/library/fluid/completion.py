"""Compute the completion times of flows that share links, by a fluid model.

Rates are max-min fair at every time and change at once when a flow starts or ends. Congestion control approximates this
for flows of more than a few round trips. Queues, headers, pauses and propagation are not modelled.
"""

from dataclasses import dataclass

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Floats, Ints
from heddle.controller.planner.ground.loads import link_places
from heddle.controller.planner.proof.fluid import heaviest_layers_of, max_min_rates
from heddle.library.fluid.completion_events import Network, Queue, Refill, run_events

MAX_FILLINGS = 100_000_000
"""Limit on the new rates of flows in one simulation: a few minutes of work."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completions:
    """Completion times of flows.

    `completion_ns` is each flow's time from start to end, infinite without bandwidth. `events` counts the times at
    which rates changed, `fillings` all new rates. `finished` is False if the limit of work was reached: times
    are then those at the last rates, and infinite for flows that had not started.
    """

    completion_ns: Floats
    events: int
    fillings: int
    finished: bool


def completion_times(
    places: Ints,
    capacity_bps: Floats,
    size_bytes: Floats,
    *,
    start_ns: Floats | None = None,
    max_bps: Floats | None = None,
    slots: Ints | None = None,
    tolerance: float = 0.0,
    max_fillings: int = MAX_FILLINGS,
) -> Completions:
    """Simulate flows over given links and return their completion times.

    `places` has a row of link numbers per flow (-1: none); `start_ns` defaults to 0. No flow exceeds its `max_bps`.
    One that is admitted in one of n `slots` in turn never exceeds an n-th of it (or of its slowest link), its average
    over the slots. Flows that end within `tolerance` times the age of the first of them are one event. 0 is exact and
    mostly the fastest; 0.01 to 0.03 help with a hundred thousand flows of many sizes that all share links. The
    simulation stops after `max_fillings` new rates.
    """
    flows, no_links = places.shape[0], (places < 0).all(axis=1)
    capacity = np.append(capacity_bps.astype(np.float64), np.inf)
    limit = capacity[places].min(axis=1, initial=np.inf)
    if max_bps is not None:
        limit = np.minimum(limit, max_bps)
    if slots is not None:
        limit = limit / np.maximum(slots, 1)
    start = np.zeros(flows) if start_ns is None else start_ns.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone_ns = np.where(size_bytes > 0, size_bytes * 8e9 / limit, 0.0)
    links, first, link = _contended(places, capacity[:-1], limit)
    shared = np.flatnonzero((np.diff(first) > 0) & (size_bytes > 0) & ~no_links)
    if not len(shared):
        return Completions(completion_ns=alone_ns, events=0, fillings=0, finished=True)
    lengths = np.diff(first)[shared]
    edges = link[np.repeat(first[shared] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())]
    net = _network(np.append(0, np.cumsum(lengths)), edges, capacity[links] / 1e9, limit[shared] / 1e9)
    queue = _queue(size_bytes[shared] * 8.0)
    begins = start[shared]
    order = np.argsort(begins, kind="stable")
    events, fillings = run_events(
        net, _refill(len(shared), len(links)), queue, begins, order, float(tolerance), int(max_fillings)
    )
    alone_ns[shared] = queue.ends - begins
    return Completions(
        completion_ns=alone_ns, events=int(events), fillings=int(fillings), finished=bool(fillings <= max_fillings)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Rates and completion times of flows on given paths; one entry per flow in `rows`.

    `rates_bps` are the max-min rates while all flows are active, `completion_ns` the times from the common start to
    each flow's end, `slowdown` that time over the one at the flow's demand (1: never delayed).
    """

    rows: Ints
    rates_bps: Floats
    completion_ns: Floats
    slowdown: Floats

    def figures(self) -> dict[str, float]:
        """Return minimum and mean rate, and mean, 99th percentile and largest completion time and slowdown."""
        if not len(self.rows):
            return {}
        found = {"min_rate_bps": float(self.rates_bps.min()), "mean_rate_bps": float(self.rates_bps.mean())}
        for name, column in (("completion_ns", self.completion_ns), ("slowdown", self.slowdown)):
            found[f"mean_{name}"] = float(column.mean())
            # The smallest time that 99 % of the flows do not exceed; not interpolated, since times may be infinite.
            found[f"p99_{name}"] = float(np.quantile(column, 0.99, method="inverted_cdf"))
            found[f"max_{name}"] = float(column.max())
        return found


def path_outcome(
    topology: Topology, flows: Flows, hops: Ints, *, size_bytes: Floats | None = None, tolerance: float = 0.0
) -> Outcome:
    """Return rates and completion times of flows on any paths, to compare planners and hashes.

    `hops` has a row of directed links per flow (numbered by `clos.Topology`, -1: none); the NIC links are added here.
    All flows start together and send `size_bytes` at up to their demand, over links without headroom and without
    pacing. Sizes default to those of one iteration, and to one second of the demand if no flow has a size. Of a job
    with phases only the heaviest takes part. `tolerance` is that of `completion_times`.
    """
    layer, _, heavy = heaviest_layers_of(flows.job, flows.phase, flows.demand_bps)
    rows = np.flatnonzero(heavy[layer])
    places = link_places(topology, flows, hops)[rows]
    capacity, demand = topology.capacity.astype(np.float64), flows.demand_bps[rows].astype(np.float64)
    size = flows.size_bytes[rows] if size_bytes is None else size_bytes[rows]
    if not size.any():
        size = demand / 8
    done = completion_times(places, capacity, size, max_bps=demand, tolerance=tolerance).completion_ns
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.where(size > 0, done / (size * 8e9 / demand), 1.0)
    return Outcome(rows=rows, rates_bps=max_min_rates(places, capacity, demand), completion_ns=done, slowdown=slowdown)


def warm() -> None:
    """Compile the kernels, or load them from the cache."""
    completion_times(np.zeros((2, 1), dtype=np.int64), np.ones(1), np.ones(2))


def _contended(places: Ints, capacity: Floats, limit: Floats) -> tuple[Ints, Ints, Ints]:
    """Return the links that can be full, the first edge of each flow, and the edges as indices into that list.

    A link whose capacity covers the maximum rates of all its flows never limits any of them.
    """
    real = places >= 0
    demanded = np.bincount(places[real], weights=np.repeat(limit, real.sum(axis=1)), minlength=len(capacity))
    full = np.append(demanded > capacity, False)
    wanted = full[places]
    number = np.cumsum(full) - 1
    return np.flatnonzero(full), np.append(0, np.cumsum(wanted.sum(axis=1))), number[places[wanted]]


def _network(first: Ints, link: Ints, capacity: Floats, limit: Floats) -> Network:
    """Return flows and links without an active flow."""
    flows, edges, links = len(limit), len(link), len(capacity)
    return Network(
        first=first,
        link=link,
        owner=np.repeat(np.arange(flows, dtype=np.int64), np.diff(first)),
        begin=np.append(0, np.cumsum(np.bincount(link, minlength=links))),
        edges=np.zeros(edges, dtype=np.int64),
        place=np.zeros(edges, dtype=np.int64),
        active=np.zeros(links, dtype=np.int64),
        capacity=capacity,
        load=np.zeros(links),
        rate=np.zeros(flows),
        cap=limit,
        by_cap=np.argsort(limit, kind="stable"),
        held=np.full(flows, -1, dtype=np.int64),
    )


def _refill(flows: int, links: int) -> Refill:
    return Refill(
        flows=np.zeros(flows, dtype=np.int64),
        chosen=np.zeros(flows, dtype=np.bool_),
        frozen=np.zeros(flows, dtype=np.bool_),
        before=np.zeros(flows),
        links=np.zeros(links, dtype=np.int64),
        local=np.full(links, -1, dtype=np.int64),
        left=np.zeros(links),
        open=np.zeros(links, dtype=np.int64),
        key=np.zeros(links),
        heap=np.zeros(links, dtype=np.int64),
        counts=np.zeros(2, dtype=np.int64),
    )


def _queue(left: Floats) -> Queue:
    flows = len(left)
    return Queue(
        heap=np.zeros(flows, dtype=np.int64),
        at=np.full(flows, -1, dtype=np.int64),
        size=np.zeros(1, dtype=np.int64),
        ends=np.full(flows, np.inf),
        left=left,
        stamp=np.zeros(flows),
    )
