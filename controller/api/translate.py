"""Translate job, plan and placement messages to model values and back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import NamedTuple

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.error import InputError
from heddle.controller.model.job import (
    Algorithm,
    Collective,
    CollectiveKind,
    Incast,
    JobRequest,
    Steering,
)
from heddle.controller.model.job_fields import collective_fields, read_collective, read_request
from heddle.controller.model.moves import Cause, MoveLimit, Whose
from heddle.controller.model.observed import Stream
from heddle.controller.model.placement import Placement, Shape
from heddle.controller.model.plan import (
    AdmissionWindow,
    Certificate,
    FlowPlan,
    JobPlan,
    PathTemplates,
    conserving_count,
    path_templates,
)
from heddle.controller.model.srv6 import Sids
from heddle.v1 import heddle_pb2 as pb

FLOWS_PER_PAGE = 1_000
Explicit = Callable[[FlowPlan], pb.PathSet | None]
"""Writes the path set of a sprayed flow; None where it follows from a template of its job."""
Rates = Mapping[Stream, float]
"""The measured rates of a job's flows in bit/s."""
NO_RATES: Rates = MappingProxyType({})
_KINDS = {kind.value: kind for kind in CollectiveKind}
_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}


class Room(NamedTuple):
    """The maximum content of one message."""

    flows: int
    size_bytes: int


A_MESSAGE = Room(flows=10_000, size_bytes=(4 << 20) - (64 << 10))
"""The contract's maximum of flows, and the default message limit of gRPC clients (4 MiB), less a margin."""


def request_from(message: pb.SubmitJobRequest) -> JobRequest:
    """Read a job request; raises InputError where an enum has no meaning. All else is checked at admission."""
    steering = message.steering or Steering.SOURCE_PORT
    if steering not in Steering._value2member_map_:
        raise InputError(f"steering: {steering} is no steering; use SOURCE_PORT (1) or PIN (2)")
    if message.incast not in Incast._value2member_map_:
        raise InputError(f"incast: {message.incast} is no kind of sharing; use INCAST_RATES (1) or INCAST_WINDOWS (2)")
    return read_request(
        message,
        ranks=message.ranks,
        collectives=(_collective_from(i, c) for i, c in enumerate(message.collectives)),
        steering=Steering(steering),
        incast=Incast(message.incast),
        move_limits=(_move_limit_from(i, limit) for i, limit in enumerate(message.move_limits)),
    )


def _move_limit_from(index: int, message: pb.MoveLimit) -> tuple[Cause, MoveLimit]:
    for field, known in (("cause", Cause), ("whose", Whose)):
        if (value := getattr(message, field)) not in known._value2member_map_:
            names = ", ".join(member.name for member in known)
            raise InputError(f"move_limits[{index}].{field}: {value} has no meaning; use one of {names}")
    return Cause(message.cause), MoveLimit(whose=Whose(message.whose), max_flows=message.max_flows)


def _collective_from(index: int, message: pb.Collective) -> Collective:
    if (kind := _KINDS.get(message.kind)) is None:
        kinds = ", ".join(kind.name for kind in CollectiveKind)
        raise InputError(f"collectives[{index}].kind: {message.kind} is no kind of collective; use one of {kinds}")
    if (algorithm := _ALGORITHMS.get(message.algorithm)) is None:
        names = ", ".join(each.name for each in Algorithm)
        raise InputError(f"collectives[{index}].algorithm: {message.algorithm} is no algorithm; use one of {names}")
    return read_collective(message, kind=kind, size_bytes=message.bytes, algorithm=algorithm)


def request_to(request: JobRequest) -> pb.SubmitJobRequest:
    """Write a job request."""
    return pb.SubmitJobRequest(
        job_id=request.job_id,
        tenant=request.tenant,
        ranks=request.ranks,
        collectives=map(collective_fields, request.collectives),
        priority=request.priority,
        lease_ms=request.lease_ms,
        steering=pb.Steering.Name(request.steering.value),
        require_utilisation=request.require_utilisation,
        gpu_milli=request.gpu_milli,
        incast=pb.Incast.Name(request.incast.value),
        move_limits=[
            pb.MoveLimit(
                cause=pb.MoveLimit.Cause.Name(cause.value),
                whose=pb.MoveLimit.Whose.Name(limit.whose.value),
                max_flows=limit.max_flows,
            )
            for cause, limit in request.move_limits
        ],
        assumed=request.assumed,
        drains_before_moves=request.drains_before_moves,
    )


def shape_from(message: pb.SuggestPlacementRequest) -> Shape:
    """Read a placement request; raises InputError as `request_from` does."""
    return Shape(
        ranks=message.ranks,
        collectives=tuple(_collective_from(i, c) for i, c in enumerate(message.collectives)),
        gpu_milli=message.gpu_milli,
        max_suggestions=message.max_suggestions,
    )


def shape_to(shape: Shape) -> pb.SuggestPlacementRequest:
    """Write a placement request."""
    return pb.SuggestPlacementRequest(
        ranks=shape.ranks,
        collectives=map(collective_fields, shape.collectives),
        gpu_milli=shape.gpu_milli,
        max_suggestions=shape.max_suggestions,
    )


def placements_to(places: Sequence[Placement], size_bytes: int = A_MESSAGE.size_bytes) -> pb.SuggestPlacementReply:
    """Write as many places as fit a message, best first, at least one."""
    reply = pb.SuggestPlacementReply()
    for place in places:
        message = pb.Placement(
            nics=place.nics,
            max_link_utilisation=place.max_link_utilisation,
            own_max_link_utilisation=place.own_max_link_utilisation,
            leaves_used=place.leaves_used,
            reason=place.reason,
        )
        if reply.placements and reply.ByteSize() + _size_in(message) > size_bytes:
            break
        reply.placements.append(message)
    return reply


def plan_to(
    plan: JobPlan,
    *,
    flows: Sequence[FlowPlan] | None = None,
    room: Room | None = A_MESSAGE,
    rates: Rates = NO_RATES,
    sids: Sids | None = None,
    explicit: Explicit | None = None,
) -> pb.JobPlan:
    """Write a job's plan with the first of `flows` (None: the plan's own) that fit `room` (None: all).

    `sids` are the addresses of the fabric where packets name their paths; `explicit` writes the path set of every flow.
    """
    message = _head_to(plan, sids)
    _add_flows(message, plan.flows.flows if flows is None else flows, room, rates, sids, explicit)
    return message


def plans_to(plans: Sequence[JobPlan], room: Room = A_MESSAGE, sids: Sids | None = None) -> list[pb.JobPlan]:
    """Write the first jobs whose plans fit one message without flows, then the flows that fit, job by job.

    A room for no flows leaves all of them out.
    """
    messages, left = list[pb.JobPlan](), room
    for plan in plans:
        message = _head_to(plan, sids)
        left = left._replace(size_bytes=left.size_bytes - _size_in(message))
        if messages and left.size_bytes < 0:
            break
        messages.append(message)
    for plan, message in zip(plans, messages, strict=False):
        used = _add_flows(message, plan.flows.flows, left, sids=sids)
        left = Room(left.flows - len(message.flows), left.size_bytes - used)
    return messages


def _head_to(plan: JobPlan, sids: Sids | None) -> pb.JobPlan:
    return pb.JobPlan(
        job_id=plan.job_id,
        tenant=plan.tenant,
        priority=plan.priority,
        generation=plan.generation,
        state=plan.state,
        reason=plan.reason,
        lease_expires_unix_ms=plan.lease_expires_unix_ms,
        certificate=certificate_to(
            plan.certificate,
            plan.flows.own_max_link_utilisation,
            conserving_count(plan.flows.flows),
            by_construction=sids is not None,
        ),
        predicted_completion_ns=plan.flows.predicted_completion_ns,
        flow_count=len(plan.flows.flows),
        path_templates=_templates_to(path_templates(plan.flows.flows)),
    )


def _add_flows(
    message: pb.JobPlan,
    flows: Sequence[FlowPlan],
    room: Room | None,
    rates: Rates = NO_RATES,
    sids: Sids | None = None,
    explicit: Explicit | None = None,
) -> int:
    """Add the first flows that fit, set `flows_truncated`, and return the bytes added."""
    used, write = 0, explicit or _beside(path_templates(flows))
    for i in range(len(flows) if room is None else min(len(flows), room.flows)):
        flow = flow_to(flows[i], rates, sids, write)
        if room is not None and used + _size_in(flow) > room.size_bytes:
            break
        used += _size_in(flow)
        message.flows.append(flow)
    message.flows_truncated = len(message.flows) < len(flows)
    return used


def _size_in(message: pb.JobPlan | pb.FlowPlan | pb.Placement) -> int:
    """Return the bytes of a message inside another: with its tag and its length (four bytes, below 256 MiB)."""
    return message.ByteSize() + 5


def pages_of(
    generation: int,
    flows: Sequence[FlowPlan],
    rates: Rates = NO_RATES,
    sids: Sids | None = None,
    explicit: Explicit | None = None,
) -> Iterator[pb.FlowPlanPage]:
    """Split a job's flows into pages that fit any client's message limit."""
    write = explicit or _beside(path_templates(flows))
    for start in range(0, len(flows), FLOWS_PER_PAGE):
        page, used = pb.FlowPlanPage(generation=generation), 0
        for row in range(start, min(start + FLOWS_PER_PAGE, len(flows))):
            flow = flow_to(flows[row], rates, sids, write)
            used += _size_in(flow)
            if page.flows and used > A_MESSAGE.size_bytes:
                yield page
                page, used = pb.FlowPlanPage(generation=generation), _size_in(flow)
            page.flows.append(flow)
        yield page


def flow_to(
    flow: FlowPlan, rates: Rates = NO_RATES, sids: Sids | None = None, write: Explicit | None = None
) -> pb.FlowPlan:
    """Write one flow, with its measured rate if `rates` has it, and the addresses that name its paths.

    `write` writes the path set of a flow that is sprayed.
    """
    measured_bps = rates.get(Stream(flow.src_nic, flow.dst_nic, flow.udp_source_port)) if rates else None
    return pb.FlowPlan(
        flow_id=flow.flow_id,
        src_nic=flow.src_nic,
        dst_nic=flow.dst_nic,
        links=flow.links,
        udp_source_port=flow.udp_source_port,
        rate_bps=flow.rate_bps,
        window=_window_to(flow.window) if flow.window.slots else None,
        dscp=flow.dscp,
        priority_group=flow.priority_group,
        reverse_links=flow.reverse_links,
        reverse_udp_source_port=flow.reverse_udp_source_port,
        demand_bps=flow.demand_bps,
        phase=flow.phase,
        src_rank=flow.src_rank,
        dst_rank=flow.dst_rank,
        collective=flow.collective,
        queue_pair=flow.queue_pair,
        pinned=flow.pinned,
        work_conserving=flow.work_conserving,
        measured_bps=None if measured_bps is None else round(measured_bps),
        sid=None if sids is None else ipv6_text(sids.destination(flow.links, flow.dst_nic)),
        reverse_sid=None if sids is None else ipv6_text(sids.destination(flow.reverse_links, flow.src_nic)),
        path_set=write(flow) if write is not None and flow.entries else None,
    )


def _templates_to(found: PathTemplates | None) -> pb.PathTemplates | None:
    if found is None:
        return None
    message = pb.PathTemplates(uplinks=found.uplinks)
    for one in found.templates:
        shifts = [divmod(entry, found.uplinks) for entry in one.entries]
        core_shifts, uplink_shifts = zip(*shifts, strict=True)
        message.templates.add(collectives=one.collectives, uplink_shifts=uplink_shifts, core_shifts=core_shifts)
    return message


def _beside(found: PathTemplates | None) -> Explicit:
    """Return what writes the rotations of flows that do not follow the template of their collective."""
    known = {index: one.entries for one in found.templates for index in one.collectives} if found is not None else {}

    def write(flow: FlowPlan) -> pb.PathSet | None:
        if known.get(flow.collective) == flow.entries:
            return None
        return pb.PathSet(entries=len(flow.entries), rotations=flow.entries)

    return write


def _window_to(window: AdmissionWindow) -> pb.AdmissionWindow:
    return pb.AdmissionWindow(slot=window.slot, slots=window.slots, slot_ns=window.slot_ns)


def certificate_to(
    certificate: Certificate,
    own_max_link_utilisation: float,
    flows_work_conserving: int = 0,
    *,
    by_construction: bool = False,
) -> pb.Certificate:
    """Write a certificate; the figures beside it alone differ between the jobs of one plan."""
    return pb.Certificate(
        max_link_utilisation=certificate.max_link_utilisation,
        lower_bound=certificate.lower_bound,
        lower_bound_kind=certificate.lower_bound_kind,
        ecmp_max_link_utilisation=certificate.ecmp_max_link_utilisation,
        e_ecmp_max_link_utilisation=certificate.e_ecmp_max_link_utilisation,
        bottleneck_link=certificate.bottleneck_link,
        deadlock_free=certificate.deadlock_free,
        solve_ns=certificate.solve_ns,
        install_ns=certificate.install_ns,
        flows_moved=certificate.flows_moved,
        rules_installed=certificate.rules_installed,
        max_rules_on_a_switch=certificate.max_rules_on_a_switch,
        max_nic_utilisation=certificate.max_nic_utilisation,
        bottleneck_nic=certificate.bottleneck_nic,
        own_max_link_utilisation=own_max_link_utilisation,
        flows_slowed=certificate.flows_slowed,
        mean_share=certificate.mean_share,
        worst_share=certificate.worst_share,
        links_over_capacity=certificate.links_over_capacity,
        probed=certificate.probed,
        paths_confirmed=certificate.paths_confirmed,
        oldest_confirmation_unix_ms=certificate.oldest_confirmation_unix_ms,
        probes=certificate.probes,
        flows_work_conserving=flows_work_conserving,
        assumed=certificate.assumed,
        below_goal=certificate.below_goal,
        by_construction=by_construction,
        spraying=None if certificate.spraying is None else pb.Spraying(**asdict(certificate.spraying)),
    )
