"""Security groups and the border firewall: the first rule that matches decides."""

from dataplane.gateway.tables.schema import Tables
from dataplane.jit import element, inline
from dataplane.packet.transport import ICMP, ICMPV6

NO_RULE, DENY, ALLOW = -1, 0, 1


@element
def _first_match(
    tables: Tables, first: int, count: int, family: int, protocol: int, remote_hi: int, remote_lo: int, port: int
) -> int:
    """Return what the first matching of some rows says, or NO_RULE."""
    rules = tables.rules
    for number in range(first, first + count):
        rule = rules[number]
        if rule.family != family or (rule.protocol != 0 and rule.protocol != protocol):
            continue
        if ((remote_lo ^ rule.remote_lo) & rule.mask_lo) | ((remote_hi ^ rule.remote_hi) & rule.mask_hi):
            continue
        if protocol == ICMP or rule.port_min <= port <= rule.port_max:
            return ALLOW if rule.allow else DENY
    return NO_RULE


@inline
def allowed(
    tables: Tables,
    first: int,
    count: int,
    default: bool,
    family: int,
    protocol: int,
    remote_hi: int,
    remote_lo: int,
    port: int,
) -> bool:
    """Say whether some rows of `Tables.rules` let a packet open a connection.

    `remote` is the far end's address, `port` the destination port: 0 for protocols without, which thus match only
    rules from port 0 on; of ICMP, which stands for ICMPv6 as well, no ports are looked at.
    """
    judged = ICMP if protocol == ICMPV6 else protocol
    verdict = _first_match(tables, first, count, family, judged, remote_hi, remote_lo, port)
    if verdict == NO_RULE:
        return default
    return verdict == ALLOW
