"""Claim interfaces for one process: two that receive the same frames would both forward them.

A claim is an abstract Unix socket (unix(7)), whose name is unique in a network namespace. The kernel releases it when
the process ends.
"""

import socket
from collections.abc import Sequence

from heddle.dataplane.io.fault import PortError
from heddle.dataplane.io.interface import Link
from heddle.dataplane.io.settings import PortSettings


def claimed(settings: Sequence[PortSettings], links: Sequence[Link]) -> list[socket.socket]:
    """Return the claims of the interfaces whose frames the process receives alone; raises PortError."""
    claims: list[socket.socket] = []
    for wanted, link in zip(settings, links, strict=True):
        if not wanted.receives or wanted.queues or wanted.fanout is not None:
            continue
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        claims.append(claim)
        try:
            claim.bind(f"\0heddle-port-{link.index}")
        except OSError:
            release(claims)
            raise PortError(
                f"{link.name}: another gateway on this host receives its frames; end that one or name another interface"
            ) from None
    return claims


def release(claims: Sequence[socket.socket]) -> None:
    """Release claims; they may be claimed again."""
    for claim in claims:
        claim.close()
