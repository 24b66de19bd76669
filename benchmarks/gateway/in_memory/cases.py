"""Frames, tables and connections of the in-memory benchmark, and our kernels over them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heddle.benchmarks.gateway.wire.course import INGRESS_MAC, SINK_IP
from heddle.benchmarks.gateway.wire.head import frame_head
from heddle.benchmarks.gateway.wire.ours import VNI, encapsulate_burst, tables_for_encapsulation
from heddle.benchmarks.gateway.wire.traffic import FLOWS, frames
from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.headers.parse import parse
from heddle.dataplane.elements.underlay import underlay
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BURST
from heddle.dataplane.engine.graph import Graph, GraphArrays, Node, arrays_of
from heddle.dataplane.gateway.elements.rewrite import rewrite
from heddle.dataplane.gateway.elements.tracking.track import track
from heddle.dataplane.gateway.memory.connections import connect
from heddle.dataplane.gateway.memory.state import TRANSLATED, State, empty_state
from heddle.dataplane.io.frames.pool import prefetch_headers
from heddle.dataplane.jit import Bytes, Ints, Rows, kernel
from heddle.dataplane.packet.memory import copy
from heddle.dataplane.tables.schema import Tables

ENCAPSULATE, DECAPSULATE, TRANSLATE = range(3)
NAMES = ("parse, look up, encapsulate", "decapsulate, parse", "parse, connection, translate")
HEAD_ROOM = 256
NOW_NS = 1_000_000_000
GRAPH = Graph(
    nodes=(
        Node(name="entry", kind=0, to=("parse",)),
        Node(name="parse", kind=4, to=("track",)),
        Node(name="track", kind=6, to=("rewrite", "end")),
        Node(name="rewrite", kind=9, to=("end",)),
        Node(name="end", kind=10),
    ),
    entries=("entry",),
)


class Memory(NamedTuple):
    memory: np.ndarray
    pristine: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class Case:
    kind: int
    frames: Memory
    tables: Tables
    state: State
    graph: GraphArrays


@kernel
def repeat(
    kind: int, memory: Bytes, pristine: Bytes, starts: Ints, lengths: Ints, packets: Rows, rounds: int, vni: int,
    graph: GraphArrays, tables: Tables, state: State, now_ns: int,
) -> None:  # fmt: skip
    """Run our kernels on all frames, burst by burst, as a port delivers them."""
    for _ in range(rounds):
        for first in range(0, starts.size, BURST):
            for i in range(BURST):
                packet = packets[i]
                packet.at = starts[first + i]
                packet.length = lengths[first + i]
                packet.first_length = lengths[first + i]
                packet.floor = packet.at - 256
                packet.in_port = 0
                packet.outer_ecn = -1
                prefetch_headers(memory, packet.at)
                if kind == TRANSLATE:
                    copy(memory, packet.at, pristine, packet.at, 64)
            if kind == ENCAPSULATE:
                encapsulate_burst(memory, packets, BURST, vni, tables)
            elif kind == DECAPSULATE:
                for i in range(BURST):
                    packets[i].node = 0
                work = Work(packets, BURST, memory, graph, tables, state, now_ns)
                underlay(0, work)
                parse(1, work)
            else:
                for i in range(BURST):
                    packet = packets[i]
                    packet.l3 = packet.at + 14
                    packet.routed = 1
                    packet.vni = vni
                    packet.node = 1
                work = Work(packets, BURST, memory, graph, tables, state, now_ns)
                parse(1, work)
                track(2, work)
                rewrite(3, work)


def case(kind: int, length: int) -> Case:
    """Return a case; `length` is that of the plain frame, VXLAN adds 50 bytes."""
    tables, state = tables_for_encapsulation(), empty_state(Limits(connections=1 << 13))
    plain = frames(length)
    if kind == TRANSLATE:
        plain[:, 40:42] = (0x12, 0x34)  # a checksum to update
        _connect_all(plain, tables, state)
    rows = _tunnelled(plain, tables) if kind == DECAPSULATE else plain
    return Case(kind=kind, frames=_laid_out(rows), tables=tables, state=state, graph=arrays_of(GRAPH))


def run(case: Case, packets: np.ndarray, rounds: int) -> None:
    """Run our kernels over a case."""
    repeat(case.kind, *case.frames, packets, rounds, VNI, case.graph, case.tables, case.state, NOW_NS)


def _laid_out(rows: np.ndarray) -> Memory:
    count, length = rows.shape
    stride = 2048 if length <= 2048 - HEAD_ROOM else 8192  # buffer sizes of ports
    memory = np.zeros(count * stride, np.uint8)
    starts = np.arange(count) * stride + HEAD_ROOM
    for start, row in zip(starts.tolist(), rows, strict=True):
        memory[start : start + length] = row
    return Memory(memory, memory.copy(), starts, np.full(count, length))


def _tunnelled(plain: np.ndarray, tables: Tables) -> np.ndarray:
    """Add VXLAN headers, from the sink's VTEP to the gateway's."""
    own, mac = int(tables.ports[1, 2]), int(tables.ports[1, 1]).to_bytes(6, "big")
    tables.ports[0] = tables.ports[1]
    length = plain.shape[1]
    source = int.from_bytes(bytes(int(part) for part in SINK_IP.split(".")), "big")
    head = bytearray(frame_head(length + 50, source, own, 50000, INGRESS_MAC))
    head[0:6] = mac
    head[36:38] = (4789).to_bytes(2, "big")
    head += b"\x08\0\0\0" + VNI.to_bytes(3, "big") + b"\0"
    plain = plain.copy()
    plain[:, 0:6] = np.frombuffer(int(tables.vpcs[0]["gateway_mac"]).to_bytes(6, "big"), np.uint8)
    return np.concatenate([np.tile(np.frombuffer(bytes(head), np.uint8), (len(plain), 1)), plain], axis=1)


def _connect_all(plain: np.ndarray, tables: Tables, state: State) -> None:
    """Create a translated connection for each new flow of the frames."""
    prefix = 0xFFFF_0000_0000
    for number, row in enumerate(plain):
        source, target, ports = (int.from_bytes(row[at : at + 4].tobytes(), "big") for at in (26, 30, 34))
        draft = state.draft[0]
        draft["source_hi"], draft["source_lo"] = 0, prefix | source
        draft["target_hi"], draft["target_lo"] = 0, prefix | target
        draft["key"] = np.uint64(ports << 32 | 17 << 24 | VNI).astype(np.int64)  # all 64 bits as a signed word
        draft["new_source_hi"], draft["new_source_lo"] = 0, prefix | 0xCB00_7101
        draft["new_target_hi"], draft["new_target_lo"] = 0, prefix | target
        draft["new_ports"] = (1024 + number) << 16 | ports & 0xFFFF
        draft["flags"], draft["mapping"], draft["next_hop"] = TRANSLATED, -1, 0
        draft["generation"], draft["out_vni"] = int(tables.generation[0]), 0
        state.draft[1]["mapping"] = -1
        connect(state, FLOWS, 100, NOW_NS)
