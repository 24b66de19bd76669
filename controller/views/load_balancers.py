"""Load balancers with the health of their back ends, as the attached balancers report it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heddle.controller.brain.networks.publishing import balancers_by_vpc, balancers_of
from heddle.controller.brain.virtual_networks import BackEndKey, Networks
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer
from heddle.dataplane.config.desired import Kind

_Reported = Mapping[BackEndKey, bool]


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
    return views_of(networks, [each for each in found if tenant in ("", each.tenant)])


def views_of(networks: Networks, found: Iterable[LoadBalancer]) -> tuple[LoadBalancerView, ...]:
    """Return the views of some load balancers, in their order."""
    reports, serving = _reports(networks), balancers_by_vpc(networks)
    return tuple(_view(each, reports, serving.get(each.vpc, ())) for each in found)


def view_of(networks: Networks, each: LoadBalancer) -> LoadBalancerView:
    """Return the view of one load balancer."""
    return _view(each, _reports(networks), balancers_of(networks, each.vpc))


def _reports(networks: Networks) -> list[_Reported]:
    """Return what each attached balancer reports of back ends."""
    balancers = (known for known in networks.gateways.values() if known.kind is Kind.BALANCER)
    return [known.health for known in balancers if known.session is not None]


def _view(each: LoadBalancer, reports: Sequence[_Reported], served_by: tuple[str, ...]) -> LoadBalancerView:
    healthy = frozenset(end for end in each.back_ends if each.health is None or _is_up(reports, each, end))
    return LoadBalancerView(balancer=each, healthy=healthy, served_by=served_by)


def _is_up(reports: Sequence[_Reported], each: LoadBalancer, end: BackEnd) -> bool:
    key = each.id, end.ip, end.port
    found = [health[key] for health in reports if key in health]
    return bool(found) and all(found)
