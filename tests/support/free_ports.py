"""Reserve loopback ports that no other program has, and that no other gets before they are used.

They are below the kernel's ephemeral range: a port of that range could be in use by the time that a broker is started
on it, or restarted. Test processes that run at once, and labs, show each other what they have reserved.
"""

import secrets
import socket
from collections import deque
from contextlib import ExitStack

from heddle.mininet_topos.services.loopback import FIRST, LAST, reserve

HELD = 256
"""The number of ports that a process keeps reserved, the latest; those before are in use, or no longer needed."""
_held: deque[socket.socket] = deque()


def free_ports(count: int) -> list[int]:
    """Return ports that are free for UDP and for TCP, and that no other test process gets."""
    found: list[int] = []
    with ExitStack() as bound:
        while len(found) < count:
            port = FIRST + secrets.randbelow(LAST - FIRST + 1)  # not `random`: it has one seed in all test processes
            name = reserve(port)
            if name is None:
                continue
            udp = bound.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                name.close()
                continue
            _hold(name)
            found.append(port)
    return found


def _hold(name: socket.socket) -> None:
    _held.append(name)
    if len(_held) > HELD:
        _held.popleft().close()
