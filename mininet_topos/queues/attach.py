"""Load the queue model's BPF programs into the kernel and attach them to both ends of every link of a lab.

Nothing is pinned: tc filters hold the programs, programs hold the maps, and the kernel removes filters with their
interfaces. So everything is freed with the lab's interfaces, however the lab ends.
"""

import os
import socket
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.queues.bpf_object import OBJECT_FILE, BpfObject, read_object
from heddle.mininet_topos.queues.bpf_syscall import create_map, load_program, lookup, memory_of, update
from heddle.mininet_topos.queues.classes import frame_limit
from heddle.mininet_topos.queues.description import LabPorts, NicEnd, SwitchPort
from heddle.mininet_topos.queues.netlink import EGRESS, INGRESS, RouteSocket, clsact_request, program_request
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.wire.pause_frame import PRIORITIES

QUEUE_WORDS = (
    "enqueued_bytes", "dequeued_bytes", "written_off_bytes", "sent_packets", "marked_packets", "dropped_packets",
    "dropped_bytes", "max_depth_bytes", "received_packets", "received_bytes", "arrived_bytes", "departed_bytes",
    "arrived_written_off_bytes", "max_ingress_bytes", "headroom_drops", "enqueued_packets",
)  # fmt: skip
"""The fields of `struct queue` in queue_model.c; read as signed integers, so that differences may be negative."""
NONE = UNBOUNDED = 0xFFFFFFFF
CERTAIN = 1 << 16
FRAME_LIMIT = struct.Struct("<I")  # the last field of `struct limit`
CROSSING, CROSSED = struct.Struct("<2I"), struct.Struct("<2Q")
MAX_PORTS = 8190

QueueTable = npt.NDArray[Any]


class QueueModelPrograms:
    """The loaded programs and maps of one lab; `queues[slot, priority][field]` is memory shared with the kernel."""

    def __init__(self, ports: LabPorts, settings: QueueSettings) -> None:
        """Load programs and maps; raises PrerequisiteError with one line that names what the kernel lacks."""
        if len(ports.ports) > MAX_PORTS:
            raise PrerequisiteError(f"the queue model supports {MAX_PORTS} ports, not {len(ports.ports)}")
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
        self._ports, self._settings = ports.ports, settings
        self._fill(ports)
        memory = memory_of(self._maps["queues"], definitions["queues"])
        layout = np.dtype([(word, "<i8") for word in QUEUE_WORDS])
        self.queues: QueueTable = np.frombuffer(memory, layout, count=count).reshape(-1, PRIORITIES)

    def attach(self, ports: LabPorts) -> None:
        """Attach the programs to both ends of every link; raises PrerequisiteError."""
        route = RouteSocket()
        for slot, port in enumerate(ports.ports):
            index = socket.if_nametoindex(port.interface)
            route.request(clsact_request(index), f"create a clsact qdisc on {port.interface}")
            for hook, program in ((EGRESS, "egress"), (INGRESS, "ingress")):
                self._attach(route, index, hook, program, slot)
        route.close()
        for attachment, nic in enumerate(ports.nics, start=len(ports.ports)):
            with network_namespace(nic.pid):
                route, index = RouteSocket(), socket.if_nametoindex(nic.device)
                route.request(clsact_request(index), f"create a clsact qdisc on {nic.device}")
                self._attach(route, index, INGRESS, "ingress", attachment)
                route.close()

    def set_discarding(self, slot: int, priority: int, discarding: bool) -> None:
        """Drop and count every frame that is to enter a queue, or accept frames again."""
        value = limit_value(self._ports[slot], priority, self._settings)
        if discarding:
            value = value[: -FRAME_LIMIT.size] + FRAME_LIMIT.pack(0)
        update(self._maps["limits"], slot * PRIORITIES + priority, value)

    def held_bytes(self, slot: int, priority: int) -> dict[int, int]:
        """Return the bytes of a queue that have not left it, by the slot of the ingress port that counts them."""
        number, switch = slot * PRIORITIES + priority, self._ports[slot].switch
        found = {}
        for arrival, port in enumerate(self._ports):
            key = CROSSING.pack(arrival * PRIORITIES + priority, number)
            if port.switch == switch and (value := lookup(self._maps["crossings"], key, CROSSED.size)) is not None:
                entered, left = CROSSED.unpack(value)
                found[arrival] = entered - left
        return found

    def close(self) -> None:
        """Close programs and maps; attached programs stay until their interfaces are removed."""
        del self.queues  # the last view of the memory unmaps it
        for fd in (*self._programs.values(), *self._maps.values()):
            os.close(fd)

    def _attach(self, route: RouteSocket, interface: int, hook: int, program: str, attachment: int) -> None:
        message = program_request(interface, hook, self._programs[program], f"heddle_{program}", attachment)
        route.request(message, f"attach the program {program}")

    def _fill(self, ports: LabPorts) -> None:
        settings = self._settings
        for slot, port in enumerate(ports.ports):
            update(self._maps["ports"], slot, _port_value(slot, port))
            for priority in range(PRIORITIES):
                update(self._maps["limits"], slot * PRIORITIES + priority, limit_value(port, priority, settings))
        for attachment, nic in enumerate(ports.nics, start=len(ports.ports)):
            update(self._maps["ports"], attachment, _nic_value(nic))
        priority_of_dscp = {each.dscp: each.priority for each in settings.classes}
        update(self._maps["classes"], 0, bytes(priority_of_dscp.get(dscp, 0) for dscp in range(64)))


def read_shipped_object() -> BpfObject:
    """Return the compiled queue model of this package; raises PrerequisiteError if it is missing or damaged."""
    try:
        return read_object(OBJECT_FILE.read_bytes())
    except (OSError, ValueError) as fault:
        raise PrerequisiteError(f"the compiled queue model cannot be read ({fault}): install Heddle again") from None


def limit_value(port: SwitchPort, priority: int, settings: QueueSettings) -> bytes:
    """Return the `struct limit` of one priority of a port.

    A lossless priority (PFC) is bounded at ingress, by XOFF and headroom, and not at egress; any other is bounded by
    its egress queue.
    """
    limits = settings.at(port.rate_bps)
    paused = priority in settings.pausable
    return struct.pack(
        "<6I",
        limits.kmin_bytes,
        limits.kmax_bytes,
        round(settings.pmax * CERTAIN) if priority in settings.marked else 0,
        UNBOUNDED if paused else limits.buffer_bytes,
        limits.xoff_bytes + limits.headroom_bytes if paused else UNBOUNDED,
        frame_limit(priority, settings),
    )


def _port_value(slot: int, port: SwitchPort) -> bytes:
    sender = NONE if port.peer is None else port.peer * PRIORITIES
    return struct.pack("<4I", slot * PRIORITIES, sender, port.switch, 0)


def _nic_value(nic: NicEnd) -> bytes:
    return struct.pack("<4I", NONE, nic.slot * PRIORITIES, 0, 0)
