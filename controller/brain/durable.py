"""Find what a turn has changed of the part of the state that survives a restart, and restore that part at a start.

One table names it all: jobs that are installed (never one that waits for its switches), drains, ports that are down,
bad cables, when cabling was followed, virtual networks, the gateways known, and counters. Everything else follows from
it, or from switches and gateways.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any, NamedTuple

from heddle.controller.brain.cabling.hearing import policy_of
from heddle.controller.brain.intent import dead_links, pin_rules_of
from heddle.controller.brain.state import BadCable, Job, ReplanWork, State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.switches import health_of
from heddle.controller.brain.virtual_networks import Gateway, Networks
from heddle.controller.model.cabling import Cabling, CablingPolicy, Verdict
from heddle.controller.model.effect import Persist
from heddle.controller.model.event import JudgedCable
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.job_state import JobState
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import Certificate
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check import claims_of, neighbours_of
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.incarnations import is_unchanged
from heddle.dataplane.config.network import Address, BorderRule, GatewayPort, Peering, Vpc


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGateway:
    """The addresses of a gateway, balancer or host: hosts send to gateways and balancers also while these are away."""

    vtep: IPv4Address
    kind: Kind
    host_vtep: IPv4Address | None
    pools: Mapping[str, tuple[Address, ...]]
    ports: tuple[GatewayPort, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBadCable:
    """What telemetry said of a bad cable, and whether plans do without it; "bad_cable" has what it has left."""

    found: JudgedCable
    left_out: bool


class Table(NamedTuple):
    """One kind of durable value.

    `part(state)` is the field that holds it: while it is the same object, nothing has changed. `rows(part)` are its
    values by id, and `kept(value)` what of a value is written, None where nothing is.
    """

    kind: str
    type: Any
    part: Callable[[State], Any]
    rows: Callable[[Any], Mapping[str, Any]]
    kept: Callable[[Any], Any] = lambda value: value
    is_same: Callable[[Any, Any], bool] = lambda value, other: value == other


JOB_FIELDS = ("request", "number", "generation", "state", "reason", "lease_ms", "effort", "stranded",
              "healthy_utilisation")  # fmt: skip


def _is_same_job(job: Job, other: Job) -> bool:
    """Return whether two values of a job are written alike; flows are compared by identity."""
    return job.flows is other.flows and all(getattr(job, name) == getattr(other, name) for name in JOB_FIELDS)


def _kept_gateway(gateway: Gateway) -> KnownGateway:
    return KnownGateway(
        vtep=gateway.vtep, kind=gateway.kind, host_vtep=gateway.host_vtep, pools=gateway.pools, ports=gateway.ports
    )


TABLES = (
    Table(
        "job",
        Job,
        lambda state: state.jobs,
        lambda jobs: jobs,
        lambda job: None if job.state is JobState.PLANNED else job,
        _is_same_job,
    ),
    Table("drain", str, lambda state: state.drained, lambda names: {name: name for name in names}),
    Table("cabling", str, lambda state: state.cabling.verdict.left_out, lambda names: {name: name for name in names}),
    Table("follow", int, lambda state: state.cabling.followed, lambda times: {str(time): time for time in times}),
    Table("joining", str, lambda state: state.cabling.joining, lambda names: {name: name for name in names}),
    Table("port", PortRef, lambda state: state.down_ports, lambda ports: {str(port): port for port in ports}),
    Table("bad_cable", int, lambda state: state.bad_cables, lambda bad: {name: bad[name].left_bps for name in bad}),
    Table(
        "known_bad_cable",
        KnownBadCable,
        lambda state: state.bad_cables,
        lambda bad: bad,
        lambda bad: KnownBadCable(found=bad.found, left_out=bad.left_out),
    ),
    Table("vpc", Vpc, lambda state: state.networks.vpcs, lambda vpcs: vpcs, is_same=is_unchanged),
    Table("peering", Peering, lambda state: state.networks.peerings, lambda all_: {f"{e.a} {e.b}": e for e in all_}),
    Table("border", tuple[BorderRule, ...], lambda state: state.networks.border, lambda rules: {"": rules}),
    Table("load_balancer", LoadBalancer, lambda state: state.networks.load_balancers, lambda found: found),
    Table("gateway", KnownGateway, lambda state: state.networks.gateways, lambda known: known, _kept_gateway),
    Table("network_generation", int, lambda state: state.networks.generation, lambda number: {"": number}),
    Table("network_known_since", int, lambda state: state.networks.known_since, lambda number: {"": number}),
    Table("network_ended", int, lambda state: state.networks.ended, lambda number: {"": number}),
    Table("next_job_number", int, lambda state: state.next_job_number, lambda number: {"": number}),
    Table("certificate", Certificate, lambda state: state.certificate, lambda value: {"": value}),
)
TYPES: Mapping[str, Any] = {table.kind: table.type for table in TABLES}
"""The type of the values of each kind."""
Values = Mapping[str, Mapping[str, Any]]
"""Durable values by kind and id."""


def changes(before: State, after: State) -> tuple[Persist, ...]:
    """Return the effect that writes what differs between two states; none where nothing does, or without a journal."""
    if not after.settings.is_journaled:
        return ()
    found: dict[tuple[str, str], object] = {}
    for table in TABLES:
        was, now = table.part(before), table.part(after)
        if was is not now:
            found |= _differing(table, table.rows(was), table.rows(now))
    return (Persist(values=found),) if found else ()


def _differing(table: Table, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {}
    for name, value in after.items():
        was = before.get(name)
        if was is value:
            continue
        old, new = None if was is None else table.kept(was), table.kept(value)
        if (old is None) != (new is None) or (old is not None and not table.is_same(old, new)):
            found[table.kind, name] = new
    for name in before.keys() - after.keys():
        if table.kept(before[name]) is not None:
            found[table.kind, name] = None
    return found


def restored(state: State, values: Values, now: int) -> State:
    """Return an initial state with durable values; leases begin again in full, and no pin of another job stays."""
    found: Values = {kind: values.get(kind, {}) for kind in TYPES}
    state = replace(
        state,
        drained=frozenset(found["drain"].values()),
        down_ports=frozenset(found["port"].values()),
        next_job_number=found["next_job_number"].get("", state.next_job_number),
        certificate=found["certificate"].get("", state.certificate),
        networks=_networks(found),
        started_unix_ms=None,
        bad_cables=_bad_cables(state, found),
    )
    state = replace(state, health=health_of(state), cabling=_cabling(state, found))
    if state.out_of_use != state.compiled_for:
        underlay = steering_of(state.fabric).underlay(state.fabric, state.layout, state.out_of_use)
        state = replace(state, underlay=underlay, compiled_for=state.out_of_use)
    dead = dead_links(state.fabric, state.out_of_use)
    jobs = sorted(found["job"].values(), key=lambda job: job.number)
    if jobs and found["bad_cable"].keys() - state.bad_cables.keys():
        # They were planned with what these cables had left, which is not known any more.
        state = replace(state, queue=(ReplanWork(cause=Cause.RECOVERY, reason="the controller has started again"),))
    return replace(state, jobs={job.request.job_id: _begun_again(state, job, dead, now) for job in jobs})


def _bad_cables(state: State, found: Values) -> Mapping[str, BadCable]:
    """Return the bad cables at a start: they stay so until their source says otherwise, which starts with them too.

    Those that flows will not be moved for, or of a journal from before they were kept, are sound at first.
    """
    cables, left = state.fabric.cable_by_link, found["bad_cable"]
    return {
        name: BadCable(found=known.found, left_bps=left[name], left_out=known.left_out)
        for name, known in found["known_bad_cable"].items()
        if name in cables and name in left and state.settings.acts_on(known.found)
    }


def _cabling(state: State, found: Values) -> Cabling:
    """Return the cabling at a start: what was out of use for it stays so until it is heard to be right.

    Where nothing is to be left out, it returns to use.
    """
    followed = tuple(sorted(found["follow"].values()))
    if policy_of(state) is CablingPolicy.IGNORE:
        return Cabling(followed=followed)
    joining = frozenset(found["joining"].values())
    left_out = (joining | frozenset(found["cabling"].values())) & state.fabric.cable_by_link.keys()
    return Cabling(verdict=Verdict(left_out=left_out), followed=followed, joining=joining)


def _begun_again(state: State, job: Job, dead: frozenset[str], now: int) -> Job:
    if job.state is JobState.DEGRADED and not job.stranded and job.healthy_utilisation is None:
        # A switch lacked its rules; whether it still does shows when it connects.
        job = replace(
            job, state=JobState.RUNNING, generation=job.generation + 1, reason="the controller has started again"
        )
    return replace(
        job,
        lease_expires_unix_ms=now + job.lease_ms,
        pin_rules=pin_rules_of(state.fabric, job.request, job.flows, job.number, dead),
        severed=job.flows.pinned and not dead.isdisjoint(job.flows.link_loads_bps),
    )


def _networks(found: Values) -> Networks:
    vpcs: Mapping[str, Vpc] = found["vpc"]
    peerings = frozenset(found["peering"].values())
    vteps = {name: frozenset(endpoint.vtep for endpoint in vpc.endpoints) for name, vpc in vpcs.items()}
    hosts = frozenset[IPv4Address]().union(*vteps.values())
    return Networks(
        vpcs=vpcs,
        vteps=vteps,
        claims={claim: vpc.id for vpc in vpcs.values() for claim, _ in claims_of(vpc)},
        peerings=peerings,
        peers=neighbours_of(peerings),
        border=found["border"].get("", ()),
        load_balancers=found["load_balancer"],
        endpoints=sum(len(vpc.endpoints) for vpc in vpcs.values()),
        generation=found["network_generation"].get("", 0),
        known_since=found["network_known_since"].get("", 0),
        has_border="" in found["border"],
        ended=found["network_ended"].get("", 0),
        gateways={
            name: Gateway(vtep=each.vtep, kind=each.kind, host_vtep=each.host_vtep, pools=each.pools, ports=each.ports)
            for name, each in found["gateway"].items()
            if each.kind is not Kind.HOST or each.vtep in hosts
        },
    )
