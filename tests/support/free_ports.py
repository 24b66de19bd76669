"""Reserve loopback ports that no other program has, and that no other gets before they are used.

They are below the kernel's ephemeral range (ip_local_port_range): a port of that range could be in use by the time
that a broker is started on it, or restarted. Test processes that run at once tell each other what they reserved by
abstract names of Unix sockets (unix(7)), which are of a network namespace as ports are.
"""

import secrets
import socket
from collections import deque
from contextlib import ExitStack

FIRST, LAST = 10_000, 31_999
HELD = 256
"""The number of ports that a process keeps reserved, the latest; those before are in use, or no longer needed."""
_held: deque[socket.socket] = deque()


def free_ports(count: int) -> list[int]:
    """Return ports that are free for UDP and for TCP, and that no other test process gets."""
    found: list[int] = []
    with ExitStack() as bound:
        while len(found) < count:
            port = FIRST + secrets.randbelow(LAST - FIRST + 1)  # not `random`: it has one seed in all test processes
            if not reserve(port):
                continue
            udp = bound.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            tcp = bound.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                udp.bind(("127.0.0.1", port))
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


def reserve(port: int) -> bool:
    """Reserve a port; return False where a test process has it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0heddle-test-port-{port}")
    except OSError:
        name.close()
        return False
    _held.append(name)
    if len(_held) > HELD:
        _held.popleft().close()
    return True
