"""Read job and placement requests from their bytes, with every check that needs no state but the fabric.

Both functions run in a worker thread for all but small requests; they raise InputError.
"""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from heddle.controller.api.counts import refuse_large
from heddle.controller.api.translate import request_from, shape_from
from heddle.controller.model.admission import Problem, phase_problems, pin_problems, problems
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.placement import Shape, placement_problems
from heddle.v1 import heddle_pb2 as pb

Kind = TypeVar("Kind", bound=Message)


def read_job(data: bytes, fabric: Fabric) -> JobRequest:
    """Return the admissible request in these bytes of a SubmitJobRequest."""
    request = request_from(_parsed(pb.SubmitJobRequest, data))
    _refuse(problems(request, fabric))
    _refuse(phase_problems(request.collectives) + pin_problems(request, fabric))
    return request


def read_shape(data: bytes) -> Shape:
    """Return the admissible placement request in these bytes of a SuggestPlacementRequest."""
    shape = shape_from(_parsed(pb.SuggestPlacementRequest, data))
    _refuse(placement_problems(shape) or phase_problems(shape.collectives))
    return shape


def _parsed(kind: type[Kind], data: bytes) -> Kind:
    refuse_large(data, kind)
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InputError(f"these {len(data):,} bytes are no {kind.DESCRIPTOR.name}") from None


def _refuse(found: tuple[Problem, ...]) -> None:
    if found:
        raise InputError(*(f"{problem.path}: {problem.text}" for problem in found))
