"""Compare the queues of one port with what a plan assumes: rate, frames, schedulers, shapers, ECN."""

from collections.abc import Iterator, Mapping

from heddle.controller.model.queueing import KMAX_BYTES, KMIN_BYTES, PMAX, at_rate
from heddle.controller.sonic.buffer_differences import Link, buffer_differences
from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.packets import PLAIN, Packets
from heddle.controller.sonic.wording import Difference, Effect, listed, through
from heddle.foundation.traffic_class import CNP, FLOW_CLASSES, OTHER, TrafficClass

DEFAULT_MTU_BYTES = 9_100
_MARKS_GREEN = ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red")
_SHARING = (*FLOW_CLASSES, OTHER)


def queue_differences(config: ConfigDb, port: str, packets: Packets = PLAIN) -> Iterator[Difference]:
    """Yield the differences of one port's rate, queues and buffers."""
    for each in _differences(config, port, packets.size_bytes):
        yield each._replace(ports=(port,))


def _differences(config: ConfigDb, port: str, roce_bytes: int) -> Iterator[Difference]:
    place = Place("PORT", port, "speed")
    speed_mbps = config.number(place)
    if speed_mbps is None or not 0 < speed_mbps <= 10**7:
        yield Difference(place, config.value(place), "a rate in Mbit/s", "thresholds follow from it")
        return
    mtu = Place("PORT", port, "mtu")
    mtu_bytes = DEFAULT_MTU_BYTES if not config.value(mtu) else config.number(mtu)
    for place in (mtu, *(Place(table, name, "mtu") for table, name in config.groups_of(port))):
        size = config.number(place)
        if config.value(place) and (size is None or not roce_bytes <= size < 1 << 16):
            reason = "RoCE packets are not fragmented, larger ones are discarded"
            yield Difference(place, config.value(place), f"at least {roce_bytes}", reason, effect=Effect.DROPS)
            mtu_bytes = DEFAULT_MTU_BYTES if place is mtu else mtu_bytes
    mtu_bytes = DEFAULT_MTU_BYTES if mtu_bytes is None else mtu_bytes
    yield from _schedulers(config, port, speed_mbps * 10**6)
    yield from _shapers(config, port, speed_mbps * 10**6)
    for each in FLOW_CLASSES:
        if each.ecn:
            yield from _ecn(config, port, each, speed_mbps * 10**6)
    yield from buffer_differences(config, Link(port, speed_mbps, mtu_bytes, roce_bytes))


def _schedulers(config: ConfigDb, port: str, rate_bps: int) -> Iterator[Difference]:
    cnp = config.reference("QUEUE", port, CNP.priority, "scheduler")
    kind = Place("SCHEDULER", config.name(cnp), "type")
    if config.value(kind) != "STRICT":
        reason = "CNPs are served before everything else"
        yield through(config, cnp, kind, "STRICT", reason)
    weights = {}
    for each in _SHARING:
        place = config.reference("QUEUE", port, each.priority, "scheduler")
        kind = Place("SCHEDULER", config.name(place), "type")
        if config.value(kind) == "STRICT":
            yield through(config, place, kind, "DWRR", f"{listed(_SHARING)} share what CNPs leave")
        weights[each] = config.number(Place("SCHEDULER", config.name(place), "weight")) or 1
    for each in FLOW_CLASSES:
        least = -(-weights[OTHER] * each.weight // OTHER.weight)
        if weights[each] < least:
            place = config.reference("QUEUE", port, each.priority, "scheduler")
            weight = Place("SCHEDULER", config.name(place), "weight")
            yield through(config, place, weight, f"at least {least}", f"other traffic gets no more than {each.name}")
    yield from _guarantee(config, port, rate_bps, weights)


def _guarantee(config: ConfigDb, port: str, rate_bps: int, weights: Mapping[TrafficClass, int]) -> Iterator[Difference]:
    """Yield where other traffic is guaranteed more than its share by weight (`cir`, bytes/s)."""
    queue = config.reference("QUEUE", port, OTHER.priority, "scheduler")
    place = Place("SCHEDULER", config.name(queue), "cir")
    most = rate_bps * weights[OTHER] // sum(weights.values()) // 8
    if (config.number(place) or 0) > most:
        reason = f"bytes/s at {rate_bps // 10**6} Mbit/s; more takes from {listed(FLOW_CLASSES)}"
        yield Difference(place, config.value(place), f"at most {most}", reason)


def _shapers(config: ConfigDb, port: str, rate_bps: int) -> Iterator[Difference]:
    """Yield limits (`pir`) below the rate: of the whole port, of queues of flows, of the queue of CNPs."""
    limited = [(config.of_port("PORT_QOS_MAP", port, "scheduler"), "the port is shaped")] + [
        (config.reference("QUEUE", port, each.priority, "scheduler"), f"the queue of {each.name} is shaped")
        for each in (*FLOW_CLASSES, CNP)
    ]
    for place, what in limited:
        name = config.name(place)
        pir, meter = (Place("SCHEDULER", name, field) for field in ("pir", "meter_type"))
        limit = config.number(pir)
        if not limit or not config.has("SCHEDULER", name):
            continue
        if config.value(meter) == "packets":
            yield Difference(meter, "packets", "bytes, or no pir", f"{what} to {limit} packets/s, whatever their size")
        elif limit * 8 < rate_bps:
            least = -(-rate_bps // 8)
            reason = f"{what} to {_rate(limit * 8)} of its {_rate(rate_bps)}, plans count on all of it"
            yield Difference(pir, str(limit), f"none, or at least {least} bytes/s", reason)


def _rate(bps: int) -> str:
    return f"{bps / 10**6:,.0f} Mbit/s" if bps >= 10**6 else f"{bps:,} bit/s"


def _ecn(config: ConfigDb, port: str, of: TrafficClass, rate_bps: int) -> Iterator[Difference]:
    queue = config.reference("QUEUE", port, of.priority, "wred_profile")
    name = config.name(queue)
    mode = Place("WRED_PROFILE", name, "ecn")
    if config.value(mode) not in _MARKS_GREEN:
        yield through(config, queue, mode, "ecn_all", "NICs slow down by marks, before pauses", Effect.UNMARKED)
        return
    enabled = Place("WRED_PROFILE", name, "wred_green_enable")
    if config.value(enabled) != "true":
        reason = "thresholds count only then"
        yield Difference(enabled, config.value(enabled), "true", reason, effect=Effect.UNMARKED)
    for field, wanted in (
        ("green_min_threshold", at_rate(KMIN_BYTES, rate_bps)),
        ("green_max_threshold", at_rate(KMAX_BYTES, rate_bps)),
        ("green_drop_probability", round(100 * PMAX)),
    ):
        place = Place("WRED_PROFILE", name, field)
        if config.number(place) != wanted:
            reason = f"marking at {rate_bps // 10**6} Mbit/s begins and ends there"
            yield Difference(place, config.value(place), str(wanted), reason, effect=Effect.UNMARKED)
