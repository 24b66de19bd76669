"""Read which queue pairs exist on a host, from the JSON of `rdma -j resource show qp` (iproute2).

    [{"ifindex": 0, "ifname": "mlx5_0", "port": 1, "lqpn": 1234, "rqpn": 77, "type": "RC", "state": "RTS", "pid": 9}]

Of type RC, those have a peer that are connected. An end that only receives, as the server of `ib_write_bw` does, may
stay in state RTR; one that is in SQD sends no more for a while, for instance until it has another address.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

CONNECTED = frozenset({"RTR", "RTS", "SQD"})
MAX_NUMBER = (1 << 24) - 1
"""A queue pair number has 24 bits (InfiniBand specification, volume 1)."""


class ListedQueuePair(NamedTuple):
    """A connected queue pair of an RDMA device: its own number and its peer's."""

    device: str
    src_qpn: int
    dst_qpn: int


class NotQueuePairsError(Exception):
    """The text is not what `rdma -j resource show qp` prints."""


def queue_pairs(text: str) -> tuple[ListedQueuePair, ...]:
    """Return the connected queue pairs that are listed; raises NotQueuePairsError."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotQueuePairsError(f"no JSON: {error}") from None
    if not isinstance(entries, list):
        raise NotQueuePairsError("no list of queue pairs")
    found = (_connected(entry) for entry in entries)
    return tuple(pair for pair in found if pair is not None)


def _connected(entry: Any) -> ListedQueuePair | None:
    if not isinstance(entry, Mapping):
        raise NotQueuePairsError("an entry is no object")
    if entry.get("type") != "RC" or entry.get("state") not in CONNECTED:
        return None
    device, own, peer = (entry.get(name) for name in ("ifname", "lqpn", "rqpn"))
    numbers = all(type(number) is int and 0 < number <= MAX_NUMBER for number in (own, peer))
    if not isinstance(device, str) or not numbers:
        raise NotQueuePairsError("an entry has no ifname, lqpn or rqpn")
    return ListedQueuePair(device, own, peer)  # type: ignore[arg-type]
