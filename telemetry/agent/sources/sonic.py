"""Read the counters of a SONiC switch from COUNTERS_DB: SAI counters in Redis hashes, one round trip per period.

    COUNTERS_PORT_NAME_MAP     Ethernet0   -> oid:0x1000000000002
    COUNTERS_QUEUE_NAME_MAP    Ethernet0:3 -> oid:0x1500000000005     queue 3, which SONiC maps to priority 3
    COUNTERS:oid:0x…           SAI_PORT_STAT_IF_OUT_OCTETS -> 123, or N/A where the platform has no such counter
    USER_WATERMARKS:oid:0x…    SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES  (or PERIODIC_WATERMARKS)
    PORT_TABLE:Ethernet0       in APPL_DB: oper_status -> up or down (carrier), speed -> 400000 (Mbit/s, as configured),
                               lanes -> 0,1,2,3, flap_count -> 7
    PORT_TABLE|Ethernet0       in STATE_DB: speed -> the rate that the link runs at, or N/A

The switch updates these hashes once per second by default (`counterpoll`); a shorter sampling period reads the same
values again. Maps and watermarks change slowly and are read every few seconds, in the same round trip. A counter that
disappears keeps its last value; one of the link's errors becomes unknown, as a cable without a count of errors is not
one without errors. SONiC counts damaged frames together with others that are refused (`IF_IN_ERRORS`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from heddle.telemetry.agent.restart import Restarts
from heddle.telemetry.agent.source import DeviceSamples, SourceError
from heddle.telemetry.neighbours.heard import Heard, heard_at
from heddle.telemetry.neighbours.sonic import ENTRY, neighbours
from heddle.telemetry.samples.counters import PRIORITIES
from heddle.telemetry.samples.sample import MAX_PORTS, PortSample, QueueSample
from heddle.telemetry.samples.topic import Source

APPL_DB, COUNTERS_DB, STATE_DB = 0, 2, 6
TIMEOUT_S = 1.0
SLOW_PERIOD_NS = 5_000_000_000  # between two readings of maps and watermarks
MAX_COUNTER = (1 << 64) - 1
MBPS = 1_000_000

_PORT_MAP, _QUEUE_MAP = "COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP"
_PORT = "SAI_PORT_STAT_"
_TRAFFIC = {
    "tx_bytes": ("IF_OUT_OCTETS",),
    "rx_bytes": ("IF_IN_OCTETS",),
    "tx_packets": ("IF_OUT_UCAST_PKTS", "IF_OUT_NON_UCAST_PKTS"),
    "rx_packets": ("IF_IN_UCAST_PKTS", "IF_IN_NON_UCAST_PKTS"),
    "drops": ("IF_IN_DISCARDS", "IF_OUT_DISCARDS"),
}
# SAI defines no unit for the plain duration; SONiC's PFC watchdog assumes microseconds, and so does this reader.
_PAUSES = ("RX_PKTS", "TX_PKTS", "RX_PAUSE_DURATION_US", "RX_PAUSE_DURATION")
_ERRORS = {
    f"{_PORT}IF_IN_ERRORS": "rx_crc_errors",
    f"{_PORT}IF_IN_FEC_CORRECTABLE_FRAMES": "fec_corrected_codewords",
    f"{_PORT}IF_IN_FEC_NOT_CORRECTABLE_FRAMES": "fec_uncorrectable_codewords",
}
_PORT_FIELDS = (
    *(_PORT + name for names in _TRAFFIC.values() for name in names),
    *_ERRORS,
    *(f"{_PORT}PFC_{priority}_{name}" for priority in range(PRIORITIES) for name in _PAUSES),
)
_QUEUE_FIELDS = {
    "SAI_QUEUE_STAT_PACKETS": "packets",
    "SAI_QUEUE_STAT_BYTES": "bytes",
    "SAI_QUEUE_STAT_DROPPED_PACKETS": "dropped_packets",
    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "ecn_marked_packets",
    "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES": "depth_bytes",
    "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS": "watchdog_dropped_packets",
}
# The state of SONiC's PFC watchdog (sonic-swss, orchagent/pfcactionhandler.cpp); absent where it does not run.
_WATCHDOG_STATE, _STORMED = "PFC_WD_STATUS", b"stormed"
_WATERMARK = "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"
_WATERMARK_TABLES = ("USER_WATERMARKS", "PERIODIC_WATERMARKS")
_CARRIER: Mapping[object, bool] = {b"up": True, b"down": False}
_LINK_FIELDS = ("oper_status", "speed", "lanes", "flap_count")
_PRIORITY = {str(priority): priority for priority in range(PRIORITIES)}
_REQUIRED = (f"{_PORT}IF_OUT_OCTETS", f"{_PORT}IF_IN_OCTETS")

Values = Mapping[str, int]


@dataclass(slots=True)
class _Port:
    """A port of the maps: SONiC's name, the fabric's name, and the object ids."""

    alias: str
    name: str
    oid: str
    queues: dict[int, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        return " ".join((self.oid, *(f"{index}={oid}" for index, oid in sorted(self.queues.items()))))


class SonicSwitch:
    """One SONiC switch; `number_of` maps `Ethernet0` to the fabric's port number, or to None for other ports."""

    reads_per_period = 1

    def __init__(self, switch: str, url: str, number_of: Callable[[str], int | None]) -> None:
        """Prepare a connection pool; raises ValueError for an invalid Redis URL."""
        self.name = f"SONiC {switch}"
        self._switch = switch
        self._number_of = number_of
        pool = redis.asyncio.ConnectionPool.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # the next period retries
        )
        pool.connection_kwargs.setdefault("db", COUNTERS_DB)
        self._redis = redis.asyncio.Redis(connection_pool=pool)
        self._counters_db = int(pool.connection_kwargs["db"])
        self._ports: tuple[_Port, ...] = ()
        self._slow_due_ns = 0
        self._last: dict[str, dict[str, int]] = {}
        self._watermarks: dict[str, int] = {}
        self._restarts = Restarts()

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the ports that are in the maps and have counters; raises SourceError if Redis does not reply."""
        try:
            if not self._ports:
                self._learn(await self._query([("HGETALL", _PORT_MAP), ("HGETALL", _QUEUE_MAP)]))
            samples = await self._read_counters(now_unix_ns)
        except (RedisError, OSError, TimeoutError) as fault:
            self._slow_due_ns = 0
            raise SourceError(f"Redis: {fault or type(fault).__name__}") from None
        if not samples:
            self._ports = ()
            raise SourceError(
                f"COUNTERS_DB has no counters of a known port: does {_PORT_MAP} name them, and the port map?"
            )
        return [DeviceSamples(Source.SWITCH, self._switch, samples)]

    async def neighbours(self) -> dict[str, Heard]:
        """Return what the ports hear, by port, as lldp_syncd has it; none before the first `read`. Raises SourceError.

        LLDP_ENTRY_TABLE:Ethernet0 in APPL_DB has the newest neighbour of a port; lldp_syncd writes it every 10 seconds.
        """
        ports = self._ports
        rows = [("HGETALL", f"{ENTRY}{port.alias}") for port in ports]
        try:
            replies = await self._query([("SELECT", str(APPL_DB)), *rows, ("SELECT", str(self._counters_db))])
        except (RedisError, OSError, TimeoutError) as fault:
            raise SourceError(f"Redis: {fault or type(fault).__name__}") from None
        of_port = zip(ports, replies[1:-1], strict=True)
        return {
            port.name: heard_at(port.alias, neighbours(self._switch, {f"{ENTRY}{port.alias}": _text(row)}).advertised)
            for port, row in of_port
            if not isinstance(row, Exception)
        }

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _query(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            replies: list[Any] = await pipe.execute(raise_on_error=False)
        errors = [reply for reply in replies if isinstance(reply, Exception)]
        if len(errors) == len(replies):
            raise errors[0]  # Redis is loading its data, or requires a password
        return replies

    async def _read_counters(self, now_unix_ns: int) -> list[PortSample]:
        ports = self._ports
        queues = [oid for port in ports for oid in port.queues.values()]
        commands: list[tuple[str, ...]] = [("HMGET", f"COUNTERS:{port.oid}", *_PORT_FIELDS) for port in ports]
        commands += [("HMGET", f"COUNTERS:{oid}", *_QUEUE_FIELDS, _WATCHDOG_STATE) for oid in queues]
        slow = now_unix_ns >= self._slow_due_ns or now_unix_ns < self._slow_due_ns - SLOW_PERIOD_NS
        if slow:
            commands += [("HGET", f"{table}:{oid}", _WATERMARK) for table in _WATERMARK_TABLES for oid in queues]
            commands += [("HGETALL", _PORT_MAP), ("HGETALL", _QUEUE_MAP)]
        links: list[tuple[str, ...]] = [("SELECT", str(APPL_DB))]
        links += [("HMGET", f"PORT_TABLE:{port.alias}", *_LINK_FIELDS) for port in ports]
        links += [("SELECT", str(STATE_DB)), *(("HGET", f"PORT_TABLE|{port.alias}", "speed") for port in ports)]
        replies = await self._query([*commands, *links, ("SELECT", str(self._counters_db))])
        states = replies[len(commands) + 1 : len(commands) + len(links)]
        del replies[len(commands) :]
        link_of = {port.oid: _link(states[at], states[len(ports) + 1 + at]) for at, port in enumerate(ports)}
        read = {port.oid: self._values(port.oid, _PORT_FIELDS, replies[at]) for at, port in enumerate(ports)}
        at = len(ports)
        for oid in queues:
            read[oid] = self._values(oid, (*_QUEUE_FIELDS, _WATCHDOG_STATE), replies[at])
            at += 1
        if slow:
            self._slow_due_ns = now_unix_ns + SLOW_PERIOD_NS
            self._take_watermarks(queues, replies[at : at + 2 * len(queues)])
            self._learn(replies[-2:])
        return [
            self._sample(port, read, link_of[port.oid], now_unix_ns)
            for port in ports
            if all(name in read[port.oid] for name in _REQUIRED)
        ]

    def _values(self, oid: str, names: Sequence[str], reply: Sequence[bytes | None] | Exception) -> Values:
        """Return the counters of a hash; a missing or unreadable counter keeps its last value."""
        last = self._last.setdefault(oid, {})
        if isinstance(reply, Exception) or not any(reply):
            return {}  # the object was removed, or is not a hash
        for name, text in zip(names, reply, strict=True):
            if name == _WATCHDOG_STATE:
                last[name] = text == _STORMED
            elif (value := _number(text)) is not None:
                last[name] = value
            elif name in _ERRORS:
                last.pop(name, None)
        return last

    def _take_watermarks(self, queues: Sequence[str], replies: Sequence[object]) -> None:
        users, periodic = replies[: len(queues)], replies[len(queues) :]
        for oid, first, second in zip(queues, users, periodic, strict=True):
            found = [value for value in map(_number, (first, second)) if value is not None]
            self._watermarks[oid] = found[0] if found else 0

    def _learn(self, maps: Sequence[Mapping[bytes, bytes]]) -> None:
        """Store the maps and drop the counters of objects that are no longer in them."""
        ports: dict[str, _Port] = {}
        numbers: set[int] = set()
        if any(isinstance(reply, Exception) for reply in maps):
            raise SourceError(f"{_PORT_MAP} or {_QUEUE_MAP} is not a hash")
        for alias, oid in _text(maps[0]).items():
            number = self._number_of(alias)
            if number is not None and number not in numbers and len(ports) < MAX_PORTS:
                numbers.add(number)
                ports[alias] = _Port(alias, f"{self._switch}:{number}", oid)
        for name, oid in _text(maps[1]).items():
            alias, _, index = name.rpartition(":")
            # Queues from 8 on are multicast queues, on switches that have them.
            if alias in ports and index in _PRIORITY:
                ports[alias].queues[_PRIORITY[index]] = oid
        self._ports = tuple(ports.values())
        known = {oid for port in self._ports for oid in (port.oid, *port.queues.values())}
        self._last = {oid: values for oid, values in self._last.items() if oid in known}
        self._watermarks = {oid: value for oid, value in self._watermarks.items() if oid in known}

    def _sample(self, port: _Port, read: Mapping[str, Values], link: Mapping[str, Any], now_unix_ns: int) -> PortSample:
        values = read[port.oid]
        errors = {name: values[field] for field, name in _ERRORS.items() if field in values}
        traffic: dict[str, Any] = errors | {
            name: min(sum(values.get(_PORT + part, 0) for part in parts), MAX_COUNTER)
            for name, parts in _TRAFFIC.items()
        }
        sample = PortSample(
            port=port.name,
            timestamp_unix_ns=now_unix_ns,
            queues=tuple(self._queue(priority, port, values, read) for priority in range(PRIORITIES)),
            **traffic,
            **link,
        )
        return self._restarts.identified(sample, port.identity)

    def _queue(self, priority: int, port: _Port, values: Values, read: Mapping[str, Values]) -> QueueSample:
        oid = port.queues.get(priority, "")
        of_queue = read.get(oid, {})
        pfc = f"{_PORT}PFC_{priority}_"
        paused_us = values.get(pfc + "RX_PAUSE_DURATION_US", values.get(pfc + "RX_PAUSE_DURATION", 0))
        return QueueSample(
            priority=priority,
            pfc_rx_frames=values.get(pfc + "RX_PKTS", 0),
            pfc_tx_frames=values.get(pfc + "TX_PKTS", 0),
            paused_ns=min(paused_us * 1_000, MAX_COUNTER),
            max_depth_bytes=self._watermarks.get(oid, 0),
            watchdog_active=bool(of_queue.get(_WATCHDOG_STATE)),
            **{_QUEUE_FIELDS[name]: value for name, value in of_queue.items() if name != _WATCHDOG_STATE},
        )


def _link(configured: Sequence[bytes | None] | Exception, running_mbps: object) -> dict[str, Any]:
    """Return what is known of a link by its rows of APPL_DB and STATE_DB; the rate that it runs at goes first."""
    if isinstance(configured, Exception):
        return {}
    carrier, configured_mbps, lanes, flaps = configured
    mbps = _number(running_mbps) or _number(configured_mbps)
    return {
        "carrier": _CARRIER.get(carrier),
        "flaps": _number(flaps),
        "speed_bps": min(mbps * MBPS, MAX_COUNTER) if mbps else None,
        "lanes": len(lanes.split(b",")) if lanes else None,
    }


def _number(text: object) -> int | None:
    """Parse a counter; None if it is missing, N/A or not a number."""
    if not isinstance(text, bytes) or not text.isdigit() or len(text) > 20:
        return None
    return min(int(text), MAX_COUNTER)


def _text(pairs: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in pairs.items()}
