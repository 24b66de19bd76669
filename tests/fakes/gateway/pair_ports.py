"""Configurations of two gateways of a pair on the loopback, on free ports."""

from heddle.dataplane.config.pair import Mode, PairConfig, Path
from tests.support.free_ports import free_ports


def pair_of(mode: Mode = Mode.ACTIVE_STANDBY, paths: int = 1, key: bytes = b"key") -> dict[str, PairConfig]:
    """Return the configuration of each, by id: `a` and `b`."""
    ports = [f"127.0.0.1:{port}" for port in free_ports(2 * paths)]
    pairs = list(zip(ports[:paths], ports[paths:], strict=True))
    return {
        "a": PairConfig(
            partner_id="b", mode=mode, key=key, paths=tuple(Path(listen=one, partner=two) for one, two in pairs)
        ),
        "b": PairConfig(
            partner_id="a", mode=mode, key=key, paths=tuple(Path(listen=two, partner=one) for one, two in pairs)
        ),
    }
