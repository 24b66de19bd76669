"""Pure: which endpoints met a full share or table, as lines for the operator; each at most once in REPEAT_S."""

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Rows

REPEAT_S = 60.0
TEXTS: Final = {
    Drop.PORTS_EXHAUSTED: "no NAT port of its public address is free "
    "(a protocol without ports has one endpoint, at the gateway that answers for the address)",
    Drop.PORTS_LIMITED: "its VPC's share of NAT mappings or ports is full",
    Drop.ENDPOINT_PORTS_LIMITED: "its share of the NAT ports is full",
    Drop.CONNECTIONS_FULL: "its share of the connections, or their table, is full",
    Drop.CONNECTIONS_LIMITED: "its VPC's share of the connections is full",
}


class _Seen(NamedTuple):
    refused: int
    gave_way: int
    reported_s: float


class FullShares:
    """What was reported, by endpoint and reason."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, ...], _Seen] = {}

    def news(self, rows: Rows, names: Mapping[int, str], now_s: float) -> list[str]:
        """Return a line for each endpoint that met a full share since its last report.

        Args:
            rows: `memory.state.FULL` rows of the data process.
            names: ids of the VPCs, by VNI.
            now_s: the time.
        """
        lines, seen = [], dict[tuple[int, ...], _Seen]()
        for row in rows[rows["reason"] != 0]:
            reason, vni, hi, lo, gave_way, refused = (
                int(row[name]) for name in ("reason", "vni", "hi", "lo", "gave_way", "refused")
            )
            key = (reason, vni, hi, lo)
            old = self._seen.get(key, _Seen(0, 0, -REPEAT_S))
            if (refused, gave_way) == (old.refused, old.gave_way) or now_s - old.reported_s < REPEAT_S:
                seen[key] = old
                continue
            since = old if refused >= old.refused and gave_way >= old.gave_way else _Seen(0, 0, 0.0)
            seen[key] = _Seen(refused, gave_way, now_s)
            lines.append(
                f"{names.get(vni, f'VNI {vni}')} {_address(hi, lo)}: {_text(reason - 1)}; "
                f"{refused - since.refused:,} new connections refused, "
                f"{gave_way - since.gave_way:,} closed or half-open ones gave way to new ones"
            )
        self._seen = seen
        return lines


def _text(reason: int) -> str:
    known = {int(drop): text for drop, text in TEXTS.items()}
    return known.get(reason, "a table is full")


def _address(hi: int, lo: int) -> str:
    address = IPv6Address((hi & (1 << 64) - 1) << 64 | lo & (1 << 64) - 1)
    return str(address.ipv4_mapped or address)
