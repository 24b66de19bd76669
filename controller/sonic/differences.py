"""Compare a SONiC switch's config_db with what a plan assumes. Profiles and maps may have any name.

Each check yields a `Difference` for every field that the plan's assumptions do not hold for. What is stricter than they
need is none: more headroom, a higher weight of the data queue.
"""

from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.export import HASH_FIELDS
from heddle.controller.sonic.port_differences import queue_differences
from heddle.controller.sonic.wording import Difference, listed
from heddle.foundation.traffic_class import CLASSES, CNP, FLOW_CLASSES, LOSSLESS, OTHER, PRIORITY_OF_DSCP

PRIORITIES = range(8)
SWITCH_HASH = "SWITCH_HASH"
_HASHES = ("ecmp_hash", "ecmp_hash_ipv4", "ecmp_hash_ipv4_rdma")


class _Map(NamedTuple):
    """A map of PORT_QOS_MAP: the table that its field refers to, and what matters of it."""

    field: str
    table: str
    wanted: dict[str, str]
    reason: str


_PAUSED = [str(each.priority) for each in LOSSLESS]
_LOSSLESS = listed(LOSSLESS)
_NAMED = (*FLOW_CLASSES, CNP)
_FLOWS = ", ".join(f"{each.name} has DSCP {each.dscp} and traffic class {each.priority}" for each in FLOW_CLASSES)
_MAPS = (
    _Map(
        "dscp_to_tc_map",
        "DSCP_TO_TC_MAP",
        {str(dscp): str(PRIORITY_OF_DSCP.get(dscp, 0)) for dscp in range(64)},
        f"{_FLOWS}, {CNP.name} have class {CNP.priority}, everything else {OTHER.priority}",
    ),
    _Map(
        "tc_to_queue_map",
        "TC_TO_QUEUE_MAP",
        {str(each.priority): str(each.priority) for each in CLASSES},
        f"{listed((*_NAMED, OTHER))} have a queue each",
    ),
    _Map(
        "tc_to_pg_map",
        "TC_TO_PRIORITY_GROUP_MAP",
        {str(each.priority): str(each.priority if each.lossless else 0) for each in CLASSES},
        f"the lossless group holds {_LOSSLESS} alone",
    ),
    _Map(
        "pfc_to_queue_map",
        "MAP_PFC_PRIORITY_TO_QUEUE",
        {priority: priority for priority in _PAUSED},
        f"a pause of the {_LOSSLESS} priority stops the {_LOSSLESS} queue",
    ),
)


def differences(config: ConfigDb) -> Iterator[Difference]:
    """Yield every difference of a switch's configuration from what a plan assumes, in the order of the tables."""
    bound: dict[str, dict[str, None]] = {each.field: {} for each in _MAPS}
    for port in config.ports():
        for each in _MAPS:
            place = _binding(config, port, each.field)
            name = config.name(place)
            if not name or not config.has(each.table, name):
                yield Difference(place, config.value(place), f"a map of {each.table}", each.reason)
            else:
                bound[each.field][name] = None
        yield from _pfc(config, port)
        yield from queue_differences(config, port)
    for each in _MAPS:
        for name in bound[each.field]:
            yield from _map_differences(config, each, name)
    for place, earlier in config.overlaps:
        reason = f"{place.table}|{earlier} covers it too, and which of the two a switch applies is not defined"
        yield Difference(place, place.key, "one row for each queue and group", reason)
    yield from _hash(config)
    yield from _trimming(config, set(bound["dscp_to_tc_map"]))


def _binding(config: ConfigDb, port: str, field: str) -> Place:
    """Return where a port's map is set: in its own row, else in the global one if that has it."""
    own, shared = Place("PORT_QOS_MAP", port, field), Place("PORT_QOS_MAP", "global", field)
    return shared if not config.value(own) and config.value(shared) else own


def _map_differences(config: ConfigDb, each: _Map, name: str) -> Iterator[Difference]:
    for key, wanted in each.wanted.items():
        place = Place(each.table, name, key)
        found = config.value(place)
        # A DSCP without an entry has traffic class 0.
        if found != wanted and not (each.table == "DSCP_TO_TC_MAP" and not found and wanted == "0"):
            yield Difference(place, found, wanted, each.reason)


def _pfc(config: ConfigDb, port: str) -> Iterator[Difference]:
    enabled = Place("PORT_QOS_MAP", port, "pfc_enable")
    if set(filter(None, config.value(enabled).split(","))) != set(_PAUSED):
        are = "is" if len(LOSSLESS) == 1 else "are"
        reason = f"{_LOSSLESS} {are} lossless, and a pause of another class may close a cycle"
        yield Difference(enabled, config.value(enabled), ",".join(_PAUSED), reason)
    watched = Place("PORT_QOS_MAP", port, "pfcwd_sw_enable")
    if not set(_PAUSED).issubset(config.value(watched).split(",")):
        yield Difference(watched, config.value(watched), ",".join(_PAUSED), "a NIC in storm would stop the fabric")
    action = Place("PFC_WD", port, "action")
    if config.value(action) != "drop":
        yield Difference(action, config.value(action), "drop", "a NIC in storm would stop the fabric")
    asymmetric = Place("PORT", port, "pfc_asym")
    if config.value(asymmetric) not in ("", "off"):
        reason = f"PFC stops the {_LOSSLESS} priority in both directions"
        yield Difference(asymmetric, config.value(asymmetric), "off", reason)


def _hash(config: ConfigDb) -> Iterator[Difference]:
    places = [Place(SWITCH_HASH, "GLOBAL", field) for field in _HASHES]
    for place in places:
        text = config.value(place)
        if not text and place.field != "ecmp_hash":
            continue
        fields = set(filter(None, text.split(",")))
        missing = [field for field in HASH_FIELDS if field not in fields]
        if missing:
            reason = "the source port selects the path: without ports all flows of a pair take one"
            yield Difference(place, text, ",".join(HASH_FIELDS), f"{reason}; missing: {', '.join(missing)}")
        extra = sorted(fields - set(HASH_FIELDS))
        if extra:
            reason = "packets of one flow with the same five-tuple may take other paths than probed"
            yield Difference(place, text, ",".join(HASH_FIELDS), f"{reason}; too many: {', '.join(extra)}")


def _trimming(config: ConfigDb, dscp_maps: set[str]) -> Iterator[Difference]:
    """Yield where trimmed packets would enter the classes of data and CNPs."""
    priorities = [str(each.priority) for each in _NAMED]
    queue = Place("SWITCH_TRIMMING", "GLOBAL", "queue_index")
    if config.value(queue) in priorities:
        reason = f"trimmed packets do not belong in the queues of {listed(_NAMED)}"
        yield Difference(queue, config.value(queue), f"neither {' nor '.join(priorities)}", reason)
    place = Place("SWITCH_TRIMMING", "GLOBAL", "dscp_value")
    dscp = config.value(place)
    classes = {config.value(Place("DSCP_TO_TC_MAP", name, dscp)) for name in dscp_maps}
    if dscp and not classes.isdisjoint(priorities):
        reason = f"trimmed packets do not belong in the classes of {listed(_NAMED)}"
        yield Difference(place, dscp, "a DSCP of traffic class 0", reason)
