"""The result of a session event: the flows that changed paths, and the utilisation of the fabric."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import NO_LINK, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.flow_table import path_links
from heddle.controller.planner.ground.jit import Flags, Ints, Rows, bare_kernel
from heddle.controller.planner.ground.paths import packed
from heddle.controller.planner.session.state import Store


class Change(NamedTuple):
    """The old and new path of a flow as link ids, NIC links included; None where it had or has no path."""

    flow_id: str
    old_links: tuple[str, ...] | None
    new_links: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionJob:
    """A job in a session: its flows, their rows in the session's arrays, and its number of phases."""

    number: int
    request: JobRequest
    flows: Flows
    rows: Ints
    source: Ints
    target: Ints
    phases: int
    sizes: Ints
    layers: slice | None

    def flow_id(self, index: int) -> str:
        """Return the id of a flow."""
        flows = self.flows
        ranks = f"{flows.src_rank[index]}-{flows.dst_rank[index]}"
        return f"{self.request.job_id}/{flows.collective[index]}/{ranks}/{flows.queue_pair[index]}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delta:
    """The changes of one event; iteration builds each `Change` on demand.

    `row` is the row of a flow, `job` the number of its job, and `index` its index among its flows. `old` and `new`
    are its links by role, valid where `had` and `has` are true. `placed` flows were new or severed, `moved`
    flows made room for others, `stranded` flows have no path then, and `shared` flows are on links above the bounds of
    their own cuts.
    """

    topology: Topology
    jobs: Mapping[int, SessionJob]
    row: Ints
    job: Ints
    index: Ints
    old: Ints
    new: Ints
    had: Flags
    has: Flags
    placed: int
    moved: int
    shared: int
    stranded: int
    why_stranded: str
    replanned: bool
    max_link_utilisation: float
    lower_bound: float
    bottleneck_link: str

    def __len__(self) -> int:
        return len(self.job)

    def __iter__(self) -> Iterator[Change]:
        old, new = packed(self.old), packed(self.new)
        for row in range(len(self)):
            job, index = self.jobs[int(self.job[row])], int(self.index[row])
            ends = int(job.flows.src_nic[index]), int(job.flows.dst_nic[index])
            yield Change(
                job.flow_id(index),
                path_links(self.topology, ends[0], old[row], ends[1]) if self.had[row] else None,
                path_links(self.topology, ends[0], new[row], ends[1]) if self.has[row] else None,
            )


def hops_of_rows(store: Store, rows: Ints) -> Ints:
    """Return the links of flows by their rows, padded with -1 at the end."""
    hops = np.empty((len(rows), 4), dtype=np.int64)
    _read_hops(store.s.flow, rows, hops)
    return hops


@bare_kernel
def _read_hops(flow: Rows, rows: Ints, hops: Ints) -> None:
    """Write the links of these flows to `hops`."""
    for i in range(rows.shape[0]):
        length = 0
        for step in range(4):
            link = flow[rows[i]].path[step]
            if link >= 0:
                hops[i, length] = link
                length += 1
        for step in range(length, 4):
            hops[i, step] = NO_LINK


def no_paths(flows: int) -> Ints:
    """Return `flows` rows of links by role without a link."""
    return np.full((flows, 4), NO_LINK, dtype=np.int64)


def by_role(hops: Ints, cables: int) -> Ints:
    """Return hops as links by role: links upwards first, links downwards last."""
    paths = np.full_like(hops, NO_LINK)
    up, down = (hops >= 0) & (hops < cables), hops >= cables
    for row_of, at in ((up, up.cumsum(axis=1) - 1), (down, 4 - down[:, ::-1].cumsum(axis=1)[:, ::-1])):
        rows, columns = np.nonzero(row_of)
        paths[rows, at[rows, columns]] = hops[rows, columns]
    return paths


class Changes(NamedTuple):
    """The flows whose paths an event changed: row, job, number in the job, old and new path of each.

    `had` and `has` are whether a flow had a path, and has one; `placed` and `moved` are as in `Delta`.
    """

    row: Ints
    job: Ints
    number: Ints
    old: Ints
    new: Ints
    had: Flags
    has: Flags
    placed: int
    moved: int


def touched(store: Store) -> Ints:
    """Return the row of every flow in the log of an event."""
    logged = int(store.counter.logged[0])
    rows: Ints = np.empty(min(logged, len(store.s.flow)), dtype=np.int64)
    return rows[: _touched(store.s.log[:logged], store.s.flow, store.new_tick(), rows)]


def changes(store: Store, placed: Ints) -> Changes:
    """Compare the paths of the flows in the log with those before the event; `placed` are the rows of its own flows."""
    s, logged = store.s, int(store.counter.logged[0])
    limit = min(logged, len(s.flow))
    row, job, index = (_column(limit) for _ in range(3))
    old, new = _column(limit, 4), _column(limit, 4)
    had: Flags = np.empty(limit, dtype=np.bool_)
    has: Flags = np.empty(limit, dtype=np.bool_)
    found, count, moved = _changes(
        s.log[:logged], s.flow, store.index, placed, store.new_tick(), store.new_tick(), store.before_event,
        store.stranded, row, job, index, old, new, had, has,
    )  # fmt: skip
    return Changes(
        row[:found], job[:found], index[:found], old[:found], new[:found], had[:found], has[:found], count, moved
    )


def _column(*shape: int) -> Ints:
    return np.empty(shape, dtype=np.int64)


def flows_of(store: Store, links: Ints) -> Ints:
    """Return the rows of the flows that cross any of these links, in order."""
    s = store.s
    rows: Ints = np.empty(len(s.flow), dtype=np.int64)
    return np.sort(rows[: _flows_on(s.head, s.flow, store.new_tick(), links, rows)])


@bare_kernel
def _touched(log: Rows, flow: Rows, tick: int, rows: Ints) -> int:
    """Write each flow of a log to `rows`; return their number."""
    found = 0
    for entry in range(log.shape[0]):
        f = log[entry].flow
        if flow[f].stamp != tick:
            flow[f].stamp = tick
            rows[found] = f
            found += 1
    return found


@bare_kernel
def _changes(
    log: Rows, flow: Rows, number: Ints, placed: Ints, mine: int, seen: int, was_stranded: Flags, stranded: Flags,
    rows: Ints, job: Ints, index: Ints, old: Ints, new: Ints, had: Flags, has: Flags,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill columns of `Changes`; return how many rows they have, and how many of these are placed and moved.

    `mine` and `seen` are stamps that no flow has yet; `number` is each flow's index in its job.
    """
    found, count, moved = 0, 0, 0
    for i in range(placed.shape[0]):
        flow[placed[i]].stamp = mine
    for entry in range(log.shape[0]):
        change = log[entry]
        f = change.flow
        own, current = flow[f].stamp == mine, flow[f]
        if current.stamp == seen:
            continue
        current.stamp = seen
        other = was_stranded[f] != stranded[f]
        for step in range(4):
            old[found, step], new[found, step] = change.path[step], current.path[step]
            other = other or change.path[step] != current.path[step]
        if other:
            rows[found], job[found], index[found] = f, current.job, number[f]
            had[found], has[found] = not was_stranded[f], not stranded[f]
            found += 1
            count += 1 if own and not stranded[f] else 0
            moved += 1 if not own and not stranded[f] and not was_stranded[f] else 0
    return found, count, moved


@bare_kernel
def _flows_on(head: Ints, flow: Rows, tick: int, links: Ints, rows: Ints) -> int:
    """Write each flow of these links to `rows` once; return their number."""
    found = 0
    for i in range(links.shape[0]):
        node = head[links[i]]
        while node >= 0:
            f = node >> 2
            node = flow[f].after[node & 3]
            if flow[f].stamp != tick:
                flow[f].stamp = tick
                rows[found] = f
                found += 1
    return found
