"""Suggest more queue pairs per flow where hashing with more of them would beat the plan; pure."""

from collections.abc import Sequence
from dataclasses import replace

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest, Steering
from heddle.controller.model.plan import Certificate
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.loads import utilisation
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.solve import Draft, draft

QUEUE_PAIRS = 4
"""The least number of queue pairs per flow under E-ECMP ("ECMP figures" in docs/contract.md)."""
MAX_FLOWS = 65_536
"""The number of flows up to which the plan with more queue pairs is computed: some tens of milliseconds."""


def queue_pair_hint(
    fabric: Fabric, requests: Sequence[JobRequest], certificate: Certificate, kept: Sequence[Placed] = ()
) -> str | None:
    """Return what more queue pairs for these jobs would make of the fullest link; None where that is not known better.

    Only plans that E-ECMP would beat are considered. Up to MAX_FLOWS flows, the figure is that of the jobs planned
    again with more queue pairs; above, it is that of E-ECMP.
    """
    reached, e_ecmp = certificate.max_link_utilisation, certificate.e_ecmp_max_link_utilisation
    raised = [_raised(request) for request in requests]
    if not e_ecmp < reached or raised == list(requests):
        return None
    head = f"raise qps_per_flow to {QUEUE_PAIRS}"
    if len(expand(topology_of(fabric), raised)) > MAX_FLOWS:
        return f"{head}: even E-ECMP then reaches {e_ecmp:.3f} instead of {reached:.3f}"
    again = draft(fabric, raised, health=fabric.failed, kept=kept)
    if not isinstance(again, Draft):
        return None
    links = topology_of(fabric).first_nic_link
    found = float(utilisation(again.router.topology, again.loads)[:links].max(initial=0.0))
    return f"{head}: {found:.3f} instead of {reached:.3f}" if found < reached else None


def _raised(request: JobRequest) -> JobRequest:
    """Return a job with more queue pairs where it may have them: a fixed port has one, a pinned pair one path."""
    if request.steering is Steering.PIN:
        return request
    collectives = tuple(
        one
        if any(flow.udp_source_port for flow in one.flows)
        else replace(one, qps_per_flow=max(one.qps_per_flow, QUEUE_PAIRS))
        for one in request.collectives
    )
    return replace(request, collectives=collectives)
