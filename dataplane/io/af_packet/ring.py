"""AF_PACKET ports: a receive ring that the kernel fills, and sendmmsg from its slots (packet(7), TPACKET_V2).

They need only CAP_NET_RAW, and work on any interface. Two differences from a wire are corrected. A packet socket
receives frames in addition to the kernel's own network stack, so a BPF program on the interface's ingress drops them
behind the socket (a notice says where BPF is not available). And the kernel may leave out a checksum or a VLAN tag,
which `ring_kernels` restores.
"""

import os
import socket
import struct
from collections.abc import Sequence

import numpy as np

from heddle.dataplane.engine.burst import PACKET
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.io.af_packet import ring_kernels as tap_kernels
from heddle.dataplane.io.af_xdp import bpf
from heddle.dataplane.io.claim import release
from heddle.dataplane.io.fault import BpfError, PortError
from heddle.dataplane.io.frames import layout
from heddle.dataplane.io.frames.arena import Arena
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.io.interface import Link
from heddle.dataplane.io.polling import POLL_BYTES, write_poll_rows
from heddle.dataplane.io.settings import PortSettings, RingSizes

SOL_PACKET, ETH_P_ALL = 263, 3
PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, PACKET_RESERVE, PACKET_VNET_HDR = 5, 6, 10, 12, 15
PACKET_FANOUT, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING, PACKET_FANOUT_HASH = 18, 20, 23, 0
TPACKET_V2 = 1
SO_SNDBUFFORCE, SEND_BUFFER_BYTES = 32, 8 << 20
HEADROOM = 144
"""PACKET_RESERVE. With the kernel's own header, at least 128 bytes stay free in front of every frame."""
SLOT_OVERHEAD = 320
BLOCK_BYTES = 1 << 16
MAX_RING_BYTES = 32 << 20
CHUNK_BYTES, BUFFERS = 16384, 64 + layout.SPARE_ROWS
"""The pool, for frames that the slow path injects: each lies in one buffer."""


class TapPorts:
    """Open ports; `ports` is for kernels, `notices` for the operator."""

    def __init__(self, settings: Sequence[PortSettings], links: Sequence[Link], sizes: RingSizes) -> None:
        """Open all ports; raises PortError, and then leaves nothing open."""
        self.notices: list[str] = []
        self._receivers: dict[int, socket.socket] = {}
        self._senders: list[socket.socket] = []
        self.claims: list[socket.socket] = []
        self._programs: list[int] = []
        rows = tap_kernels.MESSAGES * (tap_kernels.MESSAGE_BYTES + tap_kernels.VECTOR_BYTES)
        self._arena = Arena(CHUNK_BYTES * BUFFERS + len(links) * (MAX_RING_BYTES + BLOCK_BYTES + rows) + (1 << 20))
        try:
            self.ports = self._make(links)
            for port, (wanted, link) in enumerate(zip(settings, links, strict=True)):
                if wanted.queues:
                    raise PortError(f"{link.name}: queues can only be chosen with AF_XDP")
                self._open_sender(port, link)
                if wanted.receives:
                    self._open_receiver(port, link, sizes, wanted.fanout)
            write_poll_rows(self.ports, [sock.fileno() for sock in self._receivers.values()])
        except PermissionError:
            self.close()
            raise PortError(
                "packet sockets need CAP_NET_RAW: run as root or give the process that capability"
            ) from None
        except BaseException:
            self.close()
            raise

    def sample(self, counters: Counters) -> None:
        """Add the frames that the kernel dropped since the last call to `rx_missed`."""
        for port, sock in self._receivers.items():
            _seen, missed = struct.unpack("=II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
            counters.ports["rx_missed"][port] += missed

    def drain(self, counters: Counters) -> None:
        """Do nothing: sent frames have left."""

    def close(self) -> None:
        """Detach the programs, so that the kernel's stack receives again; close the sockets and free the memory."""
        for fd in reversed(self._programs):
            os.close(fd)
        for sock in (*self._receivers.values(), *self._senders):
            sock.close()
        release(self.claims)
        self._programs, self._receivers, self._senders = [], {}, []
        self._arena.close()

    def _make(self, links: Sequence[Link]) -> Ports:
        words = np.zeros(layout.POOL_WORDS, np.int64)
        words[layout.KIND], words[layout.CHUNK_BYTES], words[layout.FRAMES] = layout.TAP, CHUNK_BYTES, BUFFERS
        words[layout.CHUNK_SHIFT], words[layout.FREE] = CHUNK_BYTES.bit_length() - 1, BUFFERS
        words[layout.POOL_AT] = self._arena.own_memory(CHUNK_BYTES * BUFFERS)
        words[layout.POLL_AT] = self._arena.own_memory(len(links) * POLL_BYTES)
        ports = np.zeros(len(links), layout.PORT)
        ports["max_bytes"] = [link.frame_bytes for link in links]
        return Ports(
            memory=self._arena.memory,
            pool=words,
            free=np.arange(BUFFERS, dtype=np.int64)[::-1].copy(),
            pieces=np.full((BUFFERS, 3), layout.END, np.int64),
            ports=ports,
            queues=np.zeros(1, layout.QUEUE),
            taps=np.zeros(len(links), layout.TAP_ROW),
            rings=np.zeros((1, 1), np.int64),
            spare=np.zeros(layout.SPARE_ROWS, PACKET),
        )

    def _open_sender(self, port: int, link: Link) -> None:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: receives nothing
        self._senders.append(sock)
        sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        sock.bind((link.name, 0))
        row, memory = self.ports.taps[port], self.ports.memory
        messages = self._arena.own_memory(tap_kernels.MESSAGES * tap_kernels.MESSAGE_BYTES)
        vectors = self._arena.own_memory(tap_kernels.MESSAGES * tap_kernels.VECTOR_BYTES)
        row["tx_fd"], row["messages_at"], row["vectors_at"] = sock.fileno(), messages, vectors
        for number in range(tap_kernels.MESSAGES):
            # struct mmsghdr: name, its length, iovec, count, control, its length, flags, bytes sent
            vector = self._arena.address + vectors + number * tap_kernels.VECTOR_BYTES
            message = struct.pack("@QI4xQQQQi4xI4x", 0, 0, vector, 1, 0, 0, 0, 0)
            at = messages + number * tap_kernels.MESSAGE_BYTES
            memory[at : at + len(message)] = np.frombuffer(message, np.uint8)

    def _open_receiver(self, port: int, link: Link, sizes: RingSizes, fanout: int | None) -> None:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._receivers[port] = sock
        slot_bytes = 1 << (link.frame_bytes + SLOT_OVERHEAD - 1).bit_length()
        block_bytes = max(BLOCK_BYTES, slot_bytes)
        blocks = max(min(sizes.receive * slot_bytes, MAX_RING_BYTES) // block_bytes, 1)
        slots = blocks * (block_bytes // slot_bytes)
        for option, value in (
            (PACKET_VERSION, TPACKET_V2),
            (PACKET_VNET_HDR, 1),
            (PACKET_RESERVE, HEADROOM),
            (PACKET_IGNORE_OUTGOING, 1),
        ):
            sock.setsockopt(SOL_PACKET, option, value)
        sock.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("=4I", block_bytes, blocks, slot_bytes, slots))
        row = self.ports.taps[port]
        row["ring_at"] = self._arena.ring_of(sock.fileno(), blocks * block_bytes)
        row["rx_fd"], row["slot_bytes"], row["slots"] = sock.fileno(), slot_bytes, slots
        self._keep_from_the_stack(link)
        sock.bind((link.name, ETH_P_ALL))  # after the ring is set up, so that no frame bypasses it
        if fanout is not None:
            sock.setsockopt(SOL_PACKET, PACKET_FANOUT, struct.pack("=I", fanout & 0xFFFF | PACKET_FANOUT_HASH << 16))

    def _keep_from_the_stack(self, link: Link) -> None:
        """Drop received frames behind the packet socket, or add a notice that Linux receives them as well."""
        try:
            program = bpf.load_program(
                "heddle_drop", bpf.drop_program(), kind=bpf.BPF_PROG_TYPE_SCHED_CLS, attach_type=bpf.BPF_TCX_INGRESS
            )
            self._programs.append(program)
            self._programs.append(bpf.attach(program, link.index, bpf.BPF_TCX_INGRESS))
        except BpfError as refused:
            reason = "no CAP_BPF" if refused.forbidden else "Linux before 6.6"
            self.notices.append(
                f"{link.name}: Linux receives these frames as well ({reason}); configure no address there"
            )
