"""Name the peers of calls."""


def host_of(peer: str) -> str:
    """Return gRPC's name of a peer without the port: `ipv4:10.0.0.1` of `ipv4:10.0.0.1:50000`."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer
