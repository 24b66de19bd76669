"""Foresee what a start with another fabric file would do to the jobs that run now, by the functions of that start.

Nothing is changed: the journal that such a start would read is made of the state, in memory. All of it is a function
of `Running`, which crosses to another process: on 64 x 128 switches it takes a second or two.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from heddle.controller.brain.state import Job, State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.fabric_change import FabricChange, changes_between
from heddle.controller.model.health import Health
from heddle.controller.model.job_state import JobState
from heddle.controller.model.srv6 import with_other_sids
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ports.reading import PortReader, reader_of
from heddle.controller.runtime.journal import fitting, jobs, restart, values
from heddle.controller.views.rule_changes import RuleChange, rule_changes

PLACE = "the state of this controller"


class Fate(Enum):
    """What happens to a job; the worst of what applies."""

    NOTHING = 0
    SLOWER = 1
    """Links of its paths have a lower rate: rates and certificate follow."""
    NEW_PORTS = 2
    """Ports of some flows would lead over other cables: such a file is refused while the job runs."""
    CUT_OFF = 3
    """It uses a NIC or a cable that is gone: such a file is refused while the job runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFate:
    """What happens to one job: `flows` of its flows are concerned, 0 where that is not counted; `text` says why."""

    job_id: str
    fate: Fate
    flows: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What a start with another file would do; `refusal` is the line with which it would end, "" where it would run.

    `static_sids` are the switches that are to hold other static SIDs, () for all, None for none.
    """

    refusal: str
    change: FabricChange
    jobs: tuple[JobFate, ...]
    rules: tuple[RuleChange, ...]
    static_sids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What another fabric is compared with: that in force, and what of the state needs its parts.

    `jobs` are as a journal has them. `out_of_use` is what no flow crosses now, and wrong cables: those are not there.
    """

    fabric: Fabric
    jobs: Mapping[str, bytes]
    drained: frozenset[str] = frozenset()
    out_of_use: Health = field(default_factory=Health)
    down_ports: frozenset[PortRef] = frozenset()


def running_of(state: State) -> Running:
    """Return what of a state another fabric is compared with."""
    topology = topology_of(state.fabric)
    return running_with(state, {name: jobs.encode(topology, job) for name, job in lasting_jobs(state).items()})


def running_with(state: State, encoded: Mapping[str, bytes]) -> Running:
    """Return what of a state another fabric is compared with, whose jobs are encoded already."""
    return Running(
        fabric=state.fabric,
        jobs=encoded,
        drained=frozenset(state.drained),
        out_of_use=state.out_of_use.union(Health(down_cables=state.cabling.verdict.wrong)),
        down_ports=frozenset(state.down_ports),
    )


def lasting_jobs(state: State) -> dict[str, Job]:
    """Return the jobs that a journal has."""
    return {name: job for name, job in state.jobs.items() if job.state is not JobState.PLANNED}


def why_unfit(running: Running, fabric: Fabric, gone: Collection[fitting.Key] = ()) -> str:
    """Return the line with which a start with another fabric file would end, "" where it would run."""
    stored = {key: content for key, content in _stored(running).items() if key not in gone}
    return restart.why_unfit(fitting.with_kept_layout(fabric, stored), stored, PLACE)


def foreseen(running: Running, fabric: Fabric, gone: Collection[fitting.Key] = ()) -> Foresight:
    """Return what a start with another fabric file would do to running jobs and to the rules of switches.

    Values under the keys in `gone` would not be in the journal any more.
    """
    before = running.fabric
    change = changes_between(before, fabric)
    stored = {key: content for key, content in _stored(running).items() if key not in gone}
    fabric = fitting.with_kept_layout(fabric, stored)
    topology = topology_of(fabric)
    renumbered = jobs.renumbering(topology, topology_of(before).cable_ids)
    reader = reader_of(fabric, topology, layout_of(fabric))
    slower = _slower_links(change, before)
    fates = []
    for name, content in running.jobs.items():
        try:
            job = jobs.decode(topology, content, renumbered)
        except jobs.ForeignFabricError as why:
            fates.append(JobFate(job_id=name, fate=Fate.CUT_OFF, text=f"{why} that is gone"))
        else:
            fates.append(_fate_of(fabric, reader, job, slower))
    return Foresight(
        refusal=restart.why_unfit(fabric, stored, PLACE),
        change=change,
        jobs=tuple(fates),
        rules=rule_changes(before, fabric) if before.steered_by is fabric.steered_by else (),
        static_sids=with_other_sids(before, fabric),
    )


def _stored(running: Running) -> dict[fitting.Key, bytes]:
    """Return what the journal of a controller has of its fabric, jobs and drains."""
    stored = {key: content for key, content in fitting.described(running.fabric).items() if content is not None}
    stored |= {("job", name): content for name, content in running.jobs.items()}
    return stored | {("drain", name): values.encode(name) for name in running.drained}


def _slower_links(change: FabricChange, fabric: Fabric) -> Mapping[str, str]:
    """Return the name of the slower cable or NIC of each directed link that gets a lower rate."""
    found: dict[str, str] = {}
    for each in change.slower:
        part = fabric.cable_by_link.get(each.id) or fabric.nic_by_id[each.id]
        found |= {part.up_link: each.id, part.down_link: each.id}
    return found


def _fate_of(fabric: Fabric, reader: PortReader, job: Job, slower: Mapping[str, str]) -> JobFate:
    job_id = job.request.job_id
    strayed = int(steering_of(fabric).strayed(reader, job).sum())
    if strayed:
        text = f"{strayed} of {len(job.flows.flows)} flows would need other source ports"
        return JobFate(job_id=job_id, fate=Fate.NEW_PORTS, flows=strayed, text=text)
    parts = sorted({slower[link] for link in job.flows.link_loads_bps if link in slower})
    if parts:
        text = f"crosses {len(parts)} slower cable{'s' * (len(parts) > 1)}, such as {parts[0]}"
        return JobFate(job_id=job_id, fate=Fate.SLOWER, text=text)
    return JobFate(job_id=job_id, fate=Fate.NOTHING)
