"""Find access lists that drop or redirect RoCE packets: the plan's paths are those of the routing tables.

A rule is compared field by field with the RoCE packets of a class: IPv4, UDP, destination port 4791, any planned source
port, the DSCP of the class; or, where packets name their paths, with its outer header. Addresses and what else is not
known of packets make a rule one that may fit.
"""

from collections.abc import Iterator
from enum import IntEnum

from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.packets import PLAIN, Packets
from heddle.controller.sonic.wording import Difference, Effect
from heddle.foundation.traffic_class import CNP, FLOW_CLASSES, TrafficClass

_TABLE, _RULE = "ACL_TABLE", "ACL_RULE"
_PLANNED_PORTS = (49_152, 65_535)
_TAKES = ("DROP", "DENY", "TRAP", "REDIRECT")
_FORWARDS = ("FORWARD", "ACCEPT")
_WANTED = "FORWARD for RoCE packets"
_NO_MATCH = ("PRIORITY", "RULE_DESCRIPTION")
_ACTION = "_ACTION"
"""The end of the names of fields that act on the packets that a rule fits."""


class _Fit(IntEnum):
    """Which RoCE packets of a class a rule fits."""

    NONE = 0
    SOME = 1
    ALL = 2


def acl_differences(config: ConfigDb, packets: Packets = PLAIN) -> Iterator[Difference]:
    """Yield, for each access list at ports of the fabric, the rules that take RoCE packets off their path."""
    for name, row in config.tables.get(_TABLE, {}).items():
        ports = _ports(config, name)
        if ports and str(row.get("type", "")).upper() not in packets.unseen_by:
            yield from (each._replace(ports=ports) for each in _that_take(config, name, packets))


def _ports(config: ConfigDb, name: str) -> tuple[str, ...]:
    """Return the ports that a table is bound to: those of the fabric that are up, port channels and VLANs."""
    bound = (part.strip() for part in config.value(Place(_TABLE, name, "ports")).split(","))
    up, known = set(config.ports()), config.tables.get("PORT", {})
    return tuple(port for port in bound if port and (port in up or port not in known))


def _that_take(config: ConfigDb, name: str, packets: Packets) -> Iterator[Difference]:
    """Yield the rules of a table that take packets of a class, each once with all its classes."""
    found: dict[tuple[Place, str], list[TrafficClass]] = {}
    for traffic in (*FLOW_CLASSES, CNP):
        for each in _taking(config, name, packets, traffic):
            found.setdefault(each, []).append(traffic)
    for (place, unsure), classes in found.items():
        which = f"RoCE packets ({' and '.join(each.name for each in classes)}, {packets.words})"
        if unsure:
            reason = f"it may fit {which}, {unsure}; which ones is not compared"
            yield Difference(place, config.value(place), "", reason, effect=Effect.NOTE)
        elif classes == [CNP]:
            reason = f"it fits all {which}, without which no NIC slows down"
            yield Difference(place, config.value(place), _WANTED, reason, effect=Effect.UNMARKED)
        else:
            reason = f"it fits all {which}, which would not reach their planned ports"
            yield Difference(place, config.value(place), _WANTED, reason, effect=Effect.DROPS)


def _taking(config: ConfigDb, name: str, packets: Packets, traffic: TrafficClass) -> Iterator[tuple[Place, str]]:
    """Yield the first rule that may take packets of a class, and the one that takes all, each with why it is unsure.

    None follows a rule that forwards all.
    """
    forwarded, noted = _Fit.NONE, False
    for place in _by_priority(config, name):
        fit, action = _fit(config, place.key, packets, traffic), _action(config, place)
        takes = action.startswith(_TAKES)
        if takes and fit is _Fit.ALL and forwarded is _Fit.NONE:
            yield place, ""
        elif takes and fit is not _Fit.NONE and not noted:
            noted = True
            why = (
                "and rules before it forward some" if fit is _Fit.ALL else "by addresses or other fields that it names"
            )
            yield place, why
        elif action.startswith(_FORWARDS):
            forwarded = max(forwarded, fit)
        if forwarded is _Fit.ALL or (takes and fit is _Fit.ALL):
            return


def _action(config: ConfigDb, place: Place) -> str:
    """Return what a rule does to the packets that it fits; one that only mirrors forwards them."""
    if place.field == "REDIRECT_ACTION":
        return "REDIRECT"
    acts = any(field.endswith(_ACTION) for field in config.tables[_RULE][place.key])
    return config.value(place).upper() or ("FORWARD" if acts else "")


def _by_priority(config: ConfigDb, name: str) -> list[Place]:
    """Return the actions of a table's rules, the first that a packet meets before the others."""
    rules = [key for key in config.tables.get(_RULE, {}) if key.partition("|")[0] == name]
    rules.sort(key=lambda key: -(config.number(Place(_RULE, key, "PRIORITY")) or 0))
    places = [[Place(_RULE, key, field) for field in ("REDIRECT_ACTION", "PACKET_ACTION")] for key in rules]
    return [redirect if config.value(redirect) else packet for redirect, packet in places]


def _fit(config: ConfigDb, key: str, packets: Packets, traffic: TrafficClass) -> _Fit:
    """Return which RoCE packets of a class a rule fits, by each of its fields."""
    fields = [each for each in config.tables[_RULE][key] if each not in _NO_MATCH and not each.endswith(_ACTION)]
    values = ((field, config.value(Place(_RULE, key, field))) for field in fields)
    return min((_field_fit(field, text, packets, traffic) for field, text in values), default=_Fit.ALL)


def _field_fit(field: str, text: str, packets: Packets, traffic: TrafficClass) -> _Fit:
    if field in packets.never or (packets.port is None and field.startswith("L4_")):
        return _Fit.NONE
    if field == "IP_TYPE":
        kind = text.upper()
        return _Fit.ALL if kind in packets.ip_types else _Fit.NONE if kind in packets.other_ip_types else _Fit.SOME
    if field == "DSCP":
        return _dscp_fit(text, traffic.dscp)
    if field.endswith("_RANGE"):
        low, _, high = text.partition("-")
        return _range_fit(field, _number(low), _number(high), packets)
    if field in ("IP_PROTOCOL", "NEXT_HEADER", "ETHER_TYPE"):
        wanted = packets.ether_type if field == "ETHER_TYPE" else packets.protocol
        number = _number(text)
        return _Fit.SOME if number is None else _Fit.ALL if number == wanted else _Fit.NONE
    if field in ("L4_SRC_PORT", "L4_DST_PORT"):
        return _range_fit(f"{field}_RANGE", _number(text), _number(text), packets)
    return _Fit.SOME


def _range_fit(field: str, low: int | None, high: int | None, packets: Packets) -> _Fit:
    if low is None or high is None or packets.port is None or field not in ("L4_SRC_PORT_RANGE", "L4_DST_PORT_RANGE"):
        return _Fit.SOME
    first, last = _PLANNED_PORTS if field == "L4_SRC_PORT_RANGE" else (packets.port, packets.port)
    if high < first or low > last:
        return _Fit.NONE
    return _Fit.ALL if low <= first and high >= last else _Fit.SOME


def _dscp_fit(text: str, wanted: int) -> _Fit:
    """Return whether a DSCP, perhaps `value/mask`, is the wanted one."""
    value, _, mask = text.partition("/")
    dscp, bits = _number(value), _number(mask) if mask else 63
    if dscp is None or bits is None:
        return _Fit.SOME
    return _Fit.ALL if wanted & bits == dscp & bits else _Fit.NONE


def _number(text: str) -> int | None:
    """Return a decimal number, or one after 0x, as both are usual in access lists."""
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None
