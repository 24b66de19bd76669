"""AF_XDP ports: sockets that share one pool of buffers with the kernel (Documentation/networking/af_xdp.rst).

Copy mode with the generic hook (`XDP_FLAGS_SKB_MODE`): it works on every interface, has no limit on the MTU and no
side effect on the driver, and on veth is as fast as the native hook. All sockets use one UMEM, so a frame moves from
one interface to another as a descriptor. Frames longer than a chunk use several (XDP_USE_SG).

The XDP program is attached by a link, which is detached when the process ends.
"""

import ctypes
import errno
import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from heddle.dataplane.engine.burst import BURST, PACKET
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.io.af_xdp import bpf, xsk_kernels
from heddle.dataplane.io.claim import release
from heddle.dataplane.io.fault import BackendMissingError, BpfError, PortError
from heddle.dataplane.io.frames import layout
from heddle.dataplane.io.frames.arena import Arena
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.io.interface import Link
from heddle.dataplane.io.polling import POLL_BYTES, write_poll_rows
from heddle.dataplane.io.settings import PortSettings, RingSizes
from heddle.dataplane.jit import Row

AF_XDP, SOL_XDP = 44, 283
XDP_MMAP_OFFSETS, XDP_RX_RING, XDP_TX_RING, XDP_UMEM_REG, XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING = range(1, 7)
XDP_STATISTICS, XDP_MAX_TX_SKB_BUDGET = 7, 9
XDP_SHARED_UMEM, XDP_COPY, XDP_USE_NEED_WAKEUP, XDP_USE_SG = 1, 2, 8, 16
SO_SNDBUFFORCE, SEND_BUFFER_BYTES = 32, 8 << 20
PAGES = {"rx": 0, "tx": 0x80000000, "fill": 0x100000000, "done": 0x180000000}
OPTIONS = {"rx": XDP_RX_RING, "tx": XDP_TX_RING, "fill": XDP_UMEM_FILL_RING, "done": XDP_UMEM_COMPLETION_RING}
DESCRIPTOR_BYTES = {"rx": 16, "tx": 16, "fill": 8, "done": 8}
BIND_TIMEOUT_S = 2.0
DRAIN_TIMEOUT_S = 0.03
SMALL_CHUNK_BYTES, CHUNK_BYTES = 2048, 4096
"""A chunk is a page at most; the smaller size is used if every frame fits into it."""
SLACK = 16 * BURST
"""Buffers besides those of the rings: for the current burst, and for frames that the slow path injects."""
RING_BYTES = 1 << 18
"""Addresses reserved for all rings of a socket, besides their descriptors."""

_libc = ctypes.CDLL(None, use_errno=True)


class XskPorts:
    """Open ports; `ports` is for kernels."""

    def __init__(self, settings: Sequence[PortSettings], links: Sequence[Link], sizes: RingSizes) -> None:
        """Open all ports, or none.

        Raises:
            PortError: a port cannot be opened.
            BackendMissingError: AF_XDP is not available, but another kind of port may work.
        """
        longest = max(link.frame_bytes for link in links)
        chunk_bytes = SMALL_CHUNK_BYTES if longest <= SMALL_CHUNK_BYTES - layout.HEADROOM else CHUNK_BYTES
        queues = [_queues_of(wanted, link) for wanted, link in zip(settings, links, strict=True)]
        sockets = sum(len(numbers) for numbers in queues)
        frames = sockets * sizes.receive + len(links) * sizes.transmit + SLACK
        self._sockets: list[socket.socket] = []
        self.claims: list[socket.socket] = []
        self._descriptors: list[int] = []
        self._missed = np.zeros(sockets, np.int64)
        descriptors = sockets * 24 * (sizes.receive + sizes.transmit)
        self._arena = Arena(frames * chunk_bytes + sockets * RING_BYTES + descriptors)
        try:
            self.ports = self._make(links, frames, chunk_bytes, sockets)
            for port, (wanted, link) in enumerate(zip(settings, links, strict=True)):
                for queue in queues[port]:
                    self._open_socket(port, wanted, link, queue, sizes)
            write_poll_rows(self.ports, [int(row["fd"]) for row in self.ports.queues if row["max_posted"]])
            for port, (wanted, link) in enumerate(zip(settings, links, strict=True)):
                if wanted.receives:
                    self._attach(port, link, queues[port])
        except BaseException:
            self.close()
            raise

    def sample(self, counters: Counters) -> None:
        """Add the frames that the kernel dropped since the last call to `rx_missed`."""
        for number, sock in enumerate(self._sockets):
            # struct xdp_statistics; without a buffer a frame is counted in rx_dropped, fill_empty counts attempts.
            dropped, _invalid, _tx_invalid, ring_full, _fill_empty, _tx_empty = struct.unpack(
                "<6Q", sock.getsockopt(SOL_XDP, XDP_STATISTICS, 48)
            )
            missed = dropped + ring_full
            counters.ports["rx_missed"][self.ports.queues["port"][number]] += missed - self._missed[number]
            self._missed[number] = missed

    def drain(self, counters: Counters) -> None:
        """Send waiting frames; those that the kernel does not send within DRAIN_TIMEOUT_S count as lost."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        for number, queue in enumerate(self.ports.queues):
            port = int(queue["port"])
            while queue["sent"] and time.monotonic() < deadline:
                xsk_kernels.reap_and_kick(self.ports, number, port, counters)
            xsk_kernels.count_unsent(self.ports, number, port, counters)

    def close(self) -> None:
        """Detach the programs, close the sockets, then free the memory."""
        for fd in reversed(self._descriptors):
            os.close(fd)
        for sock in self._sockets:
            sock.close()
        self._descriptors, self._sockets = [], []
        release(self.claims)
        self._arena.close()

    def _make(self, links: Sequence[Link], frames: int, chunk_bytes: int, sockets: int) -> Ports:
        words = np.zeros(layout.POOL_WORDS, np.int64)
        words[layout.KIND], words[layout.CHUNK_BYTES], words[layout.FRAMES] = layout.XSK, chunk_bytes, frames
        words[layout.CHUNK_SHIFT], words[layout.FREE] = chunk_bytes.bit_length() - 1, frames
        words[layout.POOL_AT] = self._arena.own_memory(frames * chunk_bytes)
        words[layout.POLL_AT] = self._arena.own_memory(sockets * POLL_BYTES)
        ports = np.zeros(len(links), layout.PORT)
        ports["max_bytes"] = [link.frame_bytes for link in links]
        return Ports(
            memory=self._arena.memory,
            pool=words,
            free=np.arange(frames, dtype=np.int64),
            pieces=np.full((frames, 3), layout.END, np.int64),
            ports=ports,
            queues=np.zeros(sockets, layout.QUEUE),
            taps=np.zeros(1, layout.TAP_ROW),
            rings=np.zeros((1, 1), np.int64),
            spare=np.zeros(layout.SPARE_ROWS, PACKET),
        )

    def _open_socket(self, port: int, wanted: PortSettings, link: Link, queue: int, sizes: RingSizes) -> None:
        number = len(self._sockets)
        first = number == 0 or self.ports.queues["port"][number - 1] != port
        try:
            sock = socket.socket(AF_XDP, socket.SOCK_RAW, 0)
            self._sockets.append(sock)
            if number == 0:
                self._register(sock)
            counts = {"fill": sizes.receive, "done": sizes.transmit}
            if wanted.receives:
                counts["rx"] = sizes.receive
            if first:
                counts["tx"] = sizes.transmit
            row = self.ports.queues[number]
            self._map_rings(sock, counts, row)
            with suppress(OSError):  # Linux 6.17; before, a call sends 32 frames
                sock.setsockopt(SOL_XDP, XDP_MAX_TX_SKB_BUDGET, struct.pack("=I", 4 * BURST))
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
            self._bind(sock, link, queue, shared=number > 0)
        except OSError as fault:
            raise _refused(link, fault) from None
        row["port"], row["fd"] = port, sock.fileno()
        row["max_posted"] = sizes.receive if wanted.receives else 0
        if first:
            self.ports.ports["first_queue"][port] = number
        self.ports.ports["queues"][port] += wanted.receives

    def _register(self, sock: socket.socket) -> None:
        """Register the pool as the UMEM of a socket."""
        size = int(self.ports.pool[layout.FRAMES] * self.ports.pool[layout.CHUNK_BYTES])
        address = self._arena.address + int(self.ports.pool[layout.POOL_AT])
        terms = struct.pack("<QQIIII", address, size, self.ports.pool[layout.CHUNK_BYTES], 0, 0, 0)
        sock.setsockopt(SOL_XDP, XDP_UMEM_REG, terms)

    def _map_rings(self, sock: socket.socket, counts: dict[str, int], row: Row) -> None:
        for ring, count in counts.items():
            sock.setsockopt(SOL_XDP, OPTIONS[ring], struct.pack("=I", count))
        words = struct.unpack("<16Q", sock.getsockopt(SOL_XDP, XDP_MMAP_OFFSETS, 128))
        for place, ring in enumerate(PAGES):
            if ring not in counts:
                continue
            producer, consumer, descriptors, flags = words[4 * place : 4 * place + 4]
            size = descriptors + counts[ring] * DESCRIPTOR_BYTES[ring]
            at = self._arena.ring_of(sock.fileno(), size, PAGES[ring])
            row[f"{ring}_producer"], row[f"{ring}_consumer"] = at + producer, at + consumer
            row[f"{ring}_at"], row[f"{ring}_mask"] = at + descriptors, counts[ring] - 1
            if ring in ("tx", "fill"):
                row[f"{ring}_flags"] = at + flags

    def _bind(self, sock: socket.socket, link: Link, queue: int, *, shared: bool) -> None:
        """Bind to a queue, with retries: the sockets of a killed process may hold it for a moment."""
        flags, owner = XDP_COPY | XDP_USE_NEED_WAKEUP | XDP_USE_SG, 0
        if shared:
            flags, owner = XDP_SHARED_UMEM, self._sockets[0].fileno()
        address = struct.pack("=HHIII", AF_XDP, flags, link.index, queue, owner)
        deadline = time.monotonic() + BIND_TIMEOUT_S
        while _libc.bind(sock.fileno(), address, len(address)) != 0:
            code = ctypes.get_errno()
            if code != errno.EBUSY or time.monotonic() > deadline:
                raise OSError(code, os.strerror(code))
            time.sleep(0.01)

    def _attach(self, port: int, link: Link, queues: Sequence[int]) -> None:
        """Start to receive: fill buffers first, then the map of sockets, then attach the program."""
        first = int(self.ports.ports["first_queue"][port])
        try:
            sockets = bpf.create_map("heddle_sockets", bpf.BPF_MAP_TYPE_XSKMAP, 4, 4, max(queues) + 1)
            self._descriptors.append(sockets)
            for place, queue in enumerate(queues):
                xsk_kernels.refill(self.ports, first + place)
                bpf.update(sockets, queue, struct.pack("=I", self._sockets[first + place].fileno()))
            program = bpf.load_program(
                "heddle_receive",
                bpf.redirect_program(sockets),
                kind=bpf.BPF_PROG_TYPE_XDP,
                flags=bpf.BPF_F_XDP_HAS_FRAGS,
                attach_type=bpf.BPF_XDP,
            )
            self._descriptors.append(program)
            self._descriptors.append(bpf.attach(program, link.index, bpf.BPF_XDP, bpf.XDP_FLAGS_SKB_MODE))
        except BpfError as refused:
            raise _refused(link, OSError(refused.code, os.strerror(refused.code))) from None


def _queues_of(wanted: PortSettings, link: Link) -> tuple[int, ...]:
    """Return the queues to open; a port that only sends needs one."""
    if beyond := [queue for queue in wanted.queues if not 0 <= queue < link.queues]:
        raise PortError(f"{link.name}: queue {beyond[0]} of {link.queues}; see `ethtool -l {link.name}`")
    every = wanted.queues or tuple(range(link.queues))
    return every if wanted.receives else every[:1]


REASONS = {
    errno.EAFNOSUPPORT: "this kernel has no AF_XDP",
    errno.EPERM: "no CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
    errno.EACCES: "no CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
    errno.EBUSY: "another XDP program or AF_XDP socket has it",
    errno.ENOBUFS: "the limit of locked memory is too low (`ulimit -l`)",
    errno.EOPNOTSUPP: "the interface or kernel lacks a feature",
}


def _refused(link: Link, fault: OSError) -> PortError:
    if fault.errno == errno.ENETDOWN:
        return PortError(f"{link.name} is down; `ip link set {link.name} up`")
    return BackendMissingError(f"no AF_XDP on {link.name}: {REASONS.get(fault.errno or 0, fault.strerror)}")
