"""The elements `track`, `admit` and `rewrite` alone: IP packets in, IP packets and next hops out."""

from ipaddress import ip_address
from typing import NamedTuple

import numpy as np

from heddle.dataplane.elements.headers.flow import hash_of
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BURST, DROPPED, FIRST_FRAGMENT, LATER_FRAGMENT, NOT_A_FRAGMENT, PACKET, PUNTED
from heddle.dataplane.engine.graph import Graph, Node, arrays_of
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway.elements.admission.admit import admit
from heddle.dataplane.gateway.elements.rewrite import rewrite
from heddle.dataplane.gateway.elements.tracking.track import track
from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.jit import kernel
from tests.fakes.gateway.gateway_tables import UNDERLAY_PORT, wide, words

GRAPH = arrays_of(
    Graph(
        nodes=(
            Node(name="track", kind=0, to=("rewrite", "admit")),
            Node(name="admit", kind=1, to=("rewrite",)),
            Node(name="rewrite", kind=2, to=("end",)),
            Node(name="end", kind=3),
        ),
        entries=("track",),
    )
)
END = int(np.flatnonzero(GRAPH.kind == 3)[0])
ROOM = 2048
QUERIES = {(1, 0), (1, 8), *((1, kind) for kind in range(13, 19)), (58, 128), (58, 129)}
QUESTIONS = {(1, 8), (1, 13), (1, 15), (1, 17), (58, 128)}


@kernel
def walk(work):
    for i in range(work.size):
        work.packets[i].hash = hash_of(work.packets[i], work.state.counts[SEED])
    for node in range(work.graph.kind.shape[0]):
        if work.graph.kind[node] == 0:
            track(node, work)
        elif work.graph.kind[node] == 1:
            admit(node, work)
        elif work.graph.kind[node] == 2:
            rewrite(node, work)


class Sent(NamedTuple):
    """An IP packet, with its VNI and input port."""

    packet: bytes
    vni: int = 0
    port: int = UNDERLAY_PORT


class Passed(NamedTuple):
    """A packet that was not dropped, with the row of its next hop."""

    packet: bytes
    hop: int
    connection: int


def describe(row, packet, at):
    """Fill in a PACKET row like the earlier elements do (no options except fragment headers)."""
    row["at"], row["length"], row["first_length"], row["l3"] = at - 14, len(packet) + 14, len(packet) + 14, at
    version = packet[0] >> 4
    if version == 4:
        source, target = ip_address(packet[12:16]), ip_address(packet[16:20])
        protocol, header = packet[9], (packet[0] & 15) * 4
        bits = int.from_bytes(packet[6:8], "big")
        offset, more = bits & 0x1FFF, bits >> 13 & 1
        identification = int.from_bytes(packet[4:6], "big") | protocol << 32
    else:
        source, target = ip_address(packet[8:24]), ip_address(packet[24:40])
        protocol, header, offset, more, identification = packet[6], 40, 0, 0, 0
        if protocol == 44:
            protocol, header = packet[40], 48
            bits = int.from_bytes(packet[42:44], "big")
            offset, more = bits >> 3, bits & 1
            identification = int.from_bytes(packet[44:48], "big") | protocol << 32
    row["family"], row["protocol"] = version, protocol
    row["source_hi"], row["source_lo"] = words(wide(source))
    row["target_hi"], row["target_lo"] = words(wide(target))
    row["l4"], row["l4_bytes"] = at + header, len(packet) - header
    row["fragment"] = LATER_FRAGMENT if offset else FIRST_FRAGMENT if more else NOT_A_FRAGMENT
    row["fragment_id"] = identification
    row["ports"] = 0
    payload = packet[header:]
    if not offset and protocol in (6, 17):
        row["ports"] = int.from_bytes(payload[:4], "big")
    elif not offset and (protocol, payload[0] if payload else None) in QUERIES:
        identifier = int.from_bytes(payload[4:6], "big")
        row["ports"] = identifier << 16 if (protocol, payload[0]) in QUESTIONS else identifier


class StateBench:
    """One gateway's state, and the elements that use it."""

    def __init__(self, tables, limits):
        self.tables, self.state = tables, empty_state(limits)
        self.memory = np.zeros(BURST * ROOM, dtype=np.uint8)
        self.now_ns = 10**12

    def send(self, *sent):
        """Send at most a burst of packets at once; return for each `Passed`, or the reason of a drop or punt."""
        packets = np.zeros(BURST, dtype=PACKET)
        for number, each in enumerate(sent):
            at = number * ROOM + 128
            self.memory[at : at + len(each.packet)] = np.frombuffer(each.packet, dtype=np.uint8)
            packets[number]["vni"], packets[number]["in_port"] = each.vni, each.port
            packets[number]["vpc"] = self._row_of_vpc(each.vni)
            describe(packets[number], each.packet, at)
            packets[number]["node"] = GRAPH.entry[0]
        walk(Work(packets, len(sent), self.memory, GRAPH, self.tables, self.state, self.now_ns))
        return [self._fate(packets[number], each) for number, each in enumerate(sent)]

    def _row_of_vpc(self, vni):
        rows = np.flatnonzero(self.tables.vpcs["vni"] == vni)
        return rows[0] if rows.size else -1

    def one(self, packet, vni=0, port=UNDERLAY_PORT):
        """Send one packet; return its fate."""
        return self.send(Sent(packet, vni, port))[0]

    def _fate(self, row, sent):
        if row["node"] == DROPPED:
            return Drop(int(row["reason"]))
        if row["node"] == PUNTED:
            return Punt(int(row["reason"]))
        assert row["node"] == END, int(row["node"])
        at = int(row["l3"])
        return Passed(self.memory[at : at + len(sent.packet)].tobytes(), int(row["next_hop"]), int(row["connection"]))


def hop_of(tables, vni, address):
    """Return the row of an endpoint's next hop."""
    for row in tables.endpoints:
        if row[3] >= 0 and tuple(row[:3]) == (vni, *words(wide(ip_address(address)))):
            return int(row[3])
    raise LookupError(address)
