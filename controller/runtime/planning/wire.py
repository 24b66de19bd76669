"""The messages between the controller and a planner's process: only what differs from the last request or reply."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import MoveLimit
from heddle.controller.model.placement import Shape
from heddle.controller.model.plan import Certificate, JobFlows, Moved, Speeds, Stream
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import expand, with_demands
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.path_sets import PathSets, job_loads
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.placed import Placed, paths_of
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.planner.ports.reverse import reverse_only_links


class PathColumns(NamedTuple):
    """The paths of a job's flows, a row each."""

    hops: Ints
    ports: Ints
    reverse_hops: Ints
    reverse_ports: Ints


class JobColumns(NamedTuple):
    """The flows of one job; `paths` and `rates` are None where the receiver has them already."""

    job_id: str
    paths: PathColumns | None
    rates: Ints | None
    turns: Turns | None
    guards: tuple[Stream, ...]
    own_max_link_utilisation: float
    predicted_completion_ns: int
    notes: tuple[str, ...]
    conserving: Flags | None = None
    demands: Ints | None = None
    """The demands, on a fabric of several planes: they depend on what had failed when flows were split among these."""
    sets: PathSets | None = None


class Jobs(NamedTuple):
    """The running jobs of a request: their ids in order, and those that the planner does not have as they are now."""

    order: tuple[str, ...]
    changed: tuple[tuple[JobRequest, JobColumns], ...]


class AmendMessage(NamedTuple):
    """A plan to amend; `model.plan.Amend` has the meaning of the fields."""

    jobs: tuple[JobColumns, ...]
    avoid: Mapping[str, frozenset[tuple[str, ...]]]
    reached: Mapping[str, frozenset[str]]
    stay: frozenset[str]


class SolveMessage(NamedTuple):
    """A request to plan; `effect.Solve` has the meaning of the fields."""

    jobs: Jobs
    requests: tuple[JobRequest, ...]
    health: Health
    limit: MoveLimit
    subject: str
    background: Mapping[str, int]
    has_happened: bool
    degraded: Mapping[str, int]
    amend: AmendMessage | None = None
    preview: bool = False
    converge: bool = False


class PlaceMessage(NamedTuple):
    """A request for places; `effect.Place` has the meaning of the fields."""

    jobs: Jobs
    shape: Shape
    health: Health
    degraded: Mapping[str, int]


class ReplanMessage(NamedTuple):
    """A plan: the jobs that differ from those of the request, and the new ones."""

    order: tuple[str, ...]
    changed: tuple[JobColumns, ...]
    certificate: Certificate
    moved: Mapping[str, Moved]
    stranded: Mapping[str, tuple[str, ...]]
    speeds: Speeds | None = None


class Begin(NamedTuple):
    """The first message: the fabric that all requests are about."""

    fabric: Fabric


def columns_of(topology: Topology, placed: Placed, known: JobFlows | None) -> JobColumns:
    """Return what the receiver lacks of a job of which it has `known`."""
    request, job = placed
    table = job.flows
    same = known is not None and known.flows is table
    if known is not None and isinstance(table, FlowTable) and isinstance(known.flows, FlowTable):
        same_paths = same or (table.hops is known.flows.hops and table.sets is known.flows.sets)
    else:
        same_paths = same
    rates, turns = (table.rates, table.turns) if isinstance(table, FlowTable) else _rates_of(job)
    return JobColumns(
        job_id=request.job_id,
        paths=None if same_paths else _paths_of(topology, placed),
        rates=None if same else rates,
        turns=None if same else turns,
        guards=job.guards,
        own_max_link_utilisation=job.own_max_link_utilisation,
        predicted_completion_ns=job.predicted_completion_ns,
        notes=job.notes,
        conserving=table.conserving if isinstance(table, FlowTable) and not same else None,
        demands=None if same or topology.ports_of_rank is None else _demands_of(job),
        sets=table.sets if isinstance(table, FlowTable) and not same_paths else None,
    )


def _demands_of(job: JobFlows) -> Ints:
    table = job.flows
    if isinstance(table, FlowTable):
        return table.flows.demand_bps
    return np.array([flow.demand_bps for flow in table], dtype=np.int64)


def _paths_of(topology: Topology, placed: Placed) -> PathColumns:
    """Return a job's paths; those of a `FlowTable` are columns already."""
    table = placed[1].flows
    own = isinstance(table, FlowTable) and table.topology is topology and table.request is placed[0]
    paths = table if isinstance(table, FlowTable) and own else paths_of(topology, 0, placed)
    return PathColumns(paths.hops, paths.ports, paths.reverse_hops, paths.reverse_ports)


def _rates_of(job: JobFlows) -> tuple[Ints, Turns | None]:
    """Return the rates and turns of flow plans that are no table."""
    windows = [flow.window for flow in job.flows]
    rates = np.array([flow.rate_bps for flow in job.flows], dtype=np.int64)
    if not any(window.slots for window in windows):
        return rates, None
    slot, slots, slot_ns = (
        np.array([getattr(window, name) for window in windows], dtype=np.int64) for name in ("slot", "slots", "slot_ns")
    )
    return rates, Turns(slot=slot, slots=slots, slot_ns=slot_ns)


class OtherPartsError(ValueError):
    """A fabric divides the flows of a job into another number of queue pairs than the job was planned with."""


def job_of(topology: Topology, request: JobRequest, columns: JobColumns, known: JobFlows | None) -> JobFlows:
    """Build a job's flows from its columns and, where those lack paths or rates, from what is known.

    Raises OtherPartsError.
    """
    table = known.flows if known is not None else None
    if columns.paths is None and not _splits_anew(table, columns):
        assert known is not None
        assert isinstance(table, FlowTable)
        rated = table if columns.rates is None else table.with_rates(columns.rates, columns.turns, columns.conserving)
        base = known
    else:
        assert columns.rates is not None
        flows = table.flows if isinstance(table, FlowTable) else expand(topology, (request,))
        if len(flows) != len(columns.rates):
            raise OtherPartsError(f"job {request.job_id} has {len(flows)} flows, and {len(columns.rates)} rates")
        flows = flows if columns.demands is None else with_demands(flows, columns.demands)
        if columns.paths is not None:
            paths, sets = Paths(flows=flows, **columns.paths._asdict()), columns.sets
        else:
            assert isinstance(table, FlowTable)
            paths, sets = replace(table.paths, flows=flows), table.sets
        rated = FlowTable(topology, request, paths, columns.rates, columns.turns, columns.conserving, sets)
        base = JobFlows(
            job_id=request.job_id,
            flows=rated,
            link_loads_bps=job_loads(topology, flows, paths.hops, sets),
            pinned=bool(flows.pinned.any()),
            reverse_links=reverse_only_links(topology, paths.hops, paths.reverse_hops),
        )
        len(base.link_loads_bps)  # computed here instead of in the control loop
    return replace(
        base,
        flows=rated,
        guards=columns.guards,
        own_max_link_utilisation=columns.own_max_link_utilisation,
        predicted_completion_ns=columns.predicted_completion_ns,
        notes=columns.notes,
    )


def _splits_anew(table: object, columns: JobColumns) -> bool:
    """Return whether flows are split among planes in another way than in the table that is known."""
    if columns.demands is None:
        return False
    return not (isinstance(table, FlowTable) and np.array_equal(table.flows.demand_bps, columns.demands))
