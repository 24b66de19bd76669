"""Find access lists that drop or redirect RoCE packets: the plan's paths are those of the routing tables.

A rule is compared field by field with a RoCE packet: IPv4, UDP, destination port 4791, any planned source port, the
DSCP of a flow. Addresses and what else is not known of packets make a rule one that may fit.
"""

from collections.abc import Iterator
from enum import IntEnum

from heddle.controller.model.rule import ETH_IPV4, IP_UDP, ROCE_PORT
from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.wording import Difference, Effect
from heddle.foundation.traffic_class import FLOW_CLASSES

_TABLE, _RULE = "ACL_TABLE", "ACL_RULE"
_OTHER_TYPES = ("CTRLPLANE", "L3V6", "MIRRORV6")
"""Types of tables that see no RoCE packet: the switch's own services, IPv6."""
_PLANNED_PORTS = (49_152, 65_535)
_IP_TYPES = ("ANY", "IP", "IPV4ANY", "NON_IPV6", "NON_ARP")
_NEVER = ("TCP_FLAGS", "ICMP_TYPE", "ICMP_CODE", "ICMPV6_TYPE", "ICMPV6_CODE", "SRC_IPV6", "DST_IPV6", "NEXT_HEADER")
_TAKES = ("DROP", "DENY", "TRAP", "REDIRECT")
_FORWARDS = ("FORWARD", "ACCEPT")
_WANTED = "FORWARD for RoCE packets"
_NO_MATCH = ("PRIORITY", "PACKET_ACTION", "RULE_DESCRIPTION")


class _Fit(IntEnum):
    """Which RoCE packets a rule fits."""

    NONE = 0
    SOME = 1
    ALL = 2


def acl_differences(config: ConfigDb) -> Iterator[Difference]:
    """Yield, for each access list at ports of the fabric, the first rule that takes RoCE packets off their path."""
    for name, row in config.tables.get(_TABLE, {}).items():
        ports = _ports(config, name)
        if ports and str(row.get("type", "")).upper() not in _OTHER_TYPES:
            yield from (each._replace(ports=ports) for each in _first_that_takes(config, name))


def _ports(config: ConfigDb, name: str) -> tuple[str, ...]:
    """Return the ports that a table is bound to: those of the fabric that are up, port channels and VLANs."""
    bound = (part.strip() for part in config.value(Place(_TABLE, name, "ports")).split(","))
    up, known = set(config.ports()), config.tables.get("PORT", {})
    return tuple(port for port in bound if port and (port in up or port not in known))


def _first_that_takes(config: ConfigDb, name: str) -> Iterator[Difference]:
    """Yield the first rule that takes RoCE packets, unless one before it forwards them all; a note if it may."""
    forwarded = _Fit.NONE
    for place in _by_priority(config, name):
        fit, action = _fit(config, place.key), config.value(place).upper()
        if fit is _Fit.ALL and forwarded is _Fit.NONE and action.startswith(_TAKES):
            reason = f"it fits every RoCE packet (UDP port {ROCE_PORT}), which would not reach its planned port"
            yield Difference(place, config.value(place), _WANTED, reason, effect=Effect.DROPS)
        elif fit is not _Fit.NONE and action.startswith(_TAKES):
            why = (
                "and rules before it forward some" if fit is _Fit.ALL else "by addresses or other fields that it names"
            )
            reason = f"it may fit RoCE packets (UDP port {ROCE_PORT}), {why}; which ones is not compared"
            yield Difference(place, config.value(place), "", reason, effect=Effect.NOTE)
        elif action.startswith(_FORWARDS):
            forwarded = max(forwarded, fit)
        if forwarded is _Fit.ALL or (fit is not _Fit.NONE and action.startswith(_TAKES)):
            return


def _by_priority(config: ConfigDb, name: str) -> list[Place]:
    """Return the actions of a table's rules, the first that a packet meets before the others."""
    rules = [key for key in config.tables.get(_RULE, {}) if key.partition("|")[0] == name]
    rules.sort(key=lambda key: -(config.number(Place(_RULE, key, "PRIORITY")) or 0))
    return [Place(_RULE, key, "PACKET_ACTION") for key in rules]


def _fit(config: ConfigDb, key: str) -> _Fit:
    """Return which RoCE packets a rule fits, by each of its fields."""
    fields = config.tables[_RULE][key].keys() - set(_NO_MATCH)
    return min((_field_fit(field, config.value(Place(_RULE, key, field))) for field in fields), default=_Fit.ALL)


def _field_fit(field: str, text: str) -> _Fit:
    if field in _NEVER:
        return _Fit.NONE
    if field == "IP_TYPE":
        return _Fit.ALL if text.upper() in _IP_TYPES else _Fit.NONE
    if field == "DSCP":
        return _dscp_fit(text)
    if field.endswith("_RANGE"):
        low, _, high = text.partition("-")
        return _range_fit(field, _number(low), _number(high))
    if field in ("IP_PROTOCOL", "ETHER_TYPE"):
        wanted = IP_UDP if field == "IP_PROTOCOL" else ETH_IPV4
        number = _number(text)
        return _Fit.SOME if number is None else _Fit.ALL if number == wanted else _Fit.NONE
    if field in ("L4_SRC_PORT", "L4_DST_PORT"):
        return _range_fit(f"{field}_RANGE", _number(text), _number(text))
    return _Fit.SOME


def _range_fit(field: str, low: int | None, high: int | None) -> _Fit:
    if low is None or high is None or field not in ("L4_SRC_PORT_RANGE", "L4_DST_PORT_RANGE"):
        return _Fit.SOME
    first, last = _PLANNED_PORTS if field == "L4_SRC_PORT_RANGE" else (ROCE_PORT, ROCE_PORT)
    if high < first or low > last:
        return _Fit.NONE
    return _Fit.ALL if low <= first and high >= last else _Fit.SOME


def _dscp_fit(text: str) -> _Fit:
    """Return whether a DSCP, perhaps `value/mask`, is that of flows: all of one class are as bad as all."""
    value, _, mask = text.partition("/")
    dscp, bits = _number(value), _number(mask) if mask else 63
    if dscp is None or bits is None:
        return _Fit.SOME
    return _Fit.ALL if any(each.dscp & bits == dscp & bits for each in FLOW_CLASSES) else _Fit.NONE


def _number(text: str) -> int | None:
    """Return a decimal number, or one after 0x, as both are usual in access lists."""
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None
