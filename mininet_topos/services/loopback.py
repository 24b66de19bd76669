"""Ports on loopback for the programs of labs: labs that start at the same time choose different ones.

A program binds its port some time after the lab has chosen it. Meanwhile an abstract name of a Unix socket (unix(7)),
which belongs to a network namespace as ports do, shows other labs that the port is taken.
"""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from heddle.controller.model.error import PrerequisiteError

FIRST, LAST = 10_000, 31_999
"""Below the kernel's ephemeral range (ip_local_port_range): no connection gets such a port as its own."""
MAX_TRIES = 1_000
ANY_PORT = "127.0.0.1:0"


def reserve(port: int) -> socket.socket | None:
    """Return a socket that reserves a port until it is closed; None if the port is reserved, or a program listens."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0heddle-port-{port}")
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        name.close()
        return None
    return name


@contextmanager
def preferred(address: str) -> Iterator[str]:
    """Reserve an address of loopback for the block if it is free, and yield it; else yield one with any free port."""
    name = reserve(int(address.rpartition(":")[2]))
    if name is None:
        yield ANY_PORT
        return
    with name:
        yield address


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a free port for the block and yield it; raises PrerequisiteError if none is found."""
    for _ in range(MAX_TRIES):
        port = FIRST + secrets.randbelow(LAST - FIRST + 1)
        name = reserve(port)
        if name is not None:
            break
    else:
        raise PrerequisiteError(f"no free port on loopback between {FIRST} and {LAST}")
    with name:
        yield port
