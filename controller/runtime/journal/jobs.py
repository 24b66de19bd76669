"""Encode a job with its flows: a JSON head, and the columns of its paths, ports and rates.

    +--------------+------+------------------------------------------------------+
    | bytes u32 BE | head | columns, each in the narrowest integers that hold it |
    +--------------+------+------------------------------------------------------+

Links are numbers of the fabric's cables, so the journal also keeps the cables' names: a fabric file whose order or
size has changed since gets the same paths.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

import numpy as np

from heddle.controller.brain.state import Job
from heddle.controller.model.error import InputError
from heddle.controller.model.job import JobRequest
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import Effort, JobFlows, Stream
from heddle.controller.planner.ground.clos import NO_LINK, Topology
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.path_sets import PathSets
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.runtime.journal import values
from heddle.controller.runtime.planning.wire import JobColumns, OtherPartsError, PathColumns, columns_of, job_of

_LENGTH = struct.Struct(">I")
_NARROW = (np.int8, np.int16, np.int32, np.int64)
_PATHS, _TURNS = PathColumns._fields, ("slot", "slots", "slot_ns")
_CONSERVING, _DEMANDS = "conserving", "demands"
_SETS = ("lists", "begin", "length")
_HOPS = ("hops", "reverse_hops")
_RAILS = "rails or an NVLink domain"


class ForeignFabricError(ValueError):
    """A job uses parts that the fabric file does not have any more."""


class _Column(NamedTuple):
    name: str
    type: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What is written of a job beside its columns."""

    request: JobRequest
    number: int
    generation: int
    state: JobState
    reason: str
    lease_ms: int
    effort: Effort
    stranded: int
    healthy_utilisation: float | None
    guards: tuple[Stream, ...]
    own_max_link_utilisation: float
    predicted_completion_ns: int
    notes: tuple[str, ...]
    columns: tuple[_Column, ...]
    ends: int = 0


def encode(topology: Topology, job: Job) -> bytes:
    """Return a job as bytes."""
    found = columns_of(topology, (job.request, job.flows), None)
    assert found.paths is not None
    assert found.rates is not None
    arrays = {**found.paths._asdict(), "rates": found.rates}
    if found.turns is not None:
        arrays |= {name: getattr(found.turns, name) for name in _TURNS}
    if found.conserving is not None:
        arrays[_CONSERVING] = found.conserving.astype(np.int64)
    if found.demands is not None:
        arrays[_DEMANDS] = found.demands
    if found.sets is not None:
        arrays |= {name: getattr(found.sets, name) for name in _SETS}
    narrow = {name: _narrowed(array) for name, array in arrays.items()}
    head = values.encode(
        _Head(
            request=job.request, number=job.number, generation=job.generation, state=job.state, reason=job.reason,
            lease_ms=job.lease_ms, effort=job.effort, stranded=job.stranded, guards=found.guards,
            healthy_utilisation=job.healthy_utilisation, own_max_link_utilisation=found.own_max_link_utilisation,
            predicted_completion_ns=found.predicted_completion_ns, notes=found.notes,
            columns=tuple(_Column(name, array.dtype.str, array.shape) for name, array in narrow.items()),
            ends=_ends(job.request, job.flows),
        )
    )  # fmt: skip
    return b"".join((_LENGTH.pack(len(head)), head, *(array.tobytes() for array in narrow.values())))


def decode(topology: Topology, content: bytes, renumbered: Ints | None) -> Job:
    """Return a job; `renumbered` has the link of the fabric for each link then, None where all are the same.

    Raises ValueError where the bytes are no job, and ForeignFabricError.
    """
    (length,) = _LENGTH.unpack_from(content)
    start = _LENGTH.size + length
    head: _Head = values.decode(_Head, content[_LENGTH.size : start])
    arrays = _arrays(head.columns, memoryview(content)[start:])
    request = head.request
    known = topology.nic_index if topology.ports_of_rank is None else topology.ports_of_rank
    absent = next((nic for nic in request.ranks if nic not in known), None)
    if absent is not None:
        raise ForeignFabricError(f"job {request.job_id} runs on NIC {absent}")
    for name in _HOPS:
        arrays[name] = _links_now(arrays[name], renumbered, request.job_id)
    columns = JobColumns(
        job_id=request.job_id,
        paths=PathColumns(*(arrays[name] for name in _PATHS)),
        rates=arrays["rates"],
        turns=Turns(**{name: arrays[name] for name in _TURNS}) if _TURNS[0] in arrays else None,
        guards=head.guards,
        own_max_link_utilisation=head.own_max_link_utilisation,
        predicted_completion_ns=head.predicted_completion_ns,
        notes=head.notes,
        conserving=arrays[_CONSERVING].astype(np.bool_) if _CONSERVING in arrays else None,
        demands=arrays.get(_DEMANDS),
        sets=PathSets(**{name: arrays[name] for name in _SETS}) if _SETS[0] in arrays else None,
    )
    try:
        flows = job_of(topology, request, columns, None)
    except InputError:
        raise ForeignFabricError(f"job {request.job_id} has flows by {_RAILS}") from None
    except OtherPartsError:
        if columns.demands is None and topology.ports_of_rank is None:
            raise
        raise ForeignFabricError(f"job {request.job_id} has flows split among a number of planes") from None
    if _ends(request, flows) != head.ends:
        raise ForeignFabricError(f"job {request.job_id} has flows by {_RAILS}")
    return Job(
        request=request, number=head.number, generation=head.generation, state=head.state, reason=head.reason,
        lease_expires_unix_ms=0, lease_ms=head.lease_ms, effort=head.effort, stranded=head.stranded,
        healthy_utilisation=head.healthy_utilisation, flows=flows,
    )  # fmt: skip


def _ends(request: JobRequest, flows: JobFlows) -> int:
    """Return a checksum of the ranks of all flows where they depend on rails and domains, else 0."""
    if not any(one.on_rails for one in request.collectives):
        return 0
    assert isinstance(flows.flows, FlowTable)
    table = flows.flows.flows
    return crc32(np.stack((table.src_rank, table.dst_rank)).tobytes())


def renumbering(topology: Topology, then: Sequence[str]) -> Ints | None:
    """Return by number of a directed link then its number now, NO_LINK where the fabric lacks it; None: all the same.

    The last entry is that of NO_LINK itself, which pads paths.
    """
    if list(then) == topology.cable_ids:
        return None
    count, number_of = len(then), topology.cable_index
    found: Ints = np.full(2 * count + 1, NO_LINK, dtype=np.int64)
    for number, cable in enumerate(then):
        if cable in number_of:
            found[number], found[count + number] = number_of[cable], topology.cables + number_of[cable]
    return found


def _links_now(hops: Ints, renumbered: Ints | None, job_id: str) -> Ints:
    if renumbered is None:
        return hops
    moved: Ints = renumbered[hops]
    if np.any((moved == NO_LINK) != (hops == NO_LINK)):
        raise ForeignFabricError(f"job {job_id} has paths over a cable")
    return moved


def _narrowed(array: Ints) -> "np.ndarray[tuple[int, ...], np.dtype[np.signedinteger]]":
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for kind in _NARROW:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return np.ascontiguousarray(array, dtype=np.dtype(kind).newbyteorder("<"))
    raise ValueError("an array of no integers")


def _arrays(columns: Sequence[_Column], content: memoryview) -> dict[str, Ints]:
    found: dict[str, Ints] = {}
    start = 0
    for column in columns:
        kind = np.dtype(column.type)
        if kind.kind != "i":
            raise ValueError(f"column {column.name} holds no integers")
        count = int(np.prod(column.shape, dtype=np.int64))
        part = np.frombuffer(content, dtype=kind, count=count, offset=start)
        found[column.name] = part.astype(np.int64).reshape(column.shape)
        start += part.nbytes
    return found
