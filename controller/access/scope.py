"""The scope of a caller, which limits what it sees and changes: the whole fabric, or the objects of one tenant.

The services read a state that holds the tenant's objects alone, so another tenant's object is one that does not exist,
with the same text. Decisions about changes are the brain's (`controller/brain/tenants.py`).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

from heddle.controller.access.policy import TenantPolicy
from heddle.controller.brain.state import State
from heddle.controller.model.error import DeniedError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.log_event import AUDIT, LogEvent
from heddle.controller.model.moves import Whose
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.tenant import Tenant
from heddle.dataplane.config.balancers import LoadBalancer, Mode
from heddle.dataplane.config.network import Address, Vpc

HIDDEN = "(hidden)"
"""What stands for a name that is not the tenant's."""
_NAME = re.compile(r"(?<!['\"])[A-Za-z0-9][A-Za-z0-9._-]*")
_JOB_IN_REASON = re.compile(
    r"(?:(?<=\bjob )(?P<one>[A-Za-z0-9][A-Za-z0-9._-]*)(?= (?:arrived|released|lease ended)\b)"
    r"|(?<=\bof job )(?P<of>[A-Za-z0-9][A-Za-z0-9._-]*)|(?<=jobs arrived, )(?P<first>[A-Za-z0-9][A-Za-z0-9._-]*))"
)
_OWN_MOVES = (Whose.NONE, Whose.OWN_JOB, Whose.TENANT)
Owner = Callable[[str], str | None]
"""Returns the tenant of a job that has ended, None where it is not known."""


class Scope:
    """The scope of an operator or viewer: everything."""

    tenant: Tenant | None = None
    hidden_ports: frozenset[str] = frozenset()
    """Ports and NICs that the caller does not see."""
    withheld_nics: tuple[str, ...] = ()
    """The NICs among them."""

    def tenant_named(self, given: str) -> str:
        """Return the tenant of a new object, from the field of the request; raises DeniedError."""
        return given

    def state(self, state: State) -> State:
        """Return a state with the objects that exist for this caller."""
        return state

    def fabric(self, fabric: Fabric) -> Fabric:
        """Return a fabric with the NICs that exist for this caller."""
        return fabric

    def check_job(self, request: JobRequest) -> None:
        """Raise DeniedError for what the caller may not request."""

    def check_vpc(self, vpc: Vpc) -> None:
        """Raise DeniedError for what the caller may not request."""

    def check_balancer(self, balancer: LoadBalancer) -> None:
        """Raise DeniedError for what the caller may not request."""

    def check_border(self) -> None:
        """Raise DeniedError where the caller may not change the border."""

    def text(self, text: str, state: State, owner: Owner, said: str = "") -> str:
        """Return a text without the names of others; `said` are names that the caller used itself."""
        return text

    def plan(self, plan: JobPlan, state: State, owner: Owner) -> JobPlan:
        """Return a job's plan without the names of others."""
        return plan

    def event(self, event: LogEvent, state: State, owner: Owner) -> LogEvent | None:
        """Return an event of the log without the names of others, None for one that is not the caller's."""
        return event


class TenantScope(Scope):
    """The scope of one tenant in one fabric."""

    def __init__(self, name: str, policy: TenantPolicy, fabric: Fabric) -> None:
        self.tenant: Tenant = Tenant(name=name, quota=policy.quota)
        self._policy, self._whole = policy, fabric
        mine = [nic for nic in fabric.nics if policy.nics is None or not policy.nics.isdisjoint((nic.id, nic.rank))]
        nics, ports, hosts = {nic.id for nic in mine}, {str(nic.port) for nic in mine}, {nic.host for nic in mine}
        others = [nic for nic in fabric.nics if nic.id not in nics]
        self._own_names = frozenset(nics | {nic.rank for nic in mine} | hosts | ports)
        foreign = {name for nic in others for name in (nic.id, nic.rank, nic.host)}
        self._foreign_names = frozenset(foreign) - self._own_names
        self.hidden_ports = frozenset({nic.id for nic in others} | {str(nic.port) for nic in others})
        self.withheld_nics = tuple(nic.id for nic in others)
        self._ips = frozenset(nic.ip for nic in mine)

    @cached_property
    def _fabric(self) -> Fabric:
        mine = [nic for nic in self._whole.nics if nic.id not in self.hidden_ports]
        # A NIC with a port of another tenant is no rank of this one: a rank sends from all ports.
        shared = {nic.of for nic in self._whole.nics if nic.id in self.hidden_ports}
        return replace(
            self._whole, nics=tuple(replace(nic, of="") if nic.of and nic.of in shared else nic for nic in mine)
        )

    def tenant_named(self, given: str) -> str:
        """Return the tenant's own name; raises DeniedError where the request names another."""
        if given not in ("", self.tenant.name):
            raise DeniedError(f"tenant: must be {self.tenant.name} or empty: the caller's certificate says so")
        return self.tenant.name

    def state(self, state: State) -> State:
        """Return a state with this tenant's jobs, VPCs, load balancers, and peerings with both sides its own."""
        name, networks = self.tenant.name, state.networks
        vpcs = {vpc.id: vpc for vpc in networks.vpcs.values() if vpc.tenant == name}
        return replace(
            state,
            jobs={job_id: job for job_id, job in state.jobs.items() if job.request.tenant == name},
            networks=replace(
                networks,
                vpcs=vpcs,
                peerings=frozenset(each for each in networks.peerings if {each.a, each.b} <= vpcs.keys()),
                load_balancers={
                    each.id: each
                    for each in networks.load_balancers.values()
                    if each.tenant == name and each.vpc in vpcs
                },
            ),
        )

    def fabric(self, fabric: Fabric) -> Fabric:
        """Return the fabric with this tenant's NICs alone."""
        return self._fabric

    def check_job(self, request: JobRequest) -> None:
        """Raise DeniedError for a job that may move the flows of other tenants."""
        for cause, limit in request.move_limits:
            if limit.whose not in _OWN_MOVES:
                names = ", ".join(whose.name for whose in _OWN_MOVES)
                raise DeniedError(f"move_limits: {cause.name}: a tenant's job may move flows of {names} only")

    def check_vpc(self, vpc: Vpc) -> None:
        """Raise DeniedError for hosts, public addresses and VLANs that the policy does not give to this tenant."""
        found = [f"vpc {vpc.id}: {line}" for line in self._vpc_problems(vpc)]
        if found:
            raise DeniedError(*found[:20])

    def _vpc_problems(self, vpc: Vpc) -> Iterator[str]:
        may = f"tenant {self.tenant.name} may not use"
        for i, endpoint in enumerate(vpc.endpoints):
            if not self._is_host(endpoint.vtep):
                yield f"endpoints[{i}].vtep_ip: {may} {endpoint.vtep}; the policy file lists its NICs and vteps"
        public = [(f"floating_ips[{i}].public_ip", each.public) for i, each in enumerate(vpc.floating_ips)]
        public += [("nat.public_ip", vpc.nat)] if vpc.nat is not None else []
        for place, address in public:
            if not self._policy.may_publish(address):
                yield f"{place}: {may} {address}; the policy file lists its public_ips"
        for i, connect in enumerate(vpc.direct_connects):
            if connect.vlan not in self._policy.vlans:
                yield f"direct_connects[{i}].vlan: {may} {connect.vlan}; the policy file lists its vlans"

    def check_balancer(self, balancer: LoadBalancer) -> None:
        """Raise DeniedError for back ends in the underlay that are no hosts of this tenant."""
        for i, end in enumerate(balancer.back_ends):
            if balancer.mode is Mode.IP_IN_IP and not self._is_host(end.ip):
                place = f"load balancer {balancer.id}: backends[{i}].ip"
                raise DeniedError(f"{place}: tenant {self.tenant.name} may not use {end.ip}; it is none of its hosts")

    def check_border(self) -> None:
        """Raise DeniedError: the border is the provider's."""
        raise DeniedError("border: only an operator may change it; leave it out of the file")

    def _is_host(self, address: Address) -> bool:
        """Return whether an address of the underlay is of this tenant's NICs or VTEPs."""
        is_nic = address.version == 4 and int(address) in self._ips
        return is_nic or any(address in prefix for prefix in self._policy.vteps)

    def text(self, text: str, state: State, owner: Owner, said: str = "") -> str:
        """Return a text with HIDDEN for each name of another's NIC, host, job, VPC or load balancer."""

        def shown(match: "re.Match[str]") -> str:
            for name in (match[0], match[0].rstrip("._-")):  # a sentence may end after it
                if name not in said_names and self._is_foreign(name, state, owner):
                    return HIDDEN + match[0][len(name) :]
            return match[0]

        def shown_job(match: "re.Match[str]") -> str:
            job = state.jobs.get(match[0])
            return match[0] if job is not None and job.request.tenant == self.tenant.name else HIDDEN

        said_names = frozenset(said.split())
        return _NAME.sub(shown, _JOB_IN_REASON.sub(shown_job, text))

    def _is_foreign(self, name: str, state: State, owner: Owner) -> bool:
        return not self._is_own(name, state) and (
            name in self._foreign_names
            or any(True for _ in _owners(name, state))
            or owner(name) not in (None, self.tenant.name)
        )

    def _is_own(self, name: str, state: State) -> bool:
        return name in self._own_names or self.tenant.name in _owners(name, state)

    def plan(self, plan: JobPlan, state: State, owner: Owner) -> JobPlan:
        """Return a plan whose reason and certificate name nothing of others."""
        certificate = plan.certificate
        if certificate.bottleneck_nic in self.hidden_ports:
            certificate = replace(certificate, bottleneck_nic="")
        return replace(plan, reason=self.text(plan.reason, state, owner), certificate=certificate)

    def event(self, event: LogEvent, state: State, owner: Owner) -> LogEvent | None:
        """Return an event whose subject is this tenant's and no one else's; none of the audit trail."""
        subject = event.subject
        own = subject in self._own_names or self.tenant.name in (*_owners(subject, state), owner(subject))
        others = {*_owners(subject, state), owner(subject)} - {self.tenant.name, None}
        if event.kind == AUDIT or not own or others or subject in self._foreign_names:
            return None
        return replace(event, text=self.text(event.text, state, owner))


def _owners(name: str, state: State) -> Iterator[str]:
    """Yield the tenants of the job, VPC and load balancer of a name."""
    if (job := state.jobs.get(name)) is not None:
        yield job.request.tenant
    for known in (state.networks.vpcs.get(name), state.networks.load_balancers.get(name)):
        if known is not None:
            yield known.tenant
