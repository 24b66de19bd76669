"""Flow completion times: what flows that share links get of them, from their starts to their last bytes.

A fluid model: rates are max-min fair at every moment and follow at once when a flow begins or ends. Congestion control
comes near that for flows of more than a few round trips; queues, headers, pauses and propagation are not modelled.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.fluid.completion_events import Network, Queue, Refill, run_events
from controller.planner.clos import Topology
from controller.planner.expand import Flows
from controller.planner.jit import Floats, Ints
from controller.planner.proof.fluid import layers_of, max_min_rates
from controller.planner.proof.loads import link_places

MAX_FILLINGS = 100_000_000
"""How often flows may be given a new rate in one simulation: a few minutes of work."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completions:
    """When flows are done.

    `completion_ns` is each flow's time from its start to its end, infinite where it gets no bandwidth. `events` counts
    the moments at which rates changed, `fillings` how many new rates that took in all. `finished` is False where the
    work was cut short: flows then end as if nothing changed any more, or never where they had not begun.
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
    most_bps: Floats | None = None,
    slots: Ints | None = None,
    tolerance: float = 0.0,
    most_fillings: int = MAX_FILLINGS,
) -> Completions:
    """Simulate flows over given links and return when each is done.

    `places` has a row of link numbers per flow (-1: none), `start_ns` is 0 where not given. A flow never exceeds its
    `most_bps`, and one that is admitted in one of n `slots` in turn never an n-th of it (or of its slowest link): on
    average over the slots that is what it gets. Flows that end within `tolerance` times the age of the first of them
    are one event, after which the others share what they leave; 0 is exact and mostly the fastest, 0.01 to 0.03 help
    where a hundred thousand flows of all sizes hold each other up everywhere. Work is limited to `most_fillings` new
    rates of a flow.
    """
    flows, no_links = places.shape[0], (places < 0).all(axis=1)
    capacity = np.append(capacity_bps.astype(np.float64), np.inf)
    most = capacity[places].min(axis=1, initial=np.inf)
    if most_bps is not None:
        most = np.minimum(most, most_bps)
    if slots is not None:
        most = most / np.maximum(slots, 1)
    start = np.zeros(flows) if start_ns is None else start_ns.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone_ns = np.where(size_bytes > 0, size_bytes * 8e9 / most, 0.0)
    links, first, link = _contended(places, capacity[:-1], most)
    shared = np.flatnonzero((np.diff(first) > 0) & (size_bytes > 0) & ~no_links)
    if not len(shared):
        return Completions(completion_ns=alone_ns, events=0, fillings=0, finished=True)
    lengths = np.diff(first)[shared]
    edges = link[np.repeat(first[shared] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())]
    net = _network(np.append(0, np.cumsum(lengths)), edges, capacity[links] / 1e9, most[shared] / 1e9)
    queue = _queue(size_bytes[shared] * 8.0)
    begins = start[shared]
    order = np.argsort(begins, kind="stable")
    events, fillings = run_events(
        net, _refill(len(shared), len(links)), queue, begins, order, float(tolerance), int(most_fillings)
    )
    alone_ns[shared] = queue.ends - begins
    return Completions(
        completion_ns=alone_ns, events=int(events), fillings=int(fillings), finished=bool(fillings <= most_fillings)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What flows get on their paths: columns by `rows` of the flows asked about, and their figures.

    `rates_bps` are the max-min rates while all are active, `completion_ns` the times from the common start to each
    flow's end, `slowdown` that time over the one at the flow's demand (1: it never waits for anybody).
    """

    rows: Ints
    rates_bps: Floats
    completion_ns: Floats
    slowdown: Floats

    def figures(self) -> dict[str, float]:
        """Return least and mean rate, and mean, 99th percentile and largest completion time and slowdown."""
        if not len(self.rows):
            return {}
        found = {"min_rate_bps": float(self.rates_bps.min()), "mean_rate_bps": float(self.rates_bps.mean())}
        for name, column in (("completion_ns", self.completion_ns), ("slowdown", self.slowdown)):
            found[f"mean_{name}"] = float(column.mean())
            # The smallest time that 99 of 100 flows do not exceed: no interpolation, so infinite times are allowed.
            found[f"p99_{name}"] = float(np.quantile(column, 0.99, method="inverted_cdf"))
            found[f"max_{name}"] = float(column.max())
        return found


def path_outcome(
    topology: Topology, flows: Flows, hops: Ints, *, size_bytes: Floats | None = None, tolerance: float = 0.0
) -> Outcome:
    """Return what flows would get on any paths, planned or not: rates and completion times, to compare planners by.

    `hops` has a row of directed links per flow (`clos.Topology` numbers them, -1: none), as planners and hashes choose
    them; the NIC links are added here. Every flow asks for its demand and sends its `size_bytes` (one iteration's where
    not given, and what it would send in a second where no flow says), all from the same moment, over links without
    headroom: nobody paces the senders. Of a job with phases only the heaviest takes part. `tolerance` is that of
    `completion_times`.
    """
    layer, _, heavy = layers_of(flows.job, flows.phase, flows.demand_bps)
    rows = np.flatnonzero(heavy[layer])
    places = link_places(topology, flows, hops)[rows]
    capacity, demand = topology.capacity.astype(np.float64), flows.demand_bps[rows].astype(np.float64)
    size = flows.size_bytes[rows] if size_bytes is None else size_bytes[rows]
    if not size.any():
        size = demand / 8
    done = completion_times(places, capacity, size, most_bps=demand, tolerance=tolerance).completion_ns
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.where(size > 0, done / (size * 8e9 / demand), 1.0)
    return Outcome(rows=rows, rates_bps=max_min_rates(places, capacity, demand), completion_ns=done, slowdown=slowdown)


def warm() -> None:
    """Compile the kernels, or load them from the cache."""
    completion_times(np.zeros((2, 1), dtype=np.int64), np.ones(1), np.ones(2))


def _contended(places: Ints, capacity: Floats, most: Floats) -> tuple[Ints, Ints, Ints]:
    """Return the links that can ever be full, where each flow's begin, and each flow's as places in that list.

    A link whose flows cannot even all together ask for more than it has never slows any of them.
    """
    real = places >= 0
    asked = np.bincount(places[real], weights=np.repeat(most, real.sum(axis=1)), minlength=len(capacity))
    full = np.append(asked > capacity, False)
    wanted = full[places]
    number = np.cumsum(full) - 1
    return np.flatnonzero(full), np.append(0, np.cumsum(wanted.sum(axis=1))), number[places[wanted]]


def _network(first: Ints, link: Ints, capacity: Floats, most: Floats) -> Network:
    """Return flows and links without an active flow."""
    flows, edges, links = len(most), len(link), len(capacity)
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
        most=most,
        by_cap=np.argsort(most, kind="stable"),
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
