"""Expand jobs into flows with demands, as arrays: the paragraphs "Flows" and "Demand" of docs/contract.md.

For predicted times, a flow also has its bytes per iteration. Which ranks send to which, and how much, is the row of
the kind in `CollectiveKind`; patterns of large collectives have a form as arrays here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from heddle.controller.model.collectives import EACH_TO_EACH, RING, TO_ROOT, TREE, Pattern
from heddle.controller.model.error import InputError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, JobRequest, Steering
from heddle.controller.model.nccl import layout_of
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, kernel
from heddle.controller.planner.ground.planes import parts_of, ports_by_plane, rates_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flows:
    """Queue pairs as columns with a row each, job by job in the order of their flow ids.

    `job` and the ranks are indices, `logical` numbers the flows before the split into queue pairs (of a flow in several
    planes each part), `fixed_port` is 0 where the job sets none, `size_bytes` is the bytes per iteration, and
    `by_addresses` marks flows of unknown ports, which are pinned by source and destination address.
    """

    job: Ints
    collective: Ints
    src_rank: Ints
    dst_rank: Ints
    queue_pair: Ints
    phase: Ints
    src_nic: Ints
    dst_nic: Ints
    demand_bps: Ints
    size_bytes: Floats
    fixed_port: Ints
    logical: Ints
    pinned: Flags
    by_addresses: Flags

    def __len__(self) -> int:
        return len(self.job)

    def rows(self, chosen: Ints | Flags | slice) -> "Flows":
        """Return some of the rows."""
        return Flows(**{column.name: getattr(self, column.name)[chosen] for column in fields(self)})

    def as_job(self, number: int) -> "Flows":
        """Return the flows of one job with another job number, and `logical` counted from 0."""
        first = self.logical.min(initial=np.iinfo(np.int64).max)
        return replace(self, job=np.full(len(self), number, dtype=np.int64), logical=self.logical - first)


LEAST_BPS = 1
"""The demand of a part of a flow in a plane that has nothing left for it, so that no share divides by 0."""


def joined_flows(parts: Sequence[Flows]) -> Flows:
    """Join flows of several sources, renumbering `logical` so that it stays unique."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    columns = {column.name: [getattr(part, column.name) for part in parts] for column in fields(Flows)}
    start = 0
    for index, part in enumerate(parts):
        columns["logical"][index] = part.logical + start
        start += int(part.logical.max()) + 1
    return Flows(**{name: np.concatenate(arrays) for name, arrays in columns.items()})


def _ring(n: int, _: int) -> tuple[Ints, Ints]:
    source = np.arange(n, dtype=np.int64)
    return source, (source + 1) % n


def _each_to_each(n: int, _: int) -> tuple[Ints, Ints]:
    source = np.repeat(np.arange(n, dtype=np.int64), n)
    target = np.tile(np.arange(n, dtype=np.int64), n)
    return source[source != target], target[source != target]


def _to_root(n: int, root: int) -> tuple[Ints, Ints]:
    return np.delete(np.arange(n, dtype=np.int64), root), np.full(n - 1, root, dtype=np.int64)


def _tree(n: int, _: int) -> tuple[Ints, Ints]:
    child = np.arange(1, n, dtype=np.int64)
    parent = (child - 1) // 2
    return np.column_stack((child, parent)).ravel(), np.column_stack((parent, child)).ravel()


ARRAYS: dict[Pattern, Callable[[int, int], tuple[Ints, Ints]]] = {
    RING: _ring,
    EACH_TO_EACH: _each_to_each,
    TO_ROOT: _to_root,
    TREE: _tree,
}
"""The pairs of a pattern as columns, much faster than one by one, in the same order."""


def _pairs(pattern: Pattern, n: int, root: int) -> tuple[Ints, Ints]:
    if pattern in ARRAYS:
        return ARRAYS[pattern](n, root)
    pairs = np.array(list(pattern.pairs(n, root)), dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _root_index(collective: Collective, members: Ints) -> int:
    found = np.flatnonzero(members == collective.root)
    if not len(found):
        raise InputError(f"root {collective.root} is not a member of the collective: name one of its ranks")
    return int(found[0])


def _rank_pairs(collective: Collective, topology: Topology, nics: Ints) -> tuple[Ints, Ints, float]:
    """Return source and destination rank of every flow of a collective, same-host ones included.

    The third value is the bytes of a flow over those that its kind alone gives it.
    """
    members = np.array(collective.members or range(len(nics)), dtype=np.int64)
    expansion = collective.on_rails
    if expansion is None:
        return *_pairs_of_kind(collective, members), 1.0
    layout = layout_of(topology.nics_at(nics[members]))
    pairs = np.fromiter(chain.from_iterable(expansion.pairs(layout)), np.int64, 2 * expansion.count(layout))
    return members[pairs[::2]], members[pairs[1::2]], expansion.part(layout)


def _pairs_of_kind(collective: Collective, members: Ints) -> tuple[Ints, Ints]:
    pattern = collective.kind.pattern
    if pattern.lists:
        named = collective.pairs if pattern.lists == "pairs" else collective.flows
        source = np.fromiter(map(attrgetter("src_rank"), named), np.int64, len(named))
        return source, np.fromiter(map(attrgetter("dst_rank"), named), np.int64, len(named))
    root = _root_index(collective, members) if pattern.is_rooted else 0
    source, target = _pairs(pattern, len(members), root)
    return members[source], members[target]


def expand(
    topology: Topology, requests: Sequence[JobRequest], *, first_job: int = 0, live: Live | None = None
) -> Flows:
    """Expand jobs into flows; `first_job` is the number of the first job.

    `live` are the links by which demands are split among planes, all of the fabric by default. Raises InputError for a
    rank that is no NIC of the fabric, a root or rank outside the job, or NICs that no plane joins.
    """
    parts = [_expand_job(topology, request, first_job + index, live) for index, request in enumerate(requests)]
    return joined_flows(parts) if parts else _empty()


def _empty() -> Flows:
    none = np.empty(0, dtype=np.int64)
    dtypes = {"size_bytes": np.float64, "pinned": np.bool_, "by_addresses": np.bool_}
    return Flows(**{column.name: none.astype(dtypes.get(column.name, np.int64)) for column in fields(Flows)})


def _expand_job(topology: Topology, request: JobRequest, job: int, live: Live | None) -> Flows:
    nics = _nics_of(topology, request)
    parts = [_logical_flows(request, index, topology, nics) for index in range(len(request.collectives))]
    if not parts:
        return _empty()
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if topology.ports_of_rank is None or not len(columns["qps"]):
        numerator, denominator = _demands(topology.nic_capacity, columns["src_nic"], columns["dst_nic"], columns)
    else:
        numerator, denominator, columns = _in_planes(topology, live, request, columns)
    qps = columns["qps"]
    pin = np.full(len(qps), request.steering is Steering.PIN)
    fixed, every = columns["fixed_port"] > 0, np.arange(len(qps), dtype=np.int64)
    if (qps == 1).all():
        return Flows(
            job=np.full(len(qps), job, dtype=np.int64), queue_pair=columns["first_queue_pair"],
            demand_bps=_rounded(numerator, denominator), size_bytes=columns["bytes"], logical=every,
            pinned=fixed | pin, by_addresses=pin & ~fixed, **{name: columns[name] for name in _COPIED},
        )  # fmt: skip
    times = int(qps[0]) if (qps == qps[0]).all() else qps  # repeating by a scalar is four times as fast
    demand = _rounded(numerator, denominator * qps)
    first = columns["first_queue_pair"] - (np.cumsum(qps) - qps)
    rows = (every, first, demand, *(columns[name] for name in _COPIED))
    # One array for all columns: the kernel maps a large one in large pages, in a fraction of the time.
    logical, queue_pair, demand, *copied = np.repeat(np.stack(rows), times, axis=1)
    queue_pair += np.arange(len(logical), dtype=np.int64)
    return Flows(
        job=np.full(len(logical), job, dtype=np.int64),
        queue_pair=queue_pair,
        demand_bps=demand,
        size_bytes=np.repeat(columns["bytes"] / qps, times),
        logical=logical,
        pinned=np.repeat(fixed | pin, times),
        by_addresses=np.repeat(pin & ~fixed, times),
        **dict(zip(_COPIED, copied, strict=True)),
    )


_COPIED = ("collective", "src_rank", "dst_rank", "phase", "src_nic", "dst_nic", "fixed_port")


def _nics_of(topology: Topology, request: JobRequest) -> Ints:
    """Return the number of the NIC of each rank, of several ports the first."""
    known = topology.ports_of_rank
    try:
        if known is not None:
            return np.array([topology.nic_index[known[name][0].id] for name in request.ranks], dtype=np.int64)
        return np.fromiter(map(topology.nic_index.__getitem__, request.ranks), np.int64, len(request.ranks))
    except KeyError as unknown:
        raise InputError(f"job {request.job_id}: rank {unknown.args[0]!r} is no NIC of this fabric") from None


def _logical_flows(request: JobRequest, index: int, topology: Topology, nics: Ints) -> dict[str, Ints]:
    """Return the columns of one collective before the split into queue pairs, without flows inside a host."""
    collective = request.collectives[index]
    source, target, part = _rank_pairs(collective, topology, nics)
    if len(source) and not 0 <= min(source.min(), target.min()) <= max(source.max(), target.max()) < len(nics):
        raise InputError(f"job {request.job_id}: collectives[{index}]: a rank is outside 0 to {len(nics) - 1}")
    count = len(source)
    rate, port = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if collective.kind.pattern.lists == "flows":
        rate[:] = [flow.rate_bps for flow in collective.flows]
        port[:] = [flow.udp_source_port for flow in collective.flows]
    qps, members = collective.qps_per_flow or 1, len(collective.members) or len(nics)
    if qps > 1 and port.any():
        raise InputError(f"job {request.job_id}: collectives[{index}]: a fixed udp_source_port needs qps_per_flow 1")
    columns: dict[str, Ints] = {
        "collective": np.full(count, index, dtype=np.int64),
        "phase": np.full(count, collective.phase, dtype=np.int64),
        "src_rank": source,
        "dst_rank": target,
        "src_nic": nics[source],
        "dst_nic": nics[target],
        "rate": rate,
        "fixed_port": port,
        "qps": np.full(count, qps, dtype=np.int64),
        "bytes": np.full(count, part * collective.kind.flow_size.of(collective.size_bytes, members), dtype=np.float64),
        "first_queue_pair": qps * _named_before(collective, source * len(nics) + target),
    }
    apart = topology.nic_host[columns["src_nic"]] != topology.nic_host[columns["dst_nic"]]
    return columns if apart.all() else {name: column[apart] for name, column in columns.items()}


def _named_before(collective: Collective, pairs: Ints) -> Ints:
    """Return how often each pair of ranks occurred before: its queue pairs continue from there, so ids stay unique.

    Only explicit pairs, members or channels of NCCL can repeat a pair.
    """
    given = collective.kind.pattern.lists or collective.members or collective.on_rails
    return repeats(pairs) if given else np.zeros(len(pairs), dtype=np.int64)


def repeats(keys: Ints) -> Ints:
    """Return how often each key, at least 0, occurred before in the column."""
    runs = 1 + int(np.count_nonzero(keys[1:] != keys[:-1]))
    return _occurrences(keys, max(4, (2 * runs - 1).bit_length()))


@kernel
def _occurrences(keys: Ints, bits: int) -> Ints:
    """Count earlier occurrences in a hash table of 2^bits slots, multiplicative with linear probing (TAOCP 3, 6.4)."""
    size = 1 << bits
    table, count = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    seen, place = np.empty(keys.shape[0], np.int64), np.int64(0)
    for i in range(keys.shape[0]):
        if table[place] != keys[i]:  # the queue pairs of a flow are a run of one key
            place = np.int64((np.uint64(keys[i]) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))
            while table[place] >= 0 and table[place] != keys[i]:
                place = (place + 1) & (size - 1)
            table[place] = keys[i]
        seen[i] = count[place]
        count[place] += 1
    return seen


def _in_planes(
    topology: Topology, live: Live | None, request: JobRequest, columns: dict[str, Ints]
) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Split flows among planes: return the demand of each part as a fraction, and the columns of all parts."""
    known, live = topology.ports_of_rank or {}, live or Live.of(topology, Health())
    numbers = {name: number for number, name in enumerate(dict.fromkeys(request.ranks))}
    ports = ports_by_plane(topology, [known[name] for name in numbers])
    nic_of_rank = np.array([numbers[name] for name in request.ranks], dtype=np.int64)
    source, target = nic_of_rank[columns["src_rank"]], nic_of_rank[columns["dst_rank"]]
    apart = np.flatnonzero(~((ports[source] >= 0) & (ports[target] >= 0)).any(axis=1))
    if len(apart):
        names = " and ".join(list(numbers)[side[apart[0]]] for side in (source, target))
        raise InputError(f"job {request.job_id}: {names} have no port in one plane; give the job ranks of one plane")
    numerator, denominator = _demands(rates_of(topology, live, ports), source, target, columns)
    parts = parts_of(topology, live, ports[source], ports[target])
    split: dict[str, Any] = {name: column[parts.flow] for name, column in columns.items()}
    count = np.diff(parts.first)[parts.flow]
    number = np.arange(len(parts.flow), dtype=np.int64) - parts.first[parts.flow]
    split |= {
        "src_nic": parts.source,
        "dst_nic": parts.target,
        "bytes": split["bytes"] * parts.weight / parts.whole,
        # The queue pairs of a flow in one plane follow those in the plane before.
        "first_queue_pair": split["first_queue_pair"] * count + number * split["qps"],
    }
    denominator = denominator[parts.flow] * parts.whole
    least = LEAST_BPS * denominator * split["qps"]
    return np.maximum(numerator[parts.flow] * parts.weight, least), denominator, split


def with_demands(flows: Flows, demand_bps: Ints) -> Flows:
    """Return the flows of one job with other demands of their parts in planes; bytes are divided as demands."""
    ends = np.stack((flows.collective, flows.phase, flows.src_rank, flows.dst_rank))
    _, flow = np.unique(ends, axis=1, return_inverse=True)
    flow = flow.reshape(-1)
    size_bytes, demand = np.bincount(flow, weights=flows.size_bytes), np.bincount(flow, weights=demand_bps)
    parts = demand_bps / np.maximum(demand, 1.0)[flow]
    return replace(flows, demand_bps=demand_bps, size_bytes=size_bytes[flow] * parts)


def _demands(capacity: Ints, src: Ints, dst: Ints, columns: dict[str, Ints]) -> tuple[Ints, Ints]:
    """Return demands as fractions: the rate of a flow, or min(C_src / n_out, C_dst / n_in) where it is elastic.

    `src` and `dst` are the NICs of the flows, `capacity` has their rates in bit/s.
    """
    numerator, denominator = columns["rate"].copy(), np.ones(len(columns["rate"]), dtype=np.int64)
    elastic = np.flatnonzero(columns["rate"] == 0)
    source, target, phase = src[elastic], dst[elastic], columns["phase"][elastic]
    leaving, entering = _crowd(phase, source, len(capacity)), _crowd(phase, target, len(capacity))
    out_rate, in_rate = capacity[source], capacity[target]
    by_source = out_rate * entering <= in_rate * leaving
    numerator[elastic] = np.where(by_source, out_rate, in_rate)
    denominator[elastic] = np.where(by_source, leaving, entering)
    return numerator, denominator


def _crowd(phase: Ints, nic: Ints, nics: int) -> Ints:
    """Return for each flow the number of flows that share its NIC in its phase."""
    phases, row = np.unique(phase, return_inverse=True) if len(phase) and (phase != phase[0]).any() else (phase[:1], 0)
    key = row * nics + nic
    return np.bincount(key, minlength=len(phases) * nics)[key]


def _rounded(numerator: Ints, denominator: Ints) -> Ints:
    """Divide integers and round half to even."""
    whole, rest = np.divmod(numerator, denominator)
    up = (2 * rest > denominator) | ((2 * rest == denominator) & (whole % 2 == 1))
    return np.asarray(whole + up, dtype=np.int64)
