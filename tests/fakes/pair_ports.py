"""Two gateways' configurations of each other on the loopback, on ports that nobody else has."""

import socket
from contextlib import ExitStack

from dataplane.config.pair import Mode, PairConfig, Path


def free_ports(count: int) -> list[int]:
    """Return ports that are free for UDP and for TCP."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            udp = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            tcp = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            udp.bind(("127.0.0.1", 0))
            port = udp.getsockname()[1]
            try:
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


def pair_of(mode: Mode = Mode.ACTIVE_STANDBY, paths: int = 1, key: bytes = b"key") -> dict[str, PairConfig]:
    """Return the configuration of each, by id: `a` and `b`."""
    ports = [f"127.0.0.1:{port}" for port in free_ports(2 * paths)]
    ways = list(zip(ports[:paths], ports[paths:], strict=True))
    return {
        "a": PairConfig(
            partner_id="b", mode=mode, key=key, paths=tuple(Path(listen=one, partner=two) for one, two in ways)
        ),
        "b": PairConfig(
            partner_id="a", mode=mode, key=key, paths=tuple(Path(listen=two, partner=one) for one, two in ways)
        ),
    }
