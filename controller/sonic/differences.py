"""Compare a SONiC switch's config_db with what a plan assumes. Profiles and maps may have any name.

Each check yields a `Difference` for every field that the plan's assumptions do not hold for. What is stricter than they
need is none: more headroom, a higher weight of the data queue.
"""

from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.sonic.acl_differences import acl_differences
from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.packets import PLAIN, Packets
from heddle.controller.sonic.path_differences import path_differences
from heddle.controller.sonic.port_differences import queue_differences
from heddle.controller.sonic.wording import Difference, Effect, listed
from heddle.foundation.traffic_class import CLASSES, CNP, FLOW_CLASSES, LOSSLESS, OTHER, PRIORITY_OF_DSCP, TrafficClass

DSCP_TO_TC = "dscp_to_tc_map"


class _Map(NamedTuple):
    """A map of PORT_QOS_MAP: the table that its field refers to, and what matters of it.

    `drops`: the keys whose packets are lost if they are mapped elsewhere. `optional`: a port without this map has
    what is wanted.
    """

    field: str
    table: str
    wanted: dict[str, str]
    reason: str
    drops: frozenset[str]
    optional: bool = False


_PAUSED = [str(each.priority) for each in LOSSLESS]
_LOSSLESS = listed(LOSSLESS)
_NAMED = (*FLOW_CLASSES, CNP)
_FLOWS = ", ".join(f"{each.name} has DSCP {each.dscp} and traffic class {each.priority}" for each in FLOW_CLASSES)
_MAPS = (
    _Map(
        DSCP_TO_TC,
        "DSCP_TO_TC_MAP",
        {str(dscp): str(PRIORITY_OF_DSCP.get(dscp, 0)) for dscp in range(64)},
        f"{_FLOWS}, {CNP.name} have class {CNP.priority}, everything else {OTHER.priority}",
        frozenset(str(each.dscp) for each in LOSSLESS),
    ),
    _Map(
        "tc_to_queue_map",
        "TC_TO_QUEUE_MAP",
        {str(each.priority): str(each.priority) for each in CLASSES},
        f"{listed((*_NAMED, OTHER))} have a queue each",
        frozenset(_PAUSED),
    ),
    _Map(
        "tc_to_pg_map",
        "TC_TO_PRIORITY_GROUP_MAP",
        {str(each.priority): str(each.priority if each.lossless else 0) for each in CLASSES},
        f"the lossless group holds {_LOSSLESS} alone",
        frozenset(_PAUSED),
    ),
    _Map(
        "pfc_to_queue_map",
        "MAP_PFC_PRIORITY_TO_QUEUE",
        {priority: priority for priority in _PAUSED},
        f"a pause of the {_LOSSLESS} priority stops the {_LOSSLESS} queue",
        frozenset(_PAUSED),
    ),
    _Map(
        "pfc_to_pg_map",
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
        {priority: priority for priority in _PAUSED},
        f"a full {_LOSSLESS} group pauses the {_LOSSLESS} priority",
        frozenset(_PAUSED),
        optional=True,
    ),
)
_REMARKED = "tc_to_dscp_map"


def differences(config: ConfigDb) -> Iterator[Difference]:
    """Yield every difference of a switch's configuration from what a plan assumes."""
    return (each for each in comparison(config) if not each.is_note)


def comparison(config: ConfigDb, packets: Packets = PLAIN) -> Iterator[Difference]:
    """Yield every difference, and notes on what holds under a condition only, in the order of the tables.

    Where packets name their paths no hash is compared.
    """
    bound: dict[str, dict[str, list[str]]] = {field: {} for field in (*(each.field for each in _MAPS), _REMARKED)}
    for port in config.ports():
        for each in _MAPS:
            place = _binding(config, port, each.field)
            name = config.name(place)
            if name and config.has(each.table, name):
                bound[each.field].setdefault(name, []).append(port)
            elif name or not each.optional:
                effect = Effect.DROPS
                yield Difference(place, config.value(place), f"a map of {each.table}", each.reason, effect=effect)
        bound[_REMARKED].setdefault(config.name(config.of_port("PORT_QOS_MAP", port, _REMARKED)), []).append(port)
        yield from _pfc(config, port)
        yield from queue_differences(config, port, packets)
    for each in _MAPS:
        for name, ports in bound[each.field].items():
            yield from (found._replace(ports=tuple(ports)) for found in _map_differences(config, each, name))
    for name, ports in bound[_REMARKED].items():
        yield from (found._replace(ports=tuple(ports)) for found in _remarking(config, name))
    for place, earlier in config.overlaps:
        reason = f"{place.table}|{earlier} covers it too, and which of the two a switch applies is not defined"
        yield Difference(place, place.key, "one row for each queue and group", reason)
    if not packets.name_paths:
        yield from path_differences(config)
    yield from acl_differences(config, packets)
    yield from _trimming(config, set(bound[DSCP_TO_TC]))
    yield from _state(config)


def _binding(config: ConfigDb, port: str, field: str) -> Place:
    """Return where a port's map is set: in its own row, else in the global one, which SONiC reads for DSCPs only."""
    own, shared = config.of_port("PORT_QOS_MAP", port, field), Place("PORT_QOS_MAP", "global", field)
    return shared if field == DSCP_TO_TC and not config.value(own) and config.value(shared) else own


def _map_differences(config: ConfigDb, each: _Map, name: str) -> Iterator[Difference]:
    for key, wanted in each.wanted.items():
        place = Place(each.table, name, key)
        found = config.value(place)
        # A DSCP without an entry has traffic class 0.
        if found != wanted and not (each.table == "DSCP_TO_TC_MAP" and not found and wanted == "0"):
            effect = Effect.DROPS if key in each.drops else Effect.OTHER
            yield Difference(place, found, wanted, each.reason, effect=effect)


def _remarking(config: ConfigDb, name: str) -> Iterator[Difference]:
    """Yield classes that leave a port with a DSCP of another class."""
    for each in CLASSES:
        place = Place("TC_TO_DSCP_MAP", name, str(each.priority))
        dscp = config.number(place)
        if dscp is not None and PRIORITY_OF_DSCP.get(dscp, OTHER.priority) != each.priority:
            effect = Effect.DROPS if each.lossless else Effect.OTHER
            yield Difference(place, str(dscp), _own_dscp(each), _next_switch(each, dscp), effect=effect)


def _own_dscp(of: TrafficClass) -> str:
    return "none of another class" if of is OTHER else str(of.dscp)


def _next_switch(of: TrafficClass, dscp: int) -> str:
    taken = next((each for each in CLASSES if each.dscp == dscp), OTHER)
    return f"the next switch takes {of.name} for {taken.name}"


def _pfc(config: ConfigDb, port: str) -> Iterator[Difference]:
    enabled = config.of_port("PORT_QOS_MAP", port, "pfc_enable")
    paused = set(filter(None, config.value(enabled).split(",")))
    if paused != set(_PAUSED):
        are = "is" if len(LOSSLESS) == 1 else "are"
        reason = f"{_LOSSLESS} {are} lossless, and a pause of another class may close a cycle"
        effect = Effect.OTHER if paused.issuperset(_PAUSED) else Effect.DROPS
        yield Difference(enabled, config.value(enabled), ",".join(_PAUSED), reason, effect=effect)
    storm = "a NIC in storm would stop the fabric"
    watched = config.of_port("PORT_QOS_MAP", port, "pfcwd_sw_enable")
    if not set(_PAUSED).issubset(config.value(watched).split(",")):
        yield Difference(watched, config.value(watched), ",".join(_PAUSED), storm)
    action, detection = config.of_port("PFC_WD", port, "action"), config.of_port("PFC_WD", port, "detection_time")
    # orchagent ignores a row without a detection time, and takes one without an action as drop.
    if config.value(action) != "drop" and (config.value(action) or not config.value(detection)):
        yield Difference(action, config.value(action), "drop", storm)
    elif not config.value(detection):
        yield Difference(detection, "", "milliseconds", "SONiC starts no watchdog without it")
    asymmetric = Place("PORT", port, "pfc_asym")
    if config.value(asymmetric) not in ("", "off"):
        reason = f"PFC stops the {_LOSSLESS} priority in both directions"
        yield Difference(asymmetric, config.value(asymmetric), "off", reason, effect=Effect.DROPS)


def _trimming(config: ConfigDb, dscp_maps: set[str]) -> Iterator[Difference]:
    """Yield where trimmed packets would enter the classes of data and CNPs."""
    priorities = [str(each.priority) for each in _NAMED]
    neither = f"neither {' nor '.join(priorities)}"
    for field, what in (("queue_index", "queues"), ("tc_value", "classes")):
        place = Place("SWITCH_TRIMMING", "GLOBAL", field)
        if config.value(place) in priorities:
            reason = f"trimmed packets do not belong in the {what} of {listed(_NAMED)}"
            yield Difference(place, config.value(place), neither, reason)
    place = Place("SWITCH_TRIMMING", "GLOBAL", "dscp_value")
    dscp = config.value(place)
    classes = {config.value(Place("DSCP_TO_TC_MAP", name, dscp)) for name in dscp_maps}
    if dscp and not classes.isdisjoint(priorities):
        reason = f"trimmed packets do not belong in the classes of {listed(_NAMED)}"
        yield Difference(place, dscp, "a DSCP of traffic class 0", reason)


def _state(config: ConfigDb) -> Iterator[Difference]:
    if config.is_whole() and not config.says_which_are_up():
        reason = "SONiC takes all ports as down; those that no row sets down were compared"
        yield Difference(Place("PORT", field="admin_status"), "up on no port", "", reason, effect=Effect.NOTE)
