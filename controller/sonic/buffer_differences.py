"""Compare the buffers of one port with what a plan assumes: headroom, pools, discards, cable length."""

from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.model.queueing import KMAX_BYTES, at_rate
from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.headroom import QUANTUM_BYTES, headroom_bytes, least_headroom_bytes, pause_quanta
from heddle.controller.sonic.kinds import integer
from heddle.controller.sonic.packets import ROCE_BYTES
from heddle.controller.sonic.wording import Difference, Effect, through
from heddle.foundation.traffic_class import LOSSLESS, OTHER, TrafficClass

DEFAULT_CABLE_METRES = 40
MAX_CABLE_METRES = 100_000
WHOLE_POOL = 7
"""The largest dynamic threshold: 128 times what is free, so that a queue may take nearly all of its pool."""
LEAST_SHARE = -3
"""The dynamic threshold of an eighth of what is free."""
_PARTS = 4
"""A threshold of a part is at least so much of a pool."""
COMPUTED = "NULL"
"""The profile of groups whose headroom the dynamic buffer manager computes from speed, cable and MTU."""


class Link(NamedTuple):
    """A port with what its headroom depends on, apart from the cable."""

    port: str
    speed_mbps: int
    mtu_bytes: int
    roce_bytes: int = ROCE_BYTES


def buffer_differences(config: ConfigDb, link: Link) -> Iterator[Difference]:
    """Yield the differences of one port's lossless groups and queues."""
    yield from _cable(config, link.port)
    for each in LOSSLESS:
        yield from _group(config, link, each)
        yield from _queue(config, link, each)


def _cable(config: ConfigDb, port: str) -> Iterator[Difference]:
    for key in config.tables.get("CABLE_LENGTH", {}):
        place = Place("CABLE_LENGTH", key, port)
        if config.value(place) == "0m":
            reason = "SONiC's buffer manager removes the lossless groups of a port with 0m"
            yield Difference(place, "0m", "the cable's metres", reason, effect=Effect.DROPS)


def _group(config: ConfigDb, link: Link, of: TrafficClass) -> Iterator[Difference]:
    group = config.reference("BUFFER_PG", link.port, of.priority, "profile")
    name = config.name(group)
    if name == COMPUTED:
        yield from _computed(config, link.roce_bytes)
        return
    if not config.has("BUFFER_PROFILE", name):
        reason = f"a full buffer would drop {of.name}"
        if not config.value(group) and _cable_metres(config, link.port):
            reason += ", unless the switch's buffer manager adds one from its pg_profile_lookup.ini"
        yield Difference(group, config.value(group), "a lossless profile", reason, effect=Effect.DROPS)
        return
    pool = Place("BUFFER_PROFILE", name, "pool")
    kind = Place("BUFFER_POOL", config.name(pool), "type")
    if config.value(kind) not in ("ingress", "both"):
        yield through(config, pool, kind, "ingress", "a group is bounded where packets enter", Effect.DROPS)
    if config.value(Place("BUFFER_PROFILE", name, "headroom_type")) != "dynamic":
        yield from _headroom(config, link, Place("BUFFER_PROFILE", name, "xoff"))
        yield from _reserved(config, name, config.name(pool))
    xon = Place("BUFFER_PROFILE", name, "xon")
    if not config.value(xon).lstrip("0") and not config.value(Place("BUFFER_PROFILE", name, "xon_offset")):
        yield Difference(xon, config.value(xon), "more than 0", "a pause would end at an empty buffer only")


def _headroom(config: ConfigDb, link: Link, xoff: Place) -> Iterator[Difference]:
    """Yield headroom that no sender can keep to, and as a note what holds for some that IEEE 802.3 allows."""
    given = _cable_metres(config, link.port)
    metres = min(DEFAULT_CABLE_METRES if given is None else given, MAX_CABLE_METRES)
    least = least_headroom_bytes(link.speed_mbps, metres, link.mtu_bytes, link.roce_bytes)
    worst = headroom_bytes(link.speed_mbps, metres, link.mtu_bytes)
    found = config.number(xoff) or 0
    cable = f"{metres} m{' (no CABLE_LENGTH)' if given is None else ''} at {link.speed_mbps} Mbit/s"
    if found < least:
        reason = (
            f"what still arrives after a pause was sent would be dropped: {cable} there and back, "
            f"a frame of the MTU ({link.mtu_bytes}) and one of RoCE ({link.roce_bytes})"
        )
        yield Difference(xoff, config.value(xoff), f"at least {least}", reason, effect=Effect.DROPS)
    elif found < worst:
        quanta = (found - least) // QUANTUM_BYTES
        reason = (
            f"enough for {cable} if the sender stops within {quanta} pause quanta; "
            f"the most that IEEE 802.3 allows ({pause_quanta(link.speed_mbps)}) and frames of the MTU need {worst}"
        )
        yield Difference(xoff, config.value(xoff), str(worst), reason, effect=Effect.NOTE)


def _reserved(config: ConfigDb, profile: str, pool: str) -> Iterator[Difference]:
    """Yield, as a note, headroom that neither the profile reserves nor a shared headroom of its pool holds."""
    size, xoff = (Place("BUFFER_PROFILE", profile, field) for field in ("size", "xoff"))
    reserved, shared = config.number(size), config.number(Place("BUFFER_POOL", pool, "xoff"))
    if reserved is not None and reserved < (config.number(xoff) or 0) and not shared:
        reason = f"less than xoff ({config.value(xoff)}), and BUFFER_POOL|{pool} has no shared headroom (xoff)"
        yield Difference(size, config.value(size), config.value(xoff), reason, effect=Effect.NOTE)


def _computed(config: ConfigDb, roce_bytes: int) -> Iterator[Difference]:
    """Yield why the dynamic buffer manager would not compute a lossless group's headroom, or for smaller packets."""
    model = Place("DEVICE_METADATA", "localhost", "buffer_model")
    if config.has("DEVICE_METADATA", "localhost") and config.value(model) != "dynamic":
        reason = f"only then SONiC computes the headroom of groups with profile {COMPUTED}"
        yield Difference(model, config.value(model), "dynamic", reason, effect=Effect.DROPS)
    for key in config.tables.get("LOSSLESS_TRAFFIC_PATTERN", {}):
        mtu = Place("LOSSLESS_TRAFFIC_PATTERN", key, "mtu")
        size = config.number(mtu)
        if size is not None and size < roce_bytes:
            reason = f"SONiC computes headroom for lossless packets of that size; RoCE's have up to {roce_bytes}"
            yield Difference(mtu, config.value(mtu), str(roce_bytes), reason, effect=Effect.NOTE)


def _queue(config: ConfigDb, link: Link, of: TrafficClass) -> Iterator[Difference]:
    queue = config.reference("BUFFER_QUEUE", link.port, of.priority, "profile")
    name = config.name(queue)
    if not config.has("BUFFER_PROFILE", name):
        reason = f"the {of.name} queue would have no buffer"
        yield Difference(queue, config.value(queue), "a profile", reason, effect=Effect.DROPS)
        return
    pool = Place("BUFFER_PROFILE", name, "pool")
    kind = Place("BUFFER_POOL", config.name(pool), "type")
    if config.value(kind) not in ("egress", "both"):
        yield through(config, pool, kind, "egress", "a queue takes its buffer where packets leave", Effect.DROPS)
    other = config.reference("BUFFER_QUEUE", link.port, OTHER.priority, "profile")
    share = config.number(Place("BUFFER_PROFILE", name, "dynamic_th"))
    if config.name(other) == name and share is not None and share < WHOLE_POOL:
        reason = f"{of.name} would be dropped where {OTHER.name} is: its queue is bounded where packets leave"
        wanted = "a profile of lossless queues"
        yield Difference(queue, config.value(queue), wanted, reason, effect=Effect.DROPS)
    else:
        yield from _bound(config, link, name, of)
    action = Place("BUFFER_PROFILE", name, "packet_discard_action")
    if config.value(action) not in ("", "drop"):
        reason = f"{of.name} is lossless: nothing of it is trimmed"
        yield Difference(action, config.value(action), "drop", reason, effect=Effect.DROPS)


def _bound(config: ConfigDb, link: Link, profile: str, of: TrafficClass) -> Iterator[Difference]:
    """Yield a bound where packets leave that is reached before a full group pauses where they enter.

    It is certain for one below the threshold of full marking, and for less than an eighth of what is free (vendors ship
    a half). Chips of several parts have thresholds of a part, such as a quarter of the pool.
    """
    pool = config.name(Place("BUFFER_PROFILE", profile, "pool"))
    is_static = config.value(Place("BUFFER_POOL", pool, "mode")) != "dynamic"
    place = Place("BUFFER_PROFILE", profile, "static_th" if is_static else "dynamic_th")
    bound = config.number(place)
    if bound is None:
        return
    full = at_rate(KMAX_BYTES, link.speed_mbps * 10**6)
    reason = f"{of.name} would be dropped at its queue, before its group pauses the sender"
    if bound < (full if is_static else LEAST_SHARE):
        wanted = f"at least {full}, the size of the pool at best" if is_static else f"{WHOLE_POOL}: all of the pool"
        yield Difference(place, str(bound), wanted, reason, effect=Effect.DROPS)
    size = config.number(Place("BUFFER_POOL", pool, "size")) or 0
    if full <= bound < size // _PARTS if is_static else LEAST_SHARE <= bound < WHOLE_POOL:
        reason = f"less than the pool; where many senders share a queue, {reason}"
        yield Difference(place, str(bound), "", reason, effect=Effect.NOTE)


def _cable_metres(config: ConfigDb, port: str) -> int | None:
    """Return the longest length that a row of CABLE_LENGTH gives: rows of several names may hold one port."""
    texts = (config.value(Place("CABLE_LENGTH", key, port)) for key in config.tables.get("CABLE_LENGTH", {}))
    found = [integer(text.removesuffix("m")) for text in texts if not text.startswith("-")]
    return max((each for each in found if each is not None), default=None)
