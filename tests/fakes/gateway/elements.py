"""Run the gateway's stateless elements: frames in an array of bytes, rows filled in like a port does."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from heddle import dataplane
from heddle.dataplane.config.local import Limits, LocalConfig
from heddle.dataplane.elements.forward import forward
from heddle.dataplane.elements.headers.parse import parse
from heddle.dataplane.elements.underlay import underlay
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import DROPPED, PACKET, PUNTED, TO_FRAGMENT, TRANSMIT
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway import graph as kinds
from heddle.dataplane.gateway.elements.check_source import check_source
from heddle.dataplane.gateway.elements.output import output
from heddle.dataplane.gateway.elements.sides import customer, untagged
from heddle.dataplane.gateway.graph import graph_of
from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.jit import CHECKED
from heddle.dataplane.tables.schema import PEER, Tables
from heddle.kernels.cache import digest, keep_on_disk

STRIDE, HEAD_ROOM = 16384, 256
LOW = (1 << 64) - 1


class Fate(NamedTuple):
    """The result for a frame."""

    end: str
    """"sent", "dropped", "punted", or the name of the node that it waits at."""
    why: Drop | Punt | None
    """Compare by `is`: a number may be a reason of either enum."""
    frame: bytes
    """The bytes in memory at the end."""
    row: np.void


@numba.njit(nogil=True, _nrt=False, error_model="numpy", boundscheck=CHECKED)
def one_element(kind, node, work):
    if kind == kinds.UNDERLAY:
        underlay(node, work)
    elif kind == kinds.CUSTOMER_SIDE:
        customer(node, work)
    elif kind in (kinds.EXTERNAL_SIDE, kinds.PROVIDER_SIDE):
        untagged(node, work)
    elif kind == kinds.PARSE:
        parse(node, work)
    elif kind == kinds.CHECK_SOURCE:
        check_source(node, work)
    elif kind == kinds.FORWARD:
        forward(node, work)
    elif kind == kinds.OUTPUT:
        output(node, work)


if not CHECKED:
    stamp = digest(Path(dataplane.__file__).parent) + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    keep_on_disk(one_element, stamp=stamp)


class Elements:
    """A gateway without connection tables: in place of tracking, `hop_of` routes a packet."""

    def __init__(self, local: LocalConfig, tables: Tables, hop_of: Callable[[np.void], int] | None = None) -> None:
        self.tables = tables
        self.graph = arrays_of(graph_of(local))
        self.memory = np.zeros(64 * STRIDE, dtype=np.uint8)
        self._state = empty_state(Limits(connections=2, mappings=2, fragments=2))
        self._hop_of = hop_of or self.route

    def send(
        self,
        port: int,
        *frames: bytes,
        until: int | None = None,
        head_room: int = HEAD_ROOM,
        behind: bytes = b"",
        first_length: int | None = None,
    ) -> list[Fate]:
        """Return the fates of the frames of one burst.

        Args:
            port: on which they arrive.
            frames: at most 64.
            until: the kind of node to stop before.
            head_room: bytes in front of each frame that may be written.
            behind: bytes in memory behind each frame.
            first_length: bytes of each frame in its first buffer; the others are not present.
        """
        packets = np.zeros(len(frames), dtype=PACKET)
        for row, frame in enumerate(frames):
            at, packet = row * STRIDE + 512, packets[row]
            self.memory[at - 512 : at - 512 + STRIDE] = 0xA5
            there = frame[:first_length] + behind
            self.memory[at : at + len(there)] = np.frombuffer(there, dtype=np.uint8)
            packet["at"] = packet["start"] = at
            packet["length"], packet["floor"], packet["in_port"] = len(frame), at - head_room, port
            packet["first_length"] = min(len(frame), first_length or len(frame))
            packet["node"], packet["frame"] = self.graph.entry[port], row
            for name in ("vni", "vpc", "connection", "next_hop", "translation", "ports", "outer_ecn", "routed"):
                packet[name] = 0x7777  # left over from the packet before
        self._walk(packets, until)
        return [self._fate(packet) for packet in packets]

    def one(self, port: int, frame: bytes, **how: Any) -> Fate:
        return self.send(port, frame, **how)[0]

    def _walk(self, packets: np.ndarray, until: int | None) -> None:
        work = Work(packets, len(packets), self.memory, self.graph, self.tables, self._state, now_ns=0)
        for node, kind in enumerate(self.graph.kind.tolist()):
            if kind == until:
                return
            if kind == kinds.TRACK:
                for packet in packets[packets["node"] == node]:
                    self._track(packets, packet, node)
            elif kind not in (kinds.ADMIT, kinds.REWRITE):
                one_element(kind, node, work)

    def _track(self, packets: np.ndarray, packet: np.void, node: int) -> None:
        row = packets[packet["frame"]]
        row["next_hop"] = self._hop_of(row)
        row["node"] = DROPPED if row["next_hop"] < 0 else self.graph.next[node, kinds.HIT]

    def route(self, packet: np.void) -> int:
        """Return the row of the endpoint, or of the longest route, by Python's own arithmetic; -1 for none."""
        target = int(packet["target_hi"]) << 64 | int(packet["target_lo"]) & LOW
        return self._route(int(packet["vni"]), target & (1 << 128) - 1)

    def _route(self, vni: int, target: int) -> int:
        for key in self.tables.endpoints[self.tables.endpoints[:, 3] >= 0].tolist():
            if key[0] == vni and _wide(key[1], key[2]) == target:
                return key[3]
        best = (-1, -1)
        for first, high, low, row in self.tables.routes[self.tables.routes[:, 3] >= 0].tolist():
            length = first & 0xFF
            if first >> 8 == vni and _wide(high, low) >> (128 - length) == target >> (128 - length):
                best = max(best, (length, row))
        if best[1] >= 0 and self.tables.next_hops[best[1]]["kind"] == PEER:
            return self._route(int(self.tables.next_hops[best[1]]["vni"]), target)
        return best[1]

    def _fate(self, packet: np.void) -> Fate:
        at, node = int(packet["at"]), int(packet["node"])
        frame = self.memory[at : at + int(packet["first_length"])].tobytes()
        if node == DROPPED:
            return Fate("dropped", Drop(packet["reason"]) if packet["reason"] >= 0 else None, frame, packet)
        if node == PUNTED:
            return Fate("punted", Punt(packet["reason"]), frame, packet)
        if node == TRANSMIT:
            return Fate("sent", None, frame, packet)
        if node == TO_FRAGMENT:
            return Fate("to fragment", None, frame, packet)
        return Fate(kinds.NAMES[self.graph.kind[node]], None, frame, packet)


def _wide(high: int, low: int) -> int:
    return (high & LOW) << 64 | low & LOW
