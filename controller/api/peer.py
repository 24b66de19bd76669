"""Name the peers of calls, and whose turn their work takes."""

from collections import OrderedDict
from ipaddress import ip_address
from typing import Any

from heddle.controller.runtime.limits.fair_turns import Place
from heddle.controller.runtime.limits.socket_owner import Ends, user_of

MAX_PEERS = 4_096
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


class Places:
    """Whose turn the work for a call takes: connections of a caller share those of the caller.

    A caller is an identity or an address. On loopback it is the user whose process has the connection, as far as the
    kernel says, else the connection.
    """

    def __init__(self) -> None:
        self._server: tuple[str, int] | None = None
        self._groups: OrderedDict[str, str] = OrderedDict()

    def listening(self, host: str, port: int) -> None:
        """Set where loopback connections lead to."""
        self._server = host, port

    def of(self, context: Any) -> Place:
        """Return the place of a call."""
        peer, name = str(context.peer()), caller_of(context)
        if name != peer or not peer.startswith(_LOOPBACK):
            return Place(name, peer)
        group = self._groups.get(peer)
        if group is None:
            group = self._groups[peer] = self._user(peer)
            if len(self._groups) > MAX_PEERS:
                self._groups.popitem(last=False)
        return Place(group, peer)

    def _user(self, peer: str) -> str:
        host, _, port = peer.partition(":")[2].rpartition(":")
        address = host.replace("%5B", "").replace("%5D", "").strip("[]")
        if self._server is None:
            return peer
        server, at = self._server
        end = server if _is_loopback(server) else address
        user = user_of(Ends((address, int(port)), (end, at)))
        return peer if user is None else f"uid {user}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
