"""Join the queue pairs that host agents report, and choose the large ones among them.

Of a queue pair that was connected without the RDMA connection manager, the kernel names its own number and its peer's,
not the peer's address: the report of the peer's host has them the other way round. Two reports that could both be the
peer's say nothing, and such a flow is never chosen. Of other queue pairs, agents report address and port too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, Steering
from heddle.foundation.kernel_port import kernel_source_port

MAX_QUEUE_PAIRS = 16_384
"""The queue pairs of one host's report that are read; the rest is counted."""
MAX_LARGE = 1_024
MIN_SHARE = 0.1
"""The share of its NIC's capacity from which a flow is large; a large one stays so down to half of it."""
TENANT = "observed"


class ObservedPath(NamedTuple):
    """A path of a queue pair that sprays: the IPv6 destination of its packets, and whether its NIC denies it."""

    sid: int
    denied: bool


class QueuePair(NamedTuple):
    """A queue pair as its host reports it.

    `dst_ip` None and `udp_source_port` 0 are not known; `unix_ns` 0 is a queue pair whose bytes nothing measures.
    `path_errors` are the ICMPv6 errors so far that quote its packets, `left` the IPv6 destination in the newest one.
    `paths` are those over which it sprays its packets.
    """

    src_ip: int
    dst_ip: int | None
    udp_source_port: int
    src_qpn: int
    dst_qpn: int
    sent_bytes: int = 0
    unix_ns: int = 0
    path_errors: int = 0
    left: int = 0
    paths: tuple[ObservedPath, ...] = ()


class Stream(NamedTuple):
    """What a pin matches: the queue pairs from one NIC to another with one source port."""

    src_nic: str
    dst_nic: str
    udp_source_port: int


class PathErrors(NamedTuple):
    """ICMPv6 errors that quote a stream's packets, those since the report before, and the destination that is left."""

    errors: int
    new: int
    left: int


class _Measured(NamedTuple):
    """A queue pair with its rate and its new path errors since the report before; None where it is not known."""

    pair: QueuePair
    rate_bps: float | None
    new_errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The newest report of each host, and how many queue pairs were not used.

    `foreign` are of a NIC that is not the reporter's, `surplus` past MAX_QUEUE_PAIRS.
    """

    by_host: Mapping[str, tuple[_Measured, ...]]
    foreign: int = 0
    surplus: int = 0

    def with_report(self, fabric: Fabric, host: str, pairs: Iterable[QueuePair]) -> "Reports":
        """Return the reports after another of one host, which names all its queue pairs."""
        own = {nic.ip for nic in fabric.nics if nic.host == host}
        listed = list(pairs)
        sound = [pair for pair in listed[:MAX_QUEUE_PAIRS] if pair.src_ip in own]
        earlier = {_identity(known.pair): known for known in self.by_host.get(host, ())}
        measured = tuple(_measured(pair, earlier.get(_identity(pair))) for pair in sound)
        surplus = max(0, len(listed) - MAX_QUEUE_PAIRS)
        return replace(
            self, by_host={**self.by_host, host: measured}, surplus=self.surplus + surplus,
            foreign=self.foreign + len(listed) - surplus - len(sound),
        )  # fmt: skip

    def without(self, host: str) -> "Reports":
        """Return the reports without those of a host."""
        return replace(self, by_host={name: pairs for name, pairs in self.by_host.items() if name != host})

    def large(self, fabric: Fabric, before: frozenset[Stream] = frozenset()) -> frozenset[Stream]:
        """Return the streams above MIN_SHARE, and those of `before` above half of it; the largest MAX_LARGE at most."""
        return frozenset(self.largest(fabric, before))

    def largest(self, fabric: Fabric, before: frozenset[Stream] = frozenset()) -> tuple[Stream, ...]:
        """Return the same streams, those with the highest share of their NIC first."""
        rates = self.rates_bps(fabric)
        shares = {
            stream: (rate or 0.0) / fabric.nic_by_id[stream.src_nic].capacity_bps for stream, rate in rates.items()
        }
        large = [each for each, share in shares.items() if share >= (MIN_SHARE / 2 if each in before else MIN_SHARE)]
        return tuple(sorted(large, key=lambda each: (-shares[each], each))[:MAX_LARGE])

    def rates_bps(self, fabric: Fabric) -> dict[Stream, float | None]:
        """Return the measured rate of every stream whose ends are known; None where nothing measures it."""
        nics = {nic.ip: nic for nic in fabric.nics}
        rates: dict[Stream, float | None] = {}
        for found, target in self._joined(nics):
            pair = found.pair
            stream = Stream(nics[pair.src_ip].id, target.id, _port_of(pair))
            known = rates.setdefault(stream, None)
            if found.rate_bps is not None:
                rates[stream] = (known or 0.0) + found.rate_bps
        return rates

    def new_path_errors(self, host: str) -> int:
        """Return how many errors a host's newest report has more than the one before."""
        return sum(measured.new_errors for measured in self.by_host.get(host, ()))

    def path_errors(self, fabric: Fabric) -> dict[Stream, PathErrors]:
        """Return the streams that ICMPv6 errors quote; of those with several queue pairs, the sum and one address."""
        nics = {nic.ip: nic for nic in fabric.nics}
        found: dict[Stream, PathErrors] = {}
        for measured, target in self._joined(nics):
            pair = measured.pair
            if pair.path_errors:
                stream = Stream(nics[pair.src_ip].id, target.id, _port_of(pair))
                known = found.get(stream, PathErrors(0, 0, 0))
                errors, new = known.errors + pair.path_errors, known.new + measured.new_errors
                found[stream] = PathErrors(errors, new, pair.left)
        return found

    def _joined(self, nics: Mapping[int, Nic]) -> Iterable[tuple[_Measured, Nic]]:
        """Yield the queue pairs whose peer is known, between different hosts.

        Hosts that start alike number alike: where both numbers are equal, each of two reports is the other's peer.
        """
        by_numbers: dict[tuple[int, int], list[_Measured]] = defaultdict(list)
        for report in self.by_host.values():
            for found in report:
                by_numbers[found.pair.src_qpn, found.pair.dst_qpn].append(found)
        for numbers, alike in by_numbers.items():
            peers = by_numbers.get((numbers[1], numbers[0]), [])
            for found in alike:
                target = found.pair.dst_ip
                if target is None and len(alike) == len(peers) == (2 if peers is alike else 1):
                    target = next(peer.pair.src_ip for peer in peers if peer is not found)
                nic = nics.get(target) if target is not None else None
                if nic is not None and nic.host != nics[found.pair.src_ip].host:
                    yield found, nic


NO_REPORTS = Reports(by_host={})


def _port_of(pair: QueuePair) -> int:
    return pair.udp_source_port or kernel_source_port(pair.src_qpn, pair.dst_qpn)


def _identity(pair: QueuePair) -> tuple[int, int, int]:
    return pair.src_ip, pair.src_qpn, pair.dst_qpn


def _measured(pair: QueuePair, earlier: _Measured | None) -> _Measured:
    """Return a queue pair with its rate; a repeated report keeps the rate, a counter that fell has none."""
    new_errors = max(0, pair.path_errors - (earlier.pair.path_errors if earlier is not None else 0))
    if earlier is None or not pair.unix_ns:
        return _Measured(pair, None, new_errors)
    elapsed_ns, grown = pair.unix_ns - earlier.pair.unix_ns, pair.sent_bytes - earlier.pair.sent_bytes
    if elapsed_ns == 0:
        return _Measured(pair, earlier.rate_bps, new_errors)
    usable = elapsed_ns > 0 and grown >= 0 and earlier.pair.unix_ns > 0
    return _Measured(pair, grown * 8e9 / elapsed_ns if usable else None, new_errors)


def job_for(stream: Stream) -> JobRequest:
    """Return the request that gives a stream a path of its own: its port stays, and its path is pinned."""
    flow = FlowDemand(src_rank=0, dst_rank=1, udp_source_port=stream.udp_source_port)
    return JobRequest(
        job_id=f"{TENANT}.{stream.src_nic}.{stream.dst_nic}.{stream.udp_source_port}",
        tenant=TENANT,
        ranks=(stream.src_nic, stream.dst_nic),
        collectives=(Collective(kind=CollectiveKind.CUSTOM, flows=(flow,)),),
        steering=Steering.PIN,
    )


def is_observed(request: JobRequest) -> bool:
    """Return whether a job is of a reported stream, which no tenant has submitted."""
    return request.tenant == TENANT and request.job_id.startswith(f"{TENANT}.")
