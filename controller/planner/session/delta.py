"""The result of a session event: the flows that changed paths, and the utilisation of the fabric."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controller.model.job import JobRequest
from controller.planner.clos import NO_LINK, Topology
from controller.planner.expand import Flows
from controller.planner.flow_table import path_links
from controller.planner.jit import Flags, Ints, Rows, bare_kernel
from controller.planner.session.state import Store


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

    `job` and `index` identify a flow by the number of its job and its index among the job's flows. `old` and `new` are
    its links by role, valid where `had` and `has` are true. `placed` flows were new or had lost their path, `moved`
    flows made room for others, `stranded` flows have no live path, and `shared` flows are on links above the bounds of
    their own cuts.
    """

    topology: Topology
    jobs: Mapping[int, SessionJob]
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

    @property
    def shortfall(self) -> float:
        """Return the difference between the largest utilisation and the bound of all demands, at least 0.0."""
        return max(0.0, self.max_link_utilisation - self.lower_bound)

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


def packed(paths: Ints) -> Ints:
    """Return links by role (up, up to the core, down from the core, down) as hops, padded with -1 at the end."""
    order = np.argsort(paths < 0, axis=1, kind="stable")
    return np.asarray(np.take_along_axis(paths, order, axis=1), dtype=np.int64)


def by_role(hops: Ints, cables: int) -> Ints:
    """Return hops as links by role: links upwards first, links downwards last."""
    paths = np.full_like(hops, NO_LINK)
    up, down = (hops >= 0) & (hops < cables), hops >= cables
    for row_of, at in ((up, up.cumsum(axis=1) - 1), (down, 4 - down[:, ::-1].cumsum(axis=1)[:, ::-1])):
        rows, columns = np.nonzero(row_of)
        paths[rows, at[rows, columns]] = hops[rows, columns]
    return paths


def first_touched(store: Store) -> tuple[Ints, Ints]:
    """Return the row of every flow in the log of an event, and its path before the event."""
    s, logged = store.s, int(store.counter.logged[0])
    limit = min(logged, len(s.flow))
    rows: Ints = np.empty(limit, dtype=np.int64)
    old: Ints = np.empty((limit, 4), dtype=np.int64)
    found = _first_entries(s.log[:logged], s.flow, store.new_tick(), rows, old)
    return rows[:found], old[:found]


def flows_of(store: Store, links: Ints) -> Ints:
    """Return the rows of the flows that cross any of these links, in order."""
    s = store.s
    rows: Ints = np.empty(len(s.flow), dtype=np.int64)
    return np.sort(rows[: _flows_on(s.head, s.flow, store.new_tick(), links, rows)])


@bare_kernel
def _first_entries(log: Rows, flow: Rows, tick: int, rows: Ints, old: Ints) -> int:
    """Write each flow of a log, and its path before the first change, to `rows` and `old`; return their number."""
    found = 0
    for entry in range(log.shape[0]):
        change = log[entry]
        f = change.flow
        if flow[f].stamp != tick:
            flow[f].stamp = tick
            rows[found] = f
            for step in range(4):
                old[found, step] = change.path[step]
            found += 1
    return found


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
