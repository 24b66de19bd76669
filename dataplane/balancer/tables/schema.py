"""The balancer's tables: those that a gateway has as well, by the same names, and its services and back ends.

Shared elements find what they read by name, so they work on these tables too: `underlay` decapsulates by
`vnis`, `vteps` and `ports`, `leave` sends by `next_hops` and `templates`. An address `::a.b.c.d` in `endpoints`, which
no packet can have (RFC 4291, 2.5.5.1), is the gateway with the VTEP a.b.c.d: the next hop towards clients outside of
the VPC.

`slots` is not replaced with a generation: it is written in place, only where a back end changes (`maglev`).
"""

from collections import namedtuple
from typing import Any

from heddle.dataplane.jit import row_type
from heddle.dataplane.tables import schema as shared

SERVICE = row_type(
    "vni",
    "slots",  # its row in `slots`
    "open",  # 1 if new connections are accepted; 0 if no back end is up: they are refused
    "mode",
    "pool",  # rows of `pools`: the source addresses of full NAT
    "pool_count",
)
"""A virtual IP's port."""
BACK_END = row_type(
    "number",  # of this back end in this service; never given to another one. -1: a free row
    "up",  # 0: datagrams and RoCE move to another back end
    "next_hop",  # row of `next_hops`
    "hi",  # its address
    "lo",
    "port",
    "mode",
    "service",  # row of `services`
)
"""One cache line; its row is `number` modulo the number of rows."""
DIRECT, FULL_NAT = range(2)
"""Modes: the back end has the virtual IP, and replies past the balancer; or it sees an address of the pool."""
SERVICES_FIELDS = (
    "services",
    "service_rows",
    "back_ends",
    "back_end_rows",
    "pools",
    "own_addresses",
    "timeouts",
    "slots",
)
"""services: (vni << 24 | port << 8 | protocol, address hi, lo) -> row of `service_rows`.
service_rows: SERVICE rows.
back_ends: BACK_END rows, a power of two.
back_end_rows: (row of service << 16 | port, address hi, lo) -> row of `back_ends`.
pools: addresses, (hi, lo) each.
own_addresses: (vni, address hi, lo) -> VIRTUAL or POOL.
timeouts: by connection state (`memory.connections`), ticks.
slots: int32, shape (services, SLOTS): rows of `back_ends`.
"""
VIRTUAL, POOL = range(2)
make_type: Any = namedtuple
"""Under another name, because a type checker knows named tuples of literal fields alone."""
Tables: Any = make_type("Tables", (*shared.Tables._fields, *SERVICES_FIELDS), module=__name__)
ROCE_PORT = 4791


def service_key(vni: int, port: int, protocol: int) -> int:
    """Return the first word of a service's key."""
    return vni << 24 | port << 8 | protocol
