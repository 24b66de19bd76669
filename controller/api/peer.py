"""Name the peers of calls."""

from typing import Any

_LOOPBACK = ("ipv4:127.", "ipv6:%5B::1%5D:", "ipv6:[::1]:")


def host_of(peer: str) -> str:
    """Return gRPC's name of a peer without the port: `ipv4:10.0.0.1` of `ipv4:10.0.0.1:50000`."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


def caller_of(context: Any) -> str:
    """Return whose limits a call counts towards: its certificate's identity, else its address.

    On loopback all clients have one address: there each connection is a caller.
    """
    for identity in context.auth_context().get("peer_spiffe_id", ()):
        return str(identity.decode(errors="replace"))
    peer = str(context.peer())
    return peer if peer.startswith(_LOOPBACK) else host_of(peer)
