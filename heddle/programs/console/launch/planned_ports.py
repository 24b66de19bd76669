"""Hand out the planned source ports of a node's queue pairs, in the order in which they are opened."""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address
from threading import Lock

from heddle.v1 import heddle_pb2 as pb

MAX_QUEUE_PAIRS = 65_536
"""Queue pairs whose port is remembered; later ones get planned ports in turn, also when they request one again."""
Pair = tuple[int, int]
"""Source and destination: IPv4 addresses as integers."""


def address_in(gid: bytes) -> int | None:
    """Return the IPv4 address of a RoCEv2 GID (IPv4-mapped), None for another kind of GID."""
    mapped = IPv6Address(gid).ipv4_mapped
    return None if mapped is None else int(mapped)


class PlannedPorts:
    """The ports by pair of addresses. The n-th queue pair of a pair gets the port of its n-th planned flow.

    Between addresses without a planned flow, but with one in the other direction, a queue pair sends its ACKs only: it
    gets the planned ports of these. Queue pairs beyond the plan get the ports in turn. Calls may come from any thread.
    """

    def __init__(self, addresses: Mapping[str, int], is_ours: Callable[[pb.FlowPlan], bool]) -> None:
        self._addresses = addresses
        self._is_ours = is_ours
        self._lock = Lock()
        self._flows: dict[str, pb.FlowPlan] = {}
        self._ports: dict[Pair, tuple[int, ...]] = {}
        self._opened: dict[Pair, int] = {}
        self._turn_of: dict[tuple[Pair, int], int] = {}

    def update(self, flows: Iterable[pb.FlowPlan], *, whole: bool = False) -> None:
        """Take new or changed flows of the job, or the `whole` plan; flows of other nodes are left out."""
        ours = {flow.flow_id: flow for flow in flows if self._is_ours(flow)}  # no request waits meanwhile
        with self._lock:
            self._flows = ours if whole else {**self._flows, **ours}
            data: dict[Pair, list[int]] = {}
            acks: dict[Pair, list[int]] = {}
            for flow in sorted(self._flows.values(), key=lambda flow: (flow.collective, flow.queue_pair)):
                ends = self._addresses.get(flow.src_nic), self._addresses.get(flow.dst_nic)
                if ends[0] is not None and ends[1] is not None:
                    data.setdefault((ends[0], ends[1]), []).append(flow.udp_source_port)
                    acks.setdefault((ends[1], ends[0]), []).append(flow.reverse_udp_source_port)
            self._ports = {pair: tuple(ports) for pair, ports in {**acks, **data}.items()}

    def port(self, src_gid: bytes, dst_gid: bytes, queue_pair: int) -> int:
        """Return the source port of a queue pair, 0 where none is planned; the same when it requests one again."""
        src, dst = address_in(src_gid), address_in(dst_gid)
        if src is None or dst is None:
            return 0
        pair = (src, dst)
        with self._lock:
            ports = self._ports.get(pair)
            if not ports:
                return 0
            turn = self._turn_of.get((pair, queue_pair))
            if turn is None:
                turn = self._opened.get(pair, 0)
                self._opened[pair] = turn + 1
                if len(self._turn_of) < MAX_QUEUE_PAIRS:
                    self._turn_of[pair, queue_pair] = turn
            return ports[turn % len(ports)]
