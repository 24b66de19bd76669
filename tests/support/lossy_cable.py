"""Lose a share of the packets over one direction of a lab's cable, by a BPF program where they leave."""

import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial

from heddle.foundation.network_namespace import network_namespace
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.queues.bpf_syscall import load_program
from heddle.mininet_topos.queues.netlink import EGRESS, RouteSocket, clsact_request, program_request
from heddle.mininet_topos.routed.lab import RoutedLab

GET_PRANDOM_U32 = 7
TC_ACT_OK, TC_ACT_SHOT = 0, 2


def _instruction(code: int, dst: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, dst, offset, value)


def dropping(share: float) -> bytes:
    """Return a classifier that drops this share of frames at random."""
    limit = min(int(share * (1 << 31)), (1 << 31) - 1)
    return b"".join((
        _instruction(0x85, value=GET_PRANDOM_U32),
        _instruction(0x74, value=1),  # w0 >>= 1
        _instruction(0xB5, offset=2, value=limit),  # if r0 <= limit: drop
        _instruction(0xB7, value=TC_ACT_OK),
        _instruction(0x95),
        _instruction(0xB7, value=TC_ACT_SHOT),
        _instruction(0x95),
    ))  # fmt: skip


@contextmanager
def lossy(lab: Lab, link: str, share: float) -> Iterator[None]:
    """Lose this share of what is sent over a directed link between switches, in a lab without the queue model."""
    cable = lab.fabric.cable_by_link[link]
    port = cable.lower if link == cable.up_link else cable.upper
    device, place = lab.net.interface_of[port], _namespace(lab, port.switch)
    program = load_program("lossy_cable", dropping(share), b"GPL")
    try:
        with place(), closing(RouteSocket()) as route:
            index = socket.if_nametoindex(device)
            route.request(clsact_request(index), "create a clsact qdisc")
            route.request(program_request(index, EGRESS, program, "lossy_cable", 1), "attach the program")
        yield
        with place():
            subprocess.run(["tc", "qdisc", "del", "dev", device, "clsact"], check=True)
    finally:
        os.close(program)


def _namespace(lab: Lab, switch: str) -> Callable[[], AbstractContextManager[None]]:
    """Return what enters the namespace of a switch: routers have their own, other switches this process's."""
    return partial(network_namespace, lab.net.host(switch).pid) if isinstance(lab, RoutedLab) else nullcontext
