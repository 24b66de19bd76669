"""Reserve loopback ports that no other program has, and that no other gets before they are used.

They are below the kernel's ephemeral range (ip_local_port_range): a port of that range could be in use by the time
that a broker is started on it, or restarted.
"""

import secrets
import socket
from contextlib import ExitStack

FIRST, LAST = 10_000, 31_999


def free_ports(count: int) -> list[int]:
    """Return ports that are free for UDP and for TCP."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = FIRST + secrets.randbelow(LAST - FIRST + 1)  # not `random`: it has one seed in all test processes
            udp = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            tcp = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                udp.bind(("127.0.0.1", port))
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found
