"""Between the wire's messages and the model's values; the only place that knows both."""

from collections.abc import Iterator, Sequence

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.model.error import InputError
from controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, RankPair, Steering
from controller.model.plan import Certificate, FlowPlan, JobPlan

MAX_FLOWS_IN_A_MESSAGE = 10_000
FLOWS_PER_PAGE = 1_000


def request_from(message: pb.SubmitJobRequest) -> JobRequest:
    """Read a job request; raises InputError where an enum has no meaning. All else is checked at admission."""
    steering = message.steering or Steering.SOURCE_PORT
    if steering not in Steering._value2member_map_:
        raise InputError(f"steering: {steering} is no steering; use SOURCE_PORT (1) or PIN (2)")
    return JobRequest(
        job_id=message.job_id,
        tenant=message.tenant,
        ranks=tuple(message.ranks),
        collectives=tuple(_collective_from(i, c) for i, c in enumerate(message.collectives)),
        priority=message.priority,
        lease_ms=message.lease_ms,
        steering=Steering(steering),
        require_utilisation=message.require_utilisation,
        gpu_milli=message.gpu_milli,
    )


def _collective_from(index: int, message: pb.Collective) -> Collective:
    if message.kind not in CollectiveKind._value2member_map_:
        kinds = ", ".join(kind.name for kind in CollectiveKind)
        raise InputError(f"collectives[{index}].kind: {message.kind} is no kind of collective; use one of {kinds}")
    return Collective(
        kind=CollectiveKind(message.kind),
        size_bytes=message.bytes,
        root=message.root,
        pairs=tuple(RankPair(src_rank=pair.src_rank, dst_rank=pair.dst_rank) for pair in message.pairs),
        flows=tuple(_demand_from(flow) for flow in message.flows),
        qps_per_flow=message.qps_per_flow or 1,
        members=tuple(message.members),
        phase=message.phase,
    )


def _demand_from(message: pb.FlowDemand) -> FlowDemand:
    return FlowDemand(
        src_rank=message.src_rank,
        dst_rank=message.dst_rank,
        rate_bps=message.rate_bps,
        udp_source_port=message.udp_source_port,
    )


def request_to(request: JobRequest) -> pb.SubmitJobRequest:
    """Write a job request."""
    return pb.SubmitJobRequest(
        job_id=request.job_id,
        tenant=request.tenant,
        ranks=request.ranks,
        collectives=[_collective_to(collective) for collective in request.collectives],
        priority=request.priority,
        lease_ms=request.lease_ms,
        steering=pb.Steering.Name(request.steering.value),
        require_utilisation=request.require_utilisation,
        gpu_milli=request.gpu_milli,
    )


def _collective_to(collective: Collective) -> pb.Collective:
    return pb.Collective(
        kind=pb.Collective.Kind.Name(collective.kind.value),
        bytes=collective.size_bytes,
        root=collective.root,
        pairs=[pb.RankPair(src_rank=pair.src_rank, dst_rank=pair.dst_rank) for pair in collective.pairs],
        flows=[
            pb.FlowDemand(
                src_rank=flow.src_rank,
                dst_rank=flow.dst_rank,
                rate_bps=flow.rate_bps,
                udp_source_port=flow.udp_source_port,
            )
            for flow in collective.flows
        ],
        qps_per_flow=collective.qps_per_flow,
        members=collective.members,
        phase=collective.phase,
    )


def plan_to(
    plan: JobPlan, *, flows: Sequence[FlowPlan] | None = None, max_flows: int | None = MAX_FLOWS_IN_A_MESSAGE
) -> pb.JobPlan:
    """Write a job's plan with the first `max_flows` (None: all) of `flows` (None: the plan's own)."""
    flows = plan.flows.flows if flows is None else flows
    told = len(flows) if max_flows is None else min(len(flows), max_flows)
    return pb.JobPlan(
        job_id=plan.job_id,
        tenant=plan.tenant,
        priority=plan.priority,
        generation=plan.generation,
        state=plan.state,
        reason=plan.reason,
        lease_expires_unix_ms=plan.lease_expires_unix_ms,
        flows=[flow_to(flows[i]) for i in range(told)],
        flows_truncated=told < len(flows),
        certificate=certificate_to(plan.certificate, plan.flows.own_max_link_utilisation),
        predicted_completion_ns=plan.flows.predicted_completion_ns,
    )


def changed_flows(before: JobPlan, after: JobPlan) -> Sequence[FlowPlan]:
    """Return the flows of a later generation that differ from an earlier one's."""
    if before.flows.flows is after.flows.flows:
        return ()
    known = {flow.flow_id: flow for flow in before.flows.flows}
    return tuple(flow for flow in after.flows.flows if known.get(flow.flow_id) != flow)


def pages_of(generation: int, flows: Sequence[FlowPlan]) -> Iterator[pb.FlowPlanPage]:
    """Cut a job's flows into pages that fit any client."""
    for start in range(0, len(flows), FLOWS_PER_PAGE):
        last = min(start + FLOWS_PER_PAGE, len(flows))
        yield pb.FlowPlanPage(generation=generation, flows=[flow_to(flows[i]) for i in range(start, last)])


def flow_to(flow: FlowPlan) -> pb.FlowPlan:
    """Write one flow."""
    return pb.FlowPlan(
        flow_id=flow.flow_id,
        src_nic=flow.src_nic,
        dst_nic=flow.dst_nic,
        links=flow.links,
        udp_source_port=flow.udp_source_port,
        rate_bps=flow.rate_bps,
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
    )


def certificate_to(certificate: Certificate, own_max_link_utilisation: float) -> pb.Certificate:
    """Write a certificate; the job's own figure is the one field that differs between jobs of one answer."""
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
    )
