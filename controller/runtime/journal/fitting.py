"""Decide whether a fabric file fits the jobs of a journal: a controller continues with a file that does, alone.

A job keeps its paths and source ports. It needs the cables of its paths, and ports that lead over them. What a port
means is therefore kept in the journal while jobs run: their layout (`model.port_layout`), and so that a refusal can say
what has changed, a description (`model.port_meaning`). A journal of before layouts were kept continues with the layout
that its fabric implied then.
"""

import zlib
from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain.state import Job
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import DEFAULT_STEERING, Fabric, SteeredBy
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.port_meaning import VERSION, PortMeaning, differences, layout_before, meaning_of, too_many
from heddle.controller.model.steering import former_layout, layout_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.jit import Flags
from heddle.controller.planner.ports.reading import reader_of
from heddle.controller.runtime.journal import values

Key = tuple[str, str]
CABLES: Key = ("fabric", "cables")
"""The key of the cables' names, in the order by which jobs' paths number them."""
STEERING: Key = ("fabric", "steering")
"""The key of how jobs are steered; absent where it is OpenFlow, as in journals of before there was another."""
PORTS: Key = ("fabric", "ports")
"""The key of what the ports of jobs mean; absent in journals of before it was kept."""
LAYOUT: Key = ("fabric", "layout")
"""The key of the layout of the ports of jobs; absent where switches hash, and in journals of before it was kept."""
WHOLE: Key = ("fabric", "whole")
"""The key of the fabric in force; absent in journals of before it was kept. No other key says with which fabric a
controller continues."""
OF_FABRIC = (CABLES, STEERING, PORTS, LAYOUT, WHOLE)
MAX_NAMED = 3
"""The jobs that a refusal names."""


class UnfitFabricError(InputError):
    """The fabric file lacks, or would change, what the jobs of a journal rely on; one of several controllers waits."""


def described(fabric: Fabric) -> dict[Key, bytes | None]:
    """Return what a journal keeps of a fabric."""
    steering = fabric.steered_by.value.encode() if fabric.steered_by is not DEFAULT_STEERING else None
    cables = values.encode(topology_of(fabric).cable_ids)
    layout = values.encode(layout_of(fabric)) if fabric.steered_by is SteeredBy.OPENFLOW else None
    return {
        CABLES: cables,
        STEERING: steering,
        PORTS: values.encode(meaning_of(fabric)),
        LAYOUT: layout,
        WHOLE: encoded(fabric),
    }


def is_of(fabric: Fabric, stored: Mapping[Key, bytes]) -> bool:
    """Return whether a journal was written with the same fabric: then every port leads where it did.

    Raises ValueError where its description is damaged or of a newer version.
    """
    then = kept_meaning(stored)
    return then is not None and (then.fabric, then.steering) == (fabric.digest, fabric.steered_by)


def with_kept_layout(fabric: Fabric, stored: Mapping[Key, bytes]) -> Fabric:
    """Return the fabric with the port layout of a journal, unchanged where that has no jobs, or no room for the fabric.

    A journal of before layouts were kept has one by which ports mean what its fabric implied. Raises ValueError for a
    damaged journal.
    """
    if fabric.steered_by is not SteeredBy.OPENFLOW or all(kind != "job" for kind, _ in stored):
        return fabric
    content, then = stored.get(LAYOUT), kept_meaning(stored)
    if content is not None:
        layout: SteeringLayout = values.decode(SteeringLayout, content)
    else:
        layout = layout_before(then or meaning_of(replace(fabric, port_layout=former_layout(fabric))))
    if layout == layout_of(fabric) or too_many(fabric, layout):
        return fabric
    return replace(fabric, port_layout=layout)


def encoded(fabric: Fabric) -> bytes:
    """Return a whole fabric as bytes, without the layout of its ports, which has a key of its own.

    64 x 128 switches with 8,192 hosts take 150 KB.
    """
    return zlib.compress(values.encode(as_in_file(fabric)), 1)


def as_in_file(fabric: Fabric) -> Fabric:
    """Return a fabric as its file describes it."""
    return replace(fabric, port_layout=None) if fabric.port_layout is not None else fabric


def in_force(stored: Mapping[Key, bytes]) -> Fabric | None:
    """Return the fabric that a journal was written for, None where it does not say; raises ValueError."""
    content = stored.get(WHOLE)
    if content is None:
        return None
    try:
        found: Fabric = values.decode(Fabric, zlib.decompress(content))
    except zlib.error as wrong:
        raise ValueError(f"the fabric in force: {wrong}") from None
    return found


def check_jobs(file: str, stored: Mapping[Key, bytes]) -> None:
    """Raise UnfitFabricError where jobs run on the fabric in force, which a fabric file differs from."""
    names = sorted(name for kind, name in stored if kind == "job")
    if names:
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        raise UnfitFabricError(
            f"{file}: is not the fabric in force, on which {', '.join(names[:MAX_NAMED])}{more} run: `heddle run` "
            f"without FABRIC continues with that, then `heddle fabric apply {file}` changes it"
        )


def check_drains(fabric: Fabric, place: str, drained: Mapping[str, object]) -> None:
    """Raise UnfitFabricError where the fabric lacks what is drained."""
    known = fabric.switch_by_id.keys() | fabric.cable_by_link.keys() | fabric.nic_by_id.keys()
    for name in drained:
        if name not in known:
            raise foreign(fabric, place, f"{name} is drained")


def check_steering(fabric: Fabric, place: str, stored: Mapping[Key, bytes]) -> None:
    """Raise UnfitFabricError where ports were found for the other kind of switches: they name other paths here."""
    jobs_then = [name for kind, name in stored if kind == "job"]
    before = stored.get(STEERING, DEFAULT_STEERING.value.encode()).decode()
    if jobs_then and before != fabric.steered_by.value:
        raise UnfitFabricError(
            f"{place}: job {min(jobs_then)} was planned with `steering: {before}`, and the fabric file has "
            f"`{fabric.steered_by.value}`: release its jobs with the former, or name another directory by --state"
        )


def check_ports(fabric: Fabric, place: str, stored: Mapping[Key, bytes], jobs: Mapping[str, Job]) -> None:
    """Raise UnfitFabricError where flows of jobs would leave their planned paths; jobs, changes and remedy are named.

    Raises ValueError where the description is damaged or of a newer version.
    """
    then = kept_meaning(stored)
    steering, reader = steering_of(fabric), reader_of(fabric, topology_of(fabric), layout_of(fabric))
    found = {name: rows for name, job in jobs.items() if (rows := steering.strayed(reader, job)).any()}
    if not found:
        return
    name, rows = next(iter(found.items()))
    flow = jobs[name].flows.flows[int(rows.argmax())]
    moved = _nic_elsewhere(fabric, flow)
    kept = stored.get(LAYOUT)
    changes = too_many(fabric, values.decode(SteeringLayout, kept)) if kept is not None and not moved else ()
    if not changes and then is not None and not moved:
        changes = differences(then, meaning_of(fabric))
    changes = changes or (moved or _other_port(flow),)
    count = len(changes) - 1
    more = f" (and {count} more change{'s' * (count > 1)})" if count else ""
    raise UnfitFabricError(
        f"{place}: with this fabric file {_counted(found)} would leave planned paths, because {changes[0]}{more}: "
        f"keep the former file, or end {'these jobs' if len(found) > 1 else 'this job'} under it first "
        f"(`heddle job release {name}`)"
    )


def _counted(found: Mapping[str, Flags]) -> str:
    """Return how many jobs there are, the first of them with the number of their flows that stray."""
    texts = [f"{name} ({int(rows.sum())} of {len(rows)} flows)" for name, rows in found.items()]
    more = f" and {len(texts) - MAX_NAMED} more" if len(texts) > MAX_NAMED else ""
    return f"{len(texts)} running job{'s' * (len(texts) > 1)}, {', '.join(texts[:MAX_NAMED])}{more},"


def kept_meaning(stored: Mapping[Key, bytes]) -> PortMeaning | None:
    """Return what ports meant by a journal, None where it does not say; raises ValueError."""
    content = stored.get(PORTS)
    if content is None:
        return None
    found: PortMeaning = values.decode(PortMeaning, content)
    if found.version != VERSION:
        raise ValueError(f"what ports mean is described in version {found.version}, and {VERSION} is known")
    return found


def foreign(fabric: Fabric, place: str, what: str) -> UnfitFabricError:
    """Return the error for something that a fabric does not have."""
    return UnfitFabricError(
        f"{place}: {what}, which fabric {fabric.name} does not have: keep it in the fabric file until no job "
        "needs it, or name another directory by --state"
    )


def _nic_elsewhere(fabric: Fabric, flow: FlowPlan) -> str:
    """Return which NIC of a flow is on another leaf than its path was planned at; "" where both are there."""
    leaves = [fabric.nic_by_id[nic].port.switch for nic in (flow.src_nic, flow.dst_nic)]
    if len(flow.links) == 2:
        apart = f"{flow.src_nic} and {flow.dst_nic} are on {' and '.join(leaves)}"
        return f"{apart}, and flow {flow.flow_id} was planned within one leaf"
    first, last = fabric.cable_by_link[flow.links[1]], fabric.cable_by_link[flow.links[-2]]
    ends = (first.lower.switch, last.lower.switch)
    for nic, leaf, end in zip((flow.src_nic, flow.dst_nic), leaves, ends, strict=True):
        if leaf != end:
            return f"NIC {nic} is on {leaf}, and the path of flow {flow.flow_id} is planned at {end}"
    return ""


def _other_port(flow: FlowPlan) -> str:
    ports = f"ports {flow.udp_source_port} and {flow.reverse_udp_source_port} (ACKs)"
    return f"{ports} of flow {flow.flow_id} no longer select {' '.join(flow.links[1:-1])} and the reverse path"
