"""Security groups and the border firewall: the first rule that matches decides."""

from heddle.dataplane.jit import element, inline
from heddle.dataplane.packet.transport import ICMP, ICMPV6
from heddle.dataplane.tables.schema import Tables

NO_RULE, DENY, ALLOW = -1, 0, 1


@element
def _first_match(
    tables: Tables, first: int, count: int, family: int, protocol: int, remote_hi: int, remote_lo: int, port: int
) -> int:
    """Return the verdict of the first matching rule, or NO_RULE."""
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
    """Return whether a range of rows of `Tables.rules` allows a packet to open a connection.

    `remote` is the far end's address. `port` is the destination port, or 0 for protocols without ports, which
    therefore match only rules that begin at port 0. Ports are not compared for ICMP, which also stands for ICMPv6.
    """
    judged = ICMP if protocol == ICMPV6 else protocol
    verdict = _first_match(tables, first, count, family, judged, remote_hi, remote_lo, port)
    if verdict == NO_RULE:
        return default
    return verdict == ALLOW
