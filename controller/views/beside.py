"""Compare a kept plan with the plan that other jobs and failures make of it; pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.health import Health
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.loads import utilisation
from heddle.controller.planner.ground.placed import Placed, misplaced, paths_of
from heddle.controller.planner.ports.reading import reader_of, strayed
from heddle.controller.planner.proof.certificate import own_utilisation, share_summary
from heddle.controller.planner.proof.fluid import fair_shares
from heddle.controller.planner.solve import Draft, draft


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """The figures of one job in a plan, as the certificate has them for all jobs."""

    own_max_link_utilisation: float
    flows_slowed: int
    mean_share: float
    worst_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """What a plan changes for a kept job; `moved` are the ids of its severed flows, which were planned again."""

    job_id: str
    flows: int
    moved: tuple[str, ...]
    before: JobFigures
    after: JobFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a plan changes for all kept jobs; `lost` is how many of their flows each failure severs."""

    lost: dict[str, int]
    jobs: tuple[JobChange, ...]

    def as_json(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)


def kept_problem(fabric: Fabric, kept: Sequence[Placed]) -> str | None:
    """Return the place and cause of the first flow that does not fit its request or the fabric; None if all do."""
    for index, (request, flows) in enumerate(kept):
        wrong = misplaced(topology_of(fabric), request, flows.flows)
        if wrong is not None:
            return f"jobs[{index}].flows[{wrong.flow}].{wrong.field}: {wrong.why}"
    return _stray(fabric, kept) if fabric.steered_by is SteeredBy.OPENFLOW else None


def _stray(fabric: Fabric, kept: Sequence[Placed]) -> str | None:
    """Return the first flow whose ports lead elsewhere, as those of a plan made for another port layout do."""
    reader = reader_of(fabric, topology_of(fabric), layout_of(fabric))
    for index, placed in enumerate(kept):
        paths = paths_of(reader.topology, 0, placed)
        found = strayed(reader, paths, by_port=True, stranded=len(paths.ports))
        if found.any():
            return f"jobs[{index}].flows[{int(found.argmax())}]: its source ports lead elsewhere than its links"
    return None


def changes(fabric: Fabric, kept: Sequence[Placed], failures: dict[str, Health], after: Draft) -> Changes:
    """Compare the kept jobs alone, as they were planned, with the draft of all jobs; `failures` are named."""
    before = draft(fabric, (), health=Health(), kept=kept)
    assert isinstance(before, Draft), "paths that exist are kept without conditions"
    topology = topology_of(fabric)
    lost = {name: int((~before.whole.alive(Live.of(topology, failure))).sum()) for name, failure in failures.items()}
    old, new = _figures(before, len(kept)), _figures(after, len(kept))
    moved = after.moved if after.moved is not None else np.zeros(len(after.whole.flows), dtype=np.bool_)
    found = []
    for number, (request, flows) in enumerate(kept):
        rows = np.flatnonzero(moved[after.whole.flows.job == number]).tolist()
        ids = tuple(flows.flows[row].flow_id for row in rows)
        found.append(
            JobChange(job_id=request.job_id, flows=len(flows.flows), moved=ids, before=old[number], after=new[number])
        )
    return Changes(lost=lost, jobs=tuple(found))


def _figures(drafted: Draft, jobs: int) -> list[JobFigures]:
    """Return the figures of the first jobs of a draft."""
    topology, whole = drafted.router.topology, drafted.whole
    used = utilisation(topology, drafted.loads)
    shares = fair_shares(topology, whole.flows, whole.hops, drafted.loads, drafted.rates)
    found = []
    for number in range(jobs):
        mine = whole.flows.job == number
        own, _ = own_utilisation(topology, whole.hops[mine], used)
        found.append(JobFigures(own_max_link_utilisation=own, **share_summary(shares[mine])._asdict()))
    return found
