"""A switch that speaks real OpenFlow 1.3 bytes to a controller, for tests without Open vSwitch.

switch = FakeSwitch(datapath_id=1, ports=4)
await switch.connect(host, port)       # repeatable: rules outlive the connection
switch.tables.rules()                  # its entries and groups, as rules of the model
switch.set_port(2, up=False)           # notifies the controller
switch.withheld.add(BARRIER_REQUEST)   # leaves such requests without a reply
switch.refused[FLOW_MOD] = (4, 6)      # refuses such messages with an error
switch.send(b"...")                    # any bytes at all
await switch.closed()                  # the controller has closed the connection
await switch.disconnect()
"""

import asyncio
import contextlib
import ssl
import struct
from collections import Counter

from heddle.testing.switches.flow_table import Refusal, SwitchTables

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FEATURES_REQUEST, FEATURES_REPLY, SET_CONFIG, PORT_STATUS = 5, 6, 9, 12
FLOW_MOD, GROUP_MOD = 14, 15
MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 18, 19, 20, 21
ROLE_REQUEST, ROLE_REPLY, SET_ASYNC = 24, 25, 28
PACKET_OUT, METER_MOD = 13, 29
FLOW, GROUP_DESC, PORT_DESC = 1, 7, 13
EVERYTHING = frozenset(range(30))
PART_BYTES = 60_000


def message(kind: int, body: bytes = b"", xid: int = 0, version: int = 4) -> bytes:
    """Put an OpenFlow header before a body."""
    return struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body


class FakeSwitch:
    """One switch. `tables` may be another switch's, to reconnect as the same switch."""

    def __init__(self, datapath_id: int, ports: int = 4, tables: SwitchTables | None = None) -> None:
        self.datapath_id = datapath_id
        self.ports = dict.fromkeys(range(1, ports + 1), True)
        self.tables = tables or SwitchTables()
        self.withheld: set[int] = set()
        self._kept: list[tuple[int, int, bytes]] = []
        self.refused: dict[int, tuple[int, int]] = {}
        self.delay_s = 0.0
        self.hello = message(HELLO, struct.pack("!HHI", 1, 8, 1 << 4))
        self.received: Counter[int] = Counter()
        self.errors_received: list[tuple[int, int]] = []
        self.generation: int | None = None
        self.tls: ssl.SSLContext | None = None
        self._writer: asyncio.StreamWriter
        self._serving: asyncio.Task[None] | None = None

    async def connect(self, host: str, port: int) -> None:
        """Connect and say Hello; replies are sent in the background."""
        reader, self._writer = await asyncio.open_connection(host, port, ssl=self.tls)
        self._serving = asyncio.create_task(self._serve(reader))
        self.send(self.hello)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    def set_port(self, number: int, *, up: bool) -> None:
        """Change a port and notify the controller."""
        self.ports[number] = up
        self.send(message(PORT_STATUS, struct.pack("!B7x", 2) + self._port(number)))

    async def release(self) -> None:
        """Reply to the withheld requests, and withhold no more."""
        self.withheld.clear()
        kept, self._kept = self._kept, []
        for kind, xid, whole in kept:
            await self._answer(kind, xid, whole)

    async def closed(self, timeout_s: float = 10.0) -> None:
        """Wait until the connection is closed; raises TimeoutError where it stays open."""
        assert self._serving is not None, "the switch was never connected"
        await asyncio.wait_for(asyncio.shield(self._serving), timeout_s)

    def hang_up(self) -> None:
        """Close the connection, as a switch that begins another session."""
        self._writer.close()

    async def disconnect(self) -> None:
        """Disconnect; entries and groups stay."""
        if self._serving is None:
            return
        self._writer.close()
        self._serving.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await self._serving
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        self._serving = None

    async def _serve(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                header = await reader.readexactly(8)
                _, kind, length, xid = struct.unpack("!BBHI", header)
                whole = header + await reader.readexactly(length - 8)
                self.received[kind] += 1
                if kind in self.withheld:
                    self._kept.append((kind, xid, whole))
                else:
                    await self._answer(kind, xid, whole)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._writer.close()

    async def _answer(self, kind: int, xid: int, whole: bytes) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        try:
            for reply, body in self._replies(kind, whole):
                self.send(message(reply, body, xid))
        except Refusal as refusal:
            self.send(message(ERROR, struct.pack("!HH", refusal.kind, refusal.code) + whole[:64], xid))
        await self._writer.drain()

    def _replies(self, kind: int, whole: bytes) -> list[tuple[int, bytes]]:
        """Process one message; return the (type, body) of each reply."""
        if kind in self.refused:
            raise Refusal(*self.refused[kind])
        if kind == ERROR:
            self.errors_received.append(struct.unpack_from("!HH", whole, 8))
        elif kind == ECHO_REQUEST:
            return [(ECHO_REPLY, whole[8:])]
        elif kind == FEATURES_REQUEST:
            return [(FEATURES_REPLY, struct.pack("!QIBB2xII", self.datapath_id, 0, 254, 0, 0x4F, 0))]
        elif kind == FLOW_MOD:
            self.tables.flow_mod(whole)
        elif kind == GROUP_MOD:
            self.tables.group_mod(whole)
        elif kind == BARRIER_REQUEST:
            return [(BARRIER_REPLY, b"")]
        elif kind == ROLE_REQUEST:
            return [(ROLE_REPLY, self._role(*struct.unpack_from("!I4xQ", whole, 8)))]
        elif kind == MULTIPART_REQUEST:
            return self._multipart(struct.unpack_from("!H", whole, 8)[0])
        elif kind not in (HELLO, ECHO_REPLY, SET_CONFIG, SET_ASYNC, PACKET_OUT, METER_MOD):  # frames end here
            raise Refusal(1, 1)
        return []

    def _role(self, role: int, generation: int) -> bytes:
        if role >= 2:
            newest = self.generation
            if newest is not None and (generation - newest) % 2**64 >= 2**63:
                raise Refusal(11, 0)
            self.generation = generation
        seen = 2**64 - 1 if self.generation is None else self.generation
        return struct.pack("!I4xQ", role, seen)

    def _multipart(self, kind: int) -> list[tuple[int, bytes]]:
        if kind == FLOW:
            return _parts(kind, self.tables.flow_statistics())
        if kind == GROUP_DESC:
            return _parts(kind, self.tables.group_descriptions())
        if kind == PORT_DESC:
            return _parts(kind, [self._port(number) for number in self.ports])
        raise Refusal(1, 2)

    def _port(self, number: int) -> bytes:
        name = f"p{number}".encode()
        mac = (0x02AA00000000 | self.datapath_id << 8 & 0xFFFFFF00 | number & 0xFF).to_bytes(6, "big")
        return struct.pack("!I4x6s2x16s8I", number, mac, name, 0, 0 if self.ports[number] else 1, 0, 0, 0, 0, 0, 0)


def _parts(kind: int, records: list[bytes]) -> list[tuple[int, bytes]]:
    """Divide records among multipart replies."""
    bodies = [b""]
    for record in records:
        if len(bodies[-1]) + len(record) > PART_BYTES:
            bodies.append(b"")
        bodies[-1] += record
    last = len(bodies) - 1
    return [(MULTIPART_REPLY, struct.pack("!HH4x", kind, i < last) + body) for i, body in enumerate(bodies)]
