"""Loads the queue model into the kernel and attaches it to every port of a lab, on both sides of each link.

Nothing is pinned: filters hold the programs, programs hold the maps, and filters go with their interfaces. So all of it
ends with the lab's interfaces, however the lab ends.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from controller.model.error import PrerequisiteError
from mininet_topos.queues.bpf_object import OBJECT_FILE, BpfObject, read_object
from mininet_topos.queues.bpf_syscall import create_map, load_program, memory_of, update
from mininet_topos.queues.classes import frame_limit
from mininet_topos.queues.description import LabPorts, NicEnd, SwitchPort
from mininet_topos.queues.netlink import EGRESS, INGRESS, RouteSocket, clsact_request, program_request
from mininet_topos.queues.settings import PRIORITIES, QueueSettings

QUEUE_WORDS = (
    "enqueued_bytes", "dequeued_bytes", "written_off_bytes", "sent_packets", "marked_packets", "dropped_packets",
    "dropped_bytes", "max_depth_bytes", "received_packets", "received_bytes", "arrived_bytes", "departed_bytes",
    "arrived_written_off_bytes", "max_ingress_bytes", "headroom_drops", "enqueued_packets",
)  # fmt: skip
"""`struct queue` of queue_model.c. Signed here, so that differences are."""
NONE = UNBOUNDED = 0xFFFFFFFF
CERTAIN = 1 << 16
CLONE_NEWNET = 0x40000000
MAX_PORTS = 8190

QueueTable = npt.NDArray[Any]
_libc = ctypes.CDLL(None, use_errno=True)


class QueueModelPrograms:
    """The loaded programs and maps of one lab; `queues[slot, priority][word]` is the kernel's own memory."""

    def __init__(self, ports: LabPorts, settings: QueueSettings) -> None:
        """Load everything; raises PrerequisiteError with a line that says what the kernel lacks."""
        if len(ports.ports) > MAX_PORTS:
            raise PrerequisiteError(f"the queue model has room for {MAX_PORTS} ports, not {len(ports.ports)}")
        image = read_shipped_object()
        count = len(ports.ports) * PRIORITIES
        entries = {"ports": len(ports.ports) + len(ports.nics), "limits": count, "queues": count}
        definitions = {
            name: found._replace(entries=entries.get(name, found.entries)) for name, found in image.maps.items()
        }
        self._maps = {name: create_map(name, definition) for name, definition in definitions.items()}
        self._programs = {
            name: load_program(name, program.linked(self._maps), image.licence)
            for name, program in image.programs.items()
        }
        self._fill(ports, settings)
        memory = memory_of(self._maps["queues"], definitions["queues"])
        layout = np.dtype([(word, "<i8") for word in QUEUE_WORDS])
        self.queues: QueueTable = np.frombuffer(memory, layout, count=count).reshape(-1, PRIORITIES)

    def attach(self, ports: LabPorts) -> None:
        """Attach the programs at both ends of every link; raises PrerequisiteError."""
        route = RouteSocket()
        for slot, port in enumerate(ports.ports):
            index = socket.if_nametoindex(port.interface)
            route.request(clsact_request(index), f"take programs on {port.interface}")
            for hook, program in ((EGRESS, "egress"), (INGRESS, "ingress")):
                self._attach(route, index, hook, program, slot)
        route.close()
        for attachment, nic in enumerate(ports.nics, start=len(ports.ports)):
            with network_namespace(nic.pid):
                route, index = RouteSocket(), socket.if_nametoindex(nic.device)
                route.request(clsact_request(index), f"take programs on {nic.device}")
                self._attach(route, index, INGRESS, "ingress", attachment)
                route.close()

    def close(self) -> None:
        """Let go of programs and maps; what is attached stays with its interfaces."""
        del self.queues  # the memory is unmapped with the last view of it
        for fd in (*self._programs.values(), *self._maps.values()):
            os.close(fd)

    def _attach(self, route: RouteSocket, interface: int, hook: int, program: str, attachment: int) -> None:
        message = program_request(interface, hook, self._programs[program], f"heddle_{program}", attachment)
        route.request(message, f"attach the program {program}")

    def _fill(self, ports: LabPorts, settings: QueueSettings) -> None:
        for slot, port in enumerate(ports.ports):
            update(self._maps["ports"], slot, _port_value(slot, port))
            for priority in range(PRIORITIES):
                update(self._maps["limits"], slot * PRIORITIES + priority, limit_value(port, priority, settings))
        for attachment, nic in enumerate(ports.nics, start=len(ports.ports)):
            update(self._maps["ports"], attachment, _nic_value(nic))
        update(self._maps["classes"], 0, bytes(settings.priority_of_dscp.get(dscp, 0) for dscp in range(64)))


def read_shipped_object() -> BpfObject:
    """Return the compiled queue model that comes with this package; raises PrerequisiteError where it is missing."""
    try:
        return read_object(OBJECT_FILE.read_bytes())
    except (OSError, ValueError) as fault:
        raise PrerequisiteError(f"the compiled queue model cannot be read ({fault}): install Heddle again") from None


def limit_value(port: SwitchPort, priority: int, settings: QueueSettings) -> bytes:
    """Return `struct limit` of a port's priority.

    A priority that pauses its neighbours is bounded where frames come in (XOFF and headroom), not where they leave; any
    other is bounded by its own queue.
    """
    limits = settings.at(port.rate_bps)
    paused = priority in settings.pausable
    marking = settings.ecn and priority not in settings.strict
    return struct.pack(
        "<6I",
        limits.kmin_bytes,
        limits.kmax_bytes,
        round(settings.pmax * CERTAIN) if marking else 0,
        UNBOUNDED if paused else limits.buffer_bytes,
        limits.xoff_bytes + limits.headroom_bytes if paused else UNBOUNDED,
        frame_limit(priority, settings),
    )


@contextmanager
def network_namespace(pid: int) -> Iterator[None]:
    """Be in the network namespace of a process for the block (this thread only)."""
    own, other = (os.open(f"/proc/{who}/ns/net", os.O_RDONLY | os.O_CLOEXEC) for who in ("thread-self", pid))
    try:
        _enter(other)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)
        os.close(other)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        raise PrerequisiteError(f"a host's namespace cannot be entered: {os.strerror(ctypes.get_errno())}")


def _port_value(slot: int, port: SwitchPort) -> bytes:
    sender = NONE if port.peer is None else port.peer * PRIORITIES
    return struct.pack("<4I", slot * PRIORITIES, sender, port.switch, 0)


def _nic_value(nic: NicEnd) -> bytes:
    return struct.pack("<4I", NONE, nic.slot * PRIORITIES, 0, 0)
