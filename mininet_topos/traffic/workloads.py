"""The demo's workloads, each as flows between ranks and as a job request: permutations, ring, all-to-all, incast.

Fabric and seed determine a workload, so that a printed seed is enough to repeat a run. All flows of a workload run at
the same time; there is at most one from one NIC to another, and none within a host.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, Incast, JobRequest, RankPair
from heddle.foundation.network import Network

PAYLOAD_BYTES = 4096
"""One RoCEv2 packet's payload: the path MTU of the emulated NICs."""

WIRE_OVERHEAD_BYTES = 58
"""Ethernet 14, IPv4 20, UDP 8, BTH 12 and ICRC 4 of every data packet; the first of a message has 16 more."""

E_ECMP_QUEUE_PAIRS = 4
"""E-ECMP spreads each flow over this many queue pairs, as the contract's figures do."""

SIZE_STEP_BYTES = E_ECMP_QUEUE_PAIRS * PAYLOAD_BYTES
"""Flow sizes are multiples of this, so that all queue pairs of a flow carry the same number of whole packets."""

DRAWS = 1000

PERMUTATION, INCAST = "permutation", "incast"
BYSTANDER_SHARE = 0.95
"""The demand of an incast's bystander, as a fraction of what its own part of the incast leaves of its NIC's rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalFlow:
    """One flow between two NICs, or its part in one plane; the mode decides how many queue pairs carry it.

    `rate_bps` is its demand; 0: as much as it can get. `part` numbers its parts, where its NICs have several ports.
    """

    src_rank: int
    dst_rank: int
    src_nic: str
    dst_nic: str
    size_bytes: int
    rate_bps: int = 0
    part: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload under one seed: its flows, and the job request for their paths."""

    kind: str
    seed: int
    flows: tuple[LogicalFlow, ...]
    job: JobRequest

    @property
    def name(self) -> str:
        """Return the name in tables: kind and seed."""
        return f"{self.kind} seed {self.seed}"


def build_workloads(fabric: Fabric, kinds: Sequence[str], seeds: Sequence[int], seconds: float) -> tuple[Workload, ...]:
    """Return the demo's workloads in order: one permutation per seed, the others once, with the first seed.

    A flow that has its NIC to itself takes about `seconds`. Raises InputError if the fabric has too few NICs.
    """
    nics = compute_nics(fabric)
    if len({nic.host for nic in nics}) < 2:
        raise InputError(
            "the demo needs NICs of the compute network on at least 2 hosts: give a fabric with more hosts"
        )
    return tuple(
        WORKLOADS[kind](nics, seed, seconds) for kind in kinds for seed in (seeds if kind == PERMUTATION else seeds[:1])
    )


def compute_nics(fabric: Fabric) -> tuple[Nic, ...]:
    """Return the participating NICs in rank order: those of the compute network that have not failed.

    One with several ports is listed once, at its first port that has not failed, with the rates of all of these.
    """
    down, ports = fabric.failed, dict[str, list[Nic]]()
    for nic in fabric.nics:
        has_failed = nic.id in down.down_nics or nic.port.switch in down.down_switches
        if nic.network == Network.COMPUTE and not has_failed:
            ports.setdefault(nic.rank, []).append(nic)
    return tuple(
        replace(mine[0], id=rank, capacity_bps=sum(port.capacity_bps for port in mine)) for rank, mine in ports.items()
    )


def with_rate(workload: Workload, rate_bps: int) -> Workload:
    """Return the workload with this demand of each flow, as a job of flows that are listed."""
    flows = tuple(replace(flow, rate_bps=rate_bps) for flow in workload.flows)
    demands = tuple(
        FlowDemand(src_rank=flow.src_rank, dst_rank=flow.dst_rank, rate_bps=flow.rate_bps) for flow in flows
    )
    collective = Collective(kind=CollectiveKind.CUSTOM, size_bytes=flows[0].size_bytes, flows=demands)
    return replace(workload, flows=flows, job=replace(workload.job, collectives=(collective,)))


def sprayed(workload: Workload, paths: int) -> Workload:
    """Return the workload as a job whose flows are sprayed over so many paths each."""
    collectives = tuple(replace(one, paths_per_flow=paths) for one in workload.job.collectives)
    return replace(workload, job=replace(workload.job, collectives=collectives))


def over_ports(fabric: Fabric, workload: Workload) -> Workload:
    """Return the workload with its flows between ports: equal parts, one in each plane that both NICs have a port in.

    The job stays as it is: its ranks are NICs with all their ports.
    """
    return replace(workload, flows=tuple(part for flow in workload.flows for part in _parts(fabric, flow)))


def _parts(fabric: Fabric, flow: LogicalFlow) -> Iterator[LogicalFlow]:
    into = {port.plane: port.id for port in fabric.ports_by_rank[flow.dst_nic]}
    pairs = [(port.id, into[port.plane]) for port in fabric.ports_by_rank[flow.src_nic] if port.plane in into]
    for number, (src, dst) in enumerate(pairs):
        size_bytes, rate_bps = flow.size_bytes // len(pairs), flow.rate_bps // len(pairs)
        yield replace(flow, src_nic=src, dst_nic=dst, size_bytes=size_bytes, rate_bps=rate_bps, part=number)


def permutation(nics: Sequence[Nic], seed: int, seconds: float) -> Workload:
    """Return a workload in which every NIC sends to one other and receives from one other."""
    targets = derangement(nics, random.Random(f"permutation/{seed}"))
    size = size_for(min(nic.capacity_bps for nic in nics), seconds)
    pairs = tuple(RankPair(src_rank=src, dst_rank=dst) for src, dst in enumerate(targets))
    collective = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=size, pairs=pairs)
    return _workload(PERMUTATION, seed, nics, collective, [(src, dst, size) for src, dst in enumerate(targets)])


def rotation(nics: Sequence[Nic], seconds: float) -> Workload:
    """Return a permutation from every leaf to the next, for calibration only (`line_rate`); it is no kind of the demo.

    It is a full load that fits if each flow has an uplink of its own.

    NICs must be ordered by leaf, with the same number on each leaf.
    """
    ranks = len(nics)
    on_a_leaf = sum(nic.port.switch == nics[0].port.switch for nic in nics)
    step = on_a_leaf % ranks or 1
    size = size_for(min(nic.capacity_bps for nic in nics), seconds)
    pairs = tuple(RankPair(src_rank=src, dst_rank=(src + step) % ranks) for src in range(ranks))
    collective = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=size, pairs=pairs)
    return _workload("rotation", 0, nics, collective, [(pair.src_rank, pair.dst_rank, size) for pair in pairs])


def ring(nics: Sequence[Nic], seed: int, seconds: float) -> Workload:
    """Return a ring all-reduce over all ranks: each rank sends to the next, the last to the first."""
    ranks = len(nics)
    size = size_for(min(nic.capacity_bps for nic in nics), seconds)
    # A ring all-reduce of B bytes per rank moves 2 B (n-1)/n over each of its n edges.
    buffer_bytes = max(1, size * ranks // (2 * (ranks - 1)))
    collective = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=buffer_bytes)
    return _workload("ring", seed, nics, collective, [(src, (src + 1) % ranks, size) for src in range(ranks)])


def all_to_all(nics: Sequence[Nic], seed: int, seconds: float) -> Workload:
    """Return an all-to-all: every rank sends to every other at the same time."""
    ranks = len(nics)
    size = size_for(min(nic.capacity_bps for nic in nics) // (ranks - 1), seconds)
    # An all-to-all of B bytes per rank sends B / n to each rank, itself included.
    collective = Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=size * ranks)
    flows = [(src, dst, size) for src in range(ranks) for dst in range(ranks) if src != dst]
    return _workload("all-to-all", seed, nics, collective, flows)


def incast(nics: Sequence[Nic], seed: int, seconds: float) -> Workload:
    """Return an incast with a bystander: all NICs send to one receiver, and one more flow has another receiver.

    Receiver and bystander are drawn at random; the bystander is the last flow. Its demand is a fixed rate that its NIC
    can send beside its own part of the incast.

    Raises InputError if there are fewer than three hosts, so that no bystander is possible.
    """
    draw = random.Random(f"incast/{seed}")
    receiver = draw.randrange(len(nics))
    senders = [rank for rank, nic in enumerate(nics) if nic.host != nics[receiver].host]
    src, dst = _bystander(nics, receiver, senders, draw)
    line_bps = min(nic.capacity_bps for nic in nics)
    rate_bps = int(line_bps * (1 - 1 / len(senders)) * BYSTANDER_SHARE)
    size, bystander_size = size_for(line_bps // len(senders), seconds), size_for(rate_bps, seconds)
    flows = [_flow(nics, sender, receiver, size) for sender in senders]
    flows.append(replace(_flow(nics, src, dst, bystander_size), rate_bps=rate_bps))
    pairs = tuple(RankPair(src_rank=sender, dst_rank=receiver) for sender in senders)
    demand = FlowDemand(src_rank=src, dst_rank=dst, rate_bps=rate_bps)
    job = JobRequest(
        job_id=f"demo-incast-{seed}",
        ranks=tuple(nic.id for nic in nics),
        collectives=(
            Collective(kind=CollectiveKind.SEND_RECV, size_bytes=size, pairs=pairs),
            Collective(kind=CollectiveKind.CUSTOM, size_bytes=bystander_size, flows=(demand,)),
        ),
        incast=Incast.RATES,
    )
    return Workload(kind=INCAST, seed=seed, flows=tuple(flows), job=job)


def _flow(nics: Sequence[Nic], src: int, dst: int, size_bytes: int) -> LogicalFlow:
    return LogicalFlow(src_rank=src, dst_rank=dst, src_nic=nics[src].id, dst_nic=nics[dst].id, size_bytes=size_bytes)


def _bystander(nics: Sequence[Nic], receiver: int, senders: Sequence[int], draw: random.Random) -> tuple[int, int]:
    """Draw the bystander's two ranks; across leaves and away from the receiver's leaf where the fabric allows it."""
    pairs = [(a, b) for a in senders for b in senders if nics[a].host != nics[b].host]
    leaf = [nic.port.switch for nic in nics]
    crossing = [(a, b) for a, b in pairs if leaf[a] != leaf[b]]
    away = [(a, b) for a, b in crossing if leaf[receiver] not in (leaf[a], leaf[b])]
    for choices in (away, crossing, pairs):
        if choices:
            return draw.choice(choices)
    raise InputError(
        "incast needs NICs on at least 3 hosts, for there is a bystander: give a fabric with more hosts,"
        " or leave it out of --workloads"
    )


WORKLOADS: dict[str, Callable[[Sequence[Nic], int, float], Workload]] = {
    PERMUTATION: permutation,
    "ring": ring,
    "all-to-all": all_to_all,
    INCAST: incast,
}


def size_for(rate_bps: int, seconds: float) -> int:
    """Return the bytes that take about `seconds` at `rate_bps`, in steps that split evenly into queue pairs."""
    return max(1, round(rate_bps * seconds / 8 / SIZE_STEP_BYTES)) * SIZE_STEP_BYTES


def derangement(nics: Sequence[Nic], draw: random.Random) -> list[int]:
    """Return for each NIC the index of its receiver: a permutation without a flow within a host.

    Every flow crosses leaves if the fabric allows it for all flows. The choice is uniform among such permutations if
    one appears in a thousand draws, otherwise built by matching. Raises InputError if no such permutation exists.
    """
    rules: tuple[Callable[[Nic, Nic], bool], ...] = (
        lambda a, b: a.host != b.host and a.port.switch != b.port.switch,
        lambda a, b: a.host != b.host,
    )
    for allowed in rules:
        found = _drawn(nics, allowed, draw) or _matched(nics, allowed, draw)
        if found:
            return found
    raise InputError("no permutation: one host holds more than half of the NICs; give a fabric with more hosts")


def _drawn(nics: Sequence[Nic], allowed: Callable[[Nic, Nic], bool], draw: random.Random) -> list[int] | None:
    targets = list(range(len(nics)))
    for _ in range(DRAWS):
        draw.shuffle(targets)
        if all(allowed(nics[src], nics[dst]) for src, dst in enumerate(targets)):
            return targets
    return None


def _matched(nics: Sequence[Nic], allowed: Callable[[Nic, Nic], bool], draw: random.Random) -> list[int] | None:
    """Match senders to receivers by augmenting paths, in a random order."""
    order = draw.sample(range(len(nics)), len(nics))
    sender_of: dict[int, int] = {}

    def place(src: int, tried: set[int]) -> bool:
        for dst in order:
            if dst not in tried and allowed(nics[src], nics[dst]):
                tried.add(dst)
                if dst not in sender_of or place(sender_of[dst], tried):
                    sender_of[dst] = src
                    return True
        return False

    if not all(place(src, set()) for src in order):
        return None
    target_of = {src: dst for dst, src in sender_of.items()}
    return [target_of[src] for src in range(len(nics))]


def _workload(
    kind: str, seed: int, nics: Sequence[Nic], collective: Collective, flows: Sequence[tuple[int, int, int]]
) -> Workload:
    """Return the workload of a collective; traffic between NICs of one host does not enter the fabric."""
    crossing = tuple(
        LogicalFlow(src_rank=src, dst_rank=dst, src_nic=nics[src].id, dst_nic=nics[dst].id, size_bytes=size)
        for src, dst, size in flows
        if nics[src].host != nics[dst].host
    )
    job = JobRequest(job_id=f"demo-{kind}-{seed}", ranks=tuple(nic.id for nic in nics), collectives=(collective,))
    return Workload(kind=kind, seed=seed, flows=crossing, job=job)
