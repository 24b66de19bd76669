"""Compute the rates that flows may have while some of them change their paths: they fit on the old and new paths alike.

Switches change one after the other, and a controller may end in between. With these rates no link that flows join is
over its capacity, whichever of the flows are on their old paths and whichever on their new ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heddle.controller.model.plan import JobFlows
from heddle.controller.planner.ground.flow_table import FlowTable

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class _Rows(NamedTuple):
    """The flows of all jobs, a row each: old and joined links are padded with -1; rates are on average, in bit/s."""

    job: Ints
    phase: Ints
    old: Ints
    joined: Ints
    rate_bps: Floats


def slowed(before: Mapping[str, JobFlows], after: Iterable[JobFlows]) -> dict[str, JobFlows]:
    """Return, by job, the old paths of running jobs with rates for the time of a move, where a rate falls.

    A rate is the lower one of the old and the new; flows that share a link which others join get less, in proportion,
    where all of them together exceed it: at least half. `before` has the running jobs, `after` those of the plan.
    """
    tables = [
        (was, was.flows, job.flows)
        for job in after
        if (was := before.get(job.job_id)) is not None
        and isinstance(was.flows, FlowTable)
        and isinstance(job.flows, FlowTable)
        and was.flows.sets is None
    ]
    if not tables:
        return {}
    rows = _rows([(old, new) for _, old, new in tables])
    factors = _factors(rows, tables[0][1].topology.capacity)
    found, begin = {}, 0
    for was, old, new in tables:
        part = factors[begin : begin + len(old)]
        begin += len(old)
        rates = np.floor(np.minimum(old.rates, new.rates) * part).astype(np.int64)
        if (rates < old.rates).any():
            found[was.job_id] = replace(was, flows=old.with_rates(rates, old.turns))
    return found


def _rows(tables: list[tuple[FlowTable, FlowTable]]) -> _Rows:
    old, new = (np.concatenate([pair[each].hops for pair in tables]) for each in (0, 1))
    stays = (new[:, :, None] == old[:, None, :]).any(axis=2)
    slots = [table.turns.slots if table.turns is not None else np.zeros(len(table), np.int64) for table, _ in tables]
    rates = np.concatenate([np.minimum(was.rates, now.rates) for was, now in tables])
    return _Rows(
        job=np.repeat(np.arange(len(tables)), [len(table) for table, _ in tables]),
        phase=np.concatenate([table.flows.phase for table, _ in tables]),
        old=old,
        joined=np.where(stays, -1, new),
        rate_bps=rates / np.maximum(np.concatenate(slots), 1),
    )


def _factors(rows: _Rows, capacity: Ints) -> Floats:
    """Return the part of its rate that each flow may have: what its fullest link among those that are joined allows."""
    is_joined = np.zeros(capacity.shape[0], dtype=np.bool_)
    is_joined[rows.joined[rows.joined >= 0]] = True
    links = np.concatenate((rows.old, rows.joined), axis=1)
    links[(links >= 0) & ~is_joined[links]] = -1
    load = _loads(rows, links, capacity.shape[0])
    allowed = np.append(np.minimum(1.0, capacity / np.maximum(load, 1.0)), 1.0)  # the last is for the padding
    factors: Floats = allowed[links].min(axis=1)
    return factors


def _loads(rows: _Rows, links: Ints, count: int) -> Floats:
    """Return the load of each link: each job counts with its heaviest phase there, as its phases never overlap."""
    row, column = np.nonzero(links >= 0)
    link = links[row, column]
    phases = int(rows.phase.max()) + 1
    layers, layer = np.unique((rows.job[row] * count + link) * phases + rows.phase[row], return_inverse=True)
    of_layer = np.bincount(layer, rows.rate_bps[row], minlength=len(layers))
    places, place = np.unique(layers // phases, return_inverse=True)
    heaviest = np.zeros(len(places))
    np.maximum.at(heaviest, place, of_layer)
    return np.bincount(places % count, heaviest, minlength=count).astype(np.float64)
