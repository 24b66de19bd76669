"""Decide what a tenant's event may change: its own objects, within its quota. An event without a tenant may do all.

Another tenant's object is refused with the text for one that does not exist. The decision is made with the change, so
that no two calls can pass a quota together, and no object can change its owner between the two.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from heddle.controller.brain.state import State
from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.admission import flow_plans, pinned_flows
from heddle.controller.model.error import AlreadyExistsError, BudgetExceededError
from heddle.controller.model.job import JobRequest, Steering
from heddle.controller.model.tenant import Tenant
from heddle.dataplane.config.network import Vpc


def owns(tenant: Tenant | None, owner: str) -> bool:
    """Return whether an event of this tenant (None: an operator's) may change what `owner` has."""
    return tenant is None or tenant.name == owner


def visible_vpcs(networks: Networks, tenant: Tenant | None) -> Mapping[str, Vpc]:
    """Return the VPCs that exist for a tenant."""
    if tenant is None:
        return networks.vpcs
    return {name: vpc for name, vpc in networks.vpcs.items() if owns(tenant, vpc.tenant)}


def taken(kind: str, name: str) -> AlreadyExistsError:
    """Return the error for a new object whose id another tenant's object has: ids are unique in the fabric."""
    return AlreadyExistsError(f"id: {kind} {name} is in use; choose another id")


def vpc_quota_refusal(networks: Networks, tenant: Tenant | None, names: Collection[str]) -> BudgetExceededError | None:
    """Return why a tenant may not have VPCs of these names beside its others."""
    if tenant is None or tenant.quota.vpcs is None:
        return None
    count = sum(vpc.tenant == tenant.name and vpc.id not in names for vpc in networks.vpcs.values())
    return _passed(tenant, "VPCs", count, len(names), tenant.quota.vpcs)


def job_quota_refusal(
    state: State, waiting: Iterable[JobRequest], tenant: Tenant | None, request: JobRequest
) -> BudgetExceededError | None:
    """Return which quota a job would pass beside the tenant's jobs that run or wait; None where it fits."""
    if tenant is None:
        return None
    quota = tenant.quota
    others = [(other, flows) for other, flows in _jobs(state, waiting, tenant) if other.job_id != request.job_id]
    found = _passed(tenant, "jobs", len(others), 1, quota.jobs)
    if found is None and quota.nics is not None:
        nics = {nic for other, _ in others for nic in other.ranks}
        found = _passed(tenant, "NICs", len(nics), len(nics.union(request.ranks)) - len(nics), quota.nics)
    if found is None and quota.flows is not None:
        flows = sum(_flows(state, other, flows, quota.flows) for other, flows in others)
        found = _passed(tenant, "flows", flows, _flows(state, request, None, quota.flows), quota.flows)
    if found is None and quota.pins is not None:
        pins = sum(_pins(state, other, flows, quota.pins) for other, flows in others)
        found = _passed(tenant, "pins", pins, _pins(state, request, None, quota.pins), quota.pins)
    return found


def _passed(tenant: Tenant, what: str, has: int, more: int, most: int | None) -> BudgetExceededError | None:
    if most is None or has + more <= most:
        return None
    text = f"tenant {tenant.name} has {has:,} of {most:,} {what}, and this asks for {more:,} more"
    return BudgetExceededError(f"{text}; release some, or ask the operator for a larger quota")


def _jobs(state: State, waiting: Iterable[JobRequest], tenant: Tenant) -> Iterator[tuple[JobRequest, int | None]]:
    """Yield the tenant's requests: those that hold paths with their planned flows, then those that wait."""
    for job in state.jobs.values():
        if job.request.tenant == tenant.name:
            yield job.request, len(job.flows.flows)
    for request in waiting:
        if request.tenant == tenant.name and request.job_id not in state.jobs:
            yield request, None


def _flows(state: State, request: JobRequest, planned: int | None, enough: int) -> int:
    return flow_plans(request, state.fabric, enough) if planned is None else planned


def _pins(state: State, request: JobRequest, planned: int | None, enough: int) -> int:
    if request.steering is Steering.PIN:
        return _flows(state, request, planned, enough)
    return pinned_flows(request, state.fabric, enough)
