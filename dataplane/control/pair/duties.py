"""Derive from the roles that a gateway holds which addresses it answers for and what it forwards.

In active-standby there is one role, named after the lower id: that member's own addresses and all public ones. In
active-active each member's own addresses are a role; the public ones belong to the role of the lower id, and packets
of the other member's connections are forwarded by the copies. A member whose addresses are no role always keeps them.
The member that answers for the public addresses translates the protocols without ports.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address

import numpy as np

from heddle.dataplane.config.local import LocalConfig, Side
from heddle.dataplane.config.pair import Mode, PairConfig
from heddle.dataplane.control.pair.ownership import Terms
from heddle.dataplane.control.slow.directory import Duty
from heddle.dataplane.tables.schema import OWN_ACTIVE, OWN_PORTLESS, OWN_TAKEN_VTEP, Tables

ANNOUNCED_AGAIN_MS = (100, 300, 1000, 3000, 15_000)
"""After a takeover; the third is for neighbour caches that ignore updates for a second (Linux's `locktime`).

The last is for Open vSwitch, whose tunnels learn from an announcement only where an equal one has left no flow: a flow
ends 10 s after its last packet (`max-idle`), plus up to a second.
"""
COPY_MS = 30_000
"""After a split the member that yields waits this long for its connections to be copied."""
SILENT_MS = 10_000
"""For so long after its last heartbeat a partner may serve on; longer, and programs wait too long to connect again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWork:
    """The work of one gateway: input of the table compiler and of the slow path."""

    active: bool
    taken_vtep: IPv4Address | None
    duty: Duty


ALONE = PairWork(active=True, taken_vtep=None, duty=Duty())
"""The work of a gateway without a partner."""


def on_duty(tables: Tables, work: PairWork, generation: int) -> Tables:
    """Return tables that share all arrays but `own`: a takeover changes three words only."""
    own = tables.own.copy()
    own[OWN_ACTIVE] = work.active
    own[OWN_TAKEN_VTEP] = int(work.taken_vtep or 0)
    own[OWN_PORTLESS] = work.duty.public
    return tables._replace(own=own, generation=np.array([generation], dtype=np.int64))


def roles_of(me: str, pair: PairConfig) -> frozenset[str]:
    """Return the roles of a pair."""
    members = {me, pair.partner_id}
    return frozenset(members if pair.mode is Mode.ACTIVE_ACTIVE else {min(members)})


def terms_of(me: str, pair: PairConfig) -> Terms:
    """Return the parameters of the ownership state machine, times converted to ticks."""
    return Terms(
        me=me,
        partner=pair.partner_id,
        roles=roles_of(me, pair),
        missed=pair.missed,
        preempt=pair.preempt,
        hold_ticks=max(1, pair.hold_s * 1000 // pair.interval_ms),
        copy_ticks=max(1, COPY_MS // pair.interval_ms),
        silent_ticks=max(1, SILENT_MS // pair.interval_ms),
        announce_ticks=tuple(sorted({max(1, round(ms / pair.interval_ms)) for ms in ANNOUNCED_AGAIN_MS})),
    )


def work_of(local: LocalConfig, pair: PairConfig, held: frozenset[str]) -> PairWork:
    """Return the work of a gateway that holds these roles."""
    me, roles = local.gateway_id, roles_of(local.gateway_id, pair)
    numbers = {interface.name: number for number, interface in enumerate(local.interfaces)}
    taken = {numbers[name]: address for name, address in pair.takes_over if name in numbers}
    taken = taken if pair.partner_id in held else {}
    vteps = [address for number, address in taken.items() if local.interfaces[number].side is Side.UNDERLAY]
    return PairWork(
        active=bool(held),
        taken_vtep=vteps[0] if vteps else None,
        duty=Duty(own=me in held or me not in roles, public=min(roles) in held, taken=taken),
    )
