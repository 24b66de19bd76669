"""Load balancers with the health of their back ends, as the attached balancers report it."""

from dataclasses import dataclass

from controller.brain.networks.publishing import balancers_of
from controller.brain.networks.state import Networks
from dataplane.config.balancers import BackEnd, LoadBalancer
from dataplane.config.desired import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerView:
    """A load balancer, and how it is at this moment."""

    balancer: LoadBalancer
    healthy: frozenset[BackEnd]
    """Back ends that every balancer that reports on them finds up, one at least; all where none is probed."""
    served_by: tuple[str, ...]
    """Ids of the balancers that serve it; hosts spread its flows over their VTEPs."""


def load_balancer_views(networks: Networks, tenant: str = "") -> tuple[LoadBalancerView, ...]:
    """Return all load balancers, or a tenant's, ordered by id."""
    found = sorted(networks.load_balancers.values(), key=lambda each: each.id)
    return tuple(view_of(networks, each) for each in found if tenant in ("", each.tenant))


def view_of(networks: Networks, each: LoadBalancer) -> LoadBalancerView:
    """Return the view of one load balancer."""
    healthy = frozenset(end for end in each.back_ends if each.health is None or _is_up(networks, each, end))
    return LoadBalancerView(balancer=each, healthy=healthy, served_by=balancers_of(networks, each.vpc))


def _is_up(networks: Networks, each: LoadBalancer, end: BackEnd) -> bool:
    key = each.id, end.ip, end.port
    balancers = (known for known in networks.gateways.values() if known.kind is Kind.BALANCER)
    reports = [known.health[key] for known in balancers if known.session is not None and key in known.health]
    return bool(reports) and all(reports)
