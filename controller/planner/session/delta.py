"""The result of a session event: the flows whose paths it changed."""

from dataclasses import dataclass

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import NO_LINK
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints, Rows, bare_kernel
from heddle.controller.planner.session.state import Store


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
    """The flows that an event has put on other paths: their rows, the ids of their jobs, and how many made room."""

    rows: Ints
    jobs: frozenset[str]
    moved: int

    def __len__(self) -> int:
        return len(self.rows)


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


def touched(store: Store) -> Ints:
    """Return the row of every flow in the log of an event."""
    logged = int(store.counter.logged[0])
    rows: Ints = np.empty(min(logged, len(store.s.flow)), dtype=np.int64)
    return rows[: _touched(store.s.log[:logged], store.s.flow, store.new_tick(), rows)]


def changes(store: Store, own: Ints) -> tuple[Ints, int]:
    """Return the rows of the flows in the log whose paths differ from those before the event.

    And how many of them moved: those that had a path and have one, without the rows in `own`.
    """
    s, logged = store.s, int(store.counter.logged[0])
    rows: Ints = np.empty(min(logged, len(s.flow)), dtype=np.int64)
    found, moved = _changes(
        s.log[:logged], s.flow, own, store.new_tick(), store.new_tick(), store.before_event, store.stranded, rows
    )
    return rows[:found], moved


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
    log: Rows, flow: Rows, own: Ints, mine: int, seen: int, was_stranded: Flags, stranded: Flags, rows: Ints
) -> tuple[int, int]:
    """Write the rows of flows that changed; return how many there are, and how many of them moved.

    `mine` and `seen` are stamps that no flow has yet.
    """
    found, moved = 0, 0
    for i in range(own.shape[0]):
        flow[own[i]].stamp = mine
    for entry in range(log.shape[0]):
        change = log[entry]
        f = change.flow
        is_own, current = flow[f].stamp == mine, flow[f]
        if current.stamp == seen:
            continue
        current.stamp = seen
        other = was_stranded[f] != stranded[f]
        for step in range(4):
            other = other or change.path[step] != current.path[step]
        if other:
            rows[found] = f
            found += 1
            moved += 1 if not is_own and not stranded[f] and not was_stranded[f] else 0
    return found, moved


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
