"""Compare the queues and buffers of one port with what a plan assumes: schedulers, ECN, headroom, discards."""

from collections.abc import Iterator

from heddle.controller.model.queueing import KMAX_BYTES, KMIN_BYTES, PMAX, at_rate
from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.headroom import headroom_bytes
from heddle.controller.sonic.kinds import integer
from heddle.controller.sonic.wording import Difference, listed
from heddle.foundation.traffic_class import CNP, FLOW_CLASSES, LOSSLESS, OTHER, TrafficClass

ROCE_FRAME_BYTES = 4_096 + 64
"""The largest RoCEv2 packet with its headers: RoCE sets DF, so a smaller MTU discards."""
DEFAULT_MTU_BYTES = 9_100
DEFAULT_CABLE_METRES = 40
MAX_CABLE_METRES = 100_000
_MARKS_GREEN = ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red")


def queue_differences(config: ConfigDb, port: str) -> Iterator[Difference]:
    """Yield the differences of one port's rate, queues and buffers."""
    place = Place("PORT", port, "speed")
    speed_mbps = config.number(place)
    if speed_mbps is None or not 0 < speed_mbps <= 10**7:
        yield Difference(place, config.value(place), "a rate in Mbit/s", "thresholds follow from it")
        return
    mtu = Place("PORT", port, "mtu")
    mtu_bytes = DEFAULT_MTU_BYTES if not config.value(mtu) else config.number(mtu)
    if mtu_bytes is None or not ROCE_FRAME_BYTES <= mtu_bytes < 1 << 16:
        reason = "RoCE packets are not fragmented, larger ones are discarded"
        yield Difference(mtu, config.value(mtu), f"at least {ROCE_FRAME_BYTES}", reason)
        mtu_bytes = DEFAULT_MTU_BYTES
    yield from _schedulers(config, port)
    headroom = headroom_bytes(speed_mbps, _cable_metres(config, port), mtu_bytes)
    for each in FLOW_CLASSES:
        if each.ecn:
            yield from _ecn(config, port, each, speed_mbps * 10**6)
    for each in LOSSLESS:
        yield from _lossless_group(config, port, each, headroom)
        yield from _lossless_queue(config, port, each)


def _schedulers(config: ConfigDb, port: str) -> Iterator[Difference]:
    cnp = _reference(config, "QUEUE", port, CNP.priority, "scheduler")
    kind = Place("SCHEDULER", config.name(cnp), "type")
    if config.value(kind) != "STRICT":
        reason = "CNPs are served before everything else"
        yield _through(config, cnp, kind, "STRICT", reason)
    sharing = (*FLOW_CLASSES, OTHER)
    weights = {}
    for each in sharing:
        place = _reference(config, "QUEUE", port, each.priority, "scheduler")
        kind = Place("SCHEDULER", config.name(place), "type")
        if config.value(kind) == "STRICT":
            yield _through(config, place, kind, "DWRR", f"{listed(sharing)} share what CNPs leave")
        weights[each] = config.number(Place("SCHEDULER", config.name(place), "weight")) or 1
    for each in FLOW_CLASSES:
        least = -(-weights[OTHER] * each.weight // OTHER.weight)
        if weights[each] < least:
            place = _reference(config, "QUEUE", port, each.priority, "scheduler")
            weight = Place("SCHEDULER", config.name(place), "weight")
            yield _through(config, place, weight, f"at least {least}", f"other traffic gets no more than {each.name}")


def _ecn(config: ConfigDb, port: str, of: TrafficClass, rate_bps: int) -> Iterator[Difference]:
    queue = _reference(config, "QUEUE", port, of.priority, "wred_profile")
    name = config.name(queue)
    mode = Place("WRED_PROFILE", name, "ecn")
    if config.value(mode) not in _MARKS_GREEN:
        yield _through(config, queue, mode, "ecn_all", "NICs slow down by marks, before pauses")
        return
    enabled = Place("WRED_PROFILE", name, "wred_green_enable")
    if config.value(enabled) != "true":
        yield Difference(enabled, config.value(enabled), "true", "thresholds count only then")
    for own, shared, wanted in (
        ("ecn_green_min_threshold", "green_min_threshold", at_rate(KMIN_BYTES, rate_bps)),
        ("ecn_green_max_threshold", "green_max_threshold", at_rate(KMAX_BYTES, rate_bps)),
        ("ecn_green_mark_probability", "green_drop_probability", round(100 * PMAX)),
    ):
        # Newer releases mark by thresholds of their own, where they are set.
        place = Place("WRED_PROFILE", name, own)
        place = place if config.value(place) else Place("WRED_PROFILE", name, shared)
        if config.number(place) != wanted:
            reason = f"marking of {port} ({rate_bps // 10**6} Mbit/s) begins and ends there"
            yield Difference(place, config.value(place), str(wanted), reason)


def _lossless_group(config: ConfigDb, port: str, of: TrafficClass, headroom: int) -> Iterator[Difference]:
    group = _reference(config, "BUFFER_PG", port, of.priority, "profile")
    name = config.name(group)
    if name == "NULL":
        return  # the dynamic buffer manager computes it from speed, cable and MTU
    if not config.has("BUFFER_PROFILE", name):
        yield Difference(group, config.value(group), "a lossless profile", f"a full buffer would drop {of.name}")
        return
    pool = Place("BUFFER_PROFILE", name, "pool")
    kind = Place("BUFFER_POOL", config.name(pool), "type")
    if config.value(kind) not in ("ingress", "both"):
        yield _through(config, pool, kind, "ingress", "a group is bounded where packets enter")
    xoff, xon = Place("BUFFER_PROFILE", name, "xoff"), Place("BUFFER_PROFILE", name, "xon")
    if (config.number(xoff) or 0) < headroom and config.value(
        Place("BUFFER_PROFILE", name, "headroom_type")
    ) != "dynamic":
        reason = f"what still arrives at {port} after a pause was sent would be dropped"
        yield Difference(xoff, config.value(xoff), f"at least {headroom}", reason)
    if not config.value(xon).lstrip("0") and not config.value(Place("BUFFER_PROFILE", name, "xon_offset")):
        yield Difference(xon, config.value(xon), "more than 0", "a pause would end at an empty buffer only")


def _lossless_queue(config: ConfigDb, port: str, of: TrafficClass) -> Iterator[Difference]:
    queue = _reference(config, "BUFFER_QUEUE", port, of.priority, "profile")
    name = config.name(queue)
    if not config.has("BUFFER_PROFILE", name):
        yield Difference(queue, config.value(queue), "a profile", f"the {of.name} queue would have no buffer")
        return
    pool = Place("BUFFER_PROFILE", name, "pool")
    kind = Place("BUFFER_POOL", config.name(pool), "type")
    if config.value(kind) not in ("egress", "both"):
        yield _through(config, pool, kind, "egress", "a queue takes its buffer where packets leave")
    action = Place("BUFFER_PROFILE", name, "packet_discard_action")
    if config.value(action) not in ("", "drop"):
        yield Difference(action, config.value(action), "drop", f"{of.name} is lossless: nothing of it is trimmed")


def _reference(config: ConfigDb, table: str, port: str, index: int, field: str) -> Place:
    """Return the field of the row of a queue or group; without such a row, of the row that it would have."""
    return Place(table, config.key_at(table, port, index) or f"{port}|{index}", field)


def _through(config: ConfigDb, reference: Place, place: Place, wanted: str, reason: str) -> Difference:
    """Return a difference of a row that `reference` names; of the reference itself where it leads to no row."""
    if config.has(place.table, place.key):
        return Difference(place, config.value(place), wanted, reason)
    return Difference(reference, config.value(reference), f"a row of {place.table} with {place.field} {wanted}", reason)


def _cable_metres(config: ConfigDb, port: str) -> int:
    """Return the longest length that a row of CABLE_LENGTH gives: rows of several names may hold one port."""
    texts = (config.value(Place("CABLE_LENGTH", key, port)) for key in config.tables.get("CABLE_LENGTH", {}))
    found = [integer(text.removesuffix("m")) for text in texts if not text.startswith("-")]
    return min(max((each for each in found if each is not None), default=DEFAULT_CABLE_METRES), MAX_CABLE_METRES)
