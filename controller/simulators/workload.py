"""Turn the traces of a job's ranks into collectives, and collectives into traces.

Of a trace that part is read that a plan needs: what each process group sends per iteration, by kind of collective, and
what single ranks send to each other. Computing, order and time are left out: all take part in phase 0. The other way,
each rank gets a node per collective that it is a member of, phase after phase.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from heddle.controller.model.error import InputError
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, RankPair
from heddle.controller.simulators.chakra import COLLECTIVE, RECEIVE, SEND, Node

KIND_OF = {
    0: CollectiveKind.RING_ALL_REDUCE,
    2: CollectiveKind.ALL_GATHER,
    3: CollectiveKind.GATHER,
    5: CollectiveKind.BROADCAST,
    6: CollectiveKind.ALL_TO_ALL,
    7: CollectiveKind.REDUCE_SCATTER,
    8: CollectiveKind.REDUCE_SCATTER,
}
"""Kinds by Chakra's `CollectiveCommType`; REDUCE, SCATTER and BARRIER have none."""
BARRIER = 9
NAMES = {0: "ALL_REDUCE", 1: "REDUCE", 2: "ALL_GATHER", 3: "GATHER", 4: "SCATTER", 5: "BROADCAST", 6: "ALL_TO_ALL"}
TYPE_OF = {kind: number for number, kind in reversed(KIND_OF.items())} | {CollectiveKind.TREE_ALL_REDUCE: 0}


class Workload(NamedTuple):
    """The collectives of a job, and in words what its traces had besides and is left out, with how often."""

    collectives: tuple[Collective, ...]
    left_out: Mapping[str, int]


def workload_of(traces: Sequence[Sequence[Node]], names: Sequence[str]) -> Workload:
    """Return what the ranks of a job send per iteration; the trace of rank r is the r-th, called by its name.

    Raises InputError for dependencies in a circle or on a node that is missing, and for a size or rank that cannot be.
    """
    for nodes, name in zip(traces, names, strict=True):
        _check_order(nodes, name)
    groups: dict[str, set[int]] = defaultdict(set)
    sizes: dict[tuple[str, CollectiveKind, int], Counter[int]] = defaultdict(Counter)
    pairs: Counter[tuple[int, int]] = Counter()
    left_out: Counter[str] = Counter()
    for rank, nodes in enumerate(traces):
        for node in nodes:
            place = f"{names[rank]}: node {node.id}"
            if node.type == SEND:
                pairs[rank, _number(node, "comm_dst", place, len(traces))] += _number(node, "comm_size", place)
            elif node.type == COLLECTIVE and (kind := _kind(node, place, left_out)) is not None:
                group = str(node.attributes.get("pg_name", ""))
                groups[group].add(rank)
                root = _number(node, "root", place, len(traces)) if "root" in node.attributes else 0
                sizes[group, kind, root][rank] += _number(node, "comm_size", place)
            elif node.type not in (RECEIVE, COLLECTIVE):
                left_out["node that communicates nothing"] += 1
    found = [
        collective
        for (group, kind, root), by_rank in sizes.items()
        if (collective := _collective(kind, sorted(groups[group]), root, max(by_rank.values()), len(traces)))
    ]
    return Workload((*found, *_exchanges(pairs)), left_out)


def _collective(
    kind: CollectiveKind, members: list[int], root: int, size_bytes: int, ranks: int
) -> Collective | None:  # fmt: skip
    """Return a collective of at least two members that sends something."""
    if len(members) < 2 or not size_bytes:
        return None
    return Collective(
        kind=kind,
        size_bytes=size_bytes,
        root=(root if root in members else members[0]) if kind.pattern.is_rooted else 0,
        members=() if len(members) == ranks else tuple(members),
    )


def _exchanges(pairs: Mapping[tuple[int, int], int]) -> list[Collective]:
    """Return SEND_RECV collectives: pairs that send equally much are in one."""
    by_size: dict[int, list[RankPair]] = defaultdict(list)
    for (sender, receiver), size_bytes in sorted(pairs.items()):
        if size_bytes and sender != receiver:
            by_size[size_bytes].append(RankPair(sender, receiver))
    return [
        Collective(kind=CollectiveKind.SEND_RECV, size_bytes=size_bytes, pairs=tuple(listed))
        for size_bytes, listed in by_size.items()
    ]


def _kind(node: Node, place: str, left_out: Counter[str]) -> CollectiveKind | None:
    number = _number(node, "comm_type", place)
    if number not in KIND_OF and number != BARRIER:
        left_out[f"{NAMES.get(number, f'collective of type {number}')}, a kind that plans do not have"] += 1
    return KIND_OF.get(number)


def _number(node: Node, name: str, place: str, below: int = 1 << 62) -> int:
    value = node.attributes.get(name)
    if not isinstance(value, int) or not 0 <= value < below:
        at_most = f" from 0 to {below - 1:,}"
        raise InputError(f"{place} ({node.name}): attribute {name}: must be a number{at_most}, is {value}")
    return value


def _check_order(nodes: Sequence[Node], name: str) -> None:
    """Raise InputError where nodes wait for each other in a circle, or for one that is not there."""
    after: dict[int, tuple[int, ...]] = {}
    for node in nodes:
        if after.setdefault(node.id, node.after) is not node.after:
            raise InputError(f"{name}: node {node.id}: a second node has this id")
    waiting = {node.id: len(set(node.after)) for node in nodes}
    followers: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        for earlier in set(node.after):
            if earlier not in after:
                raise InputError(f"{name}: node {node.id}: depends on node {earlier}, which the trace does not have")
            followers[earlier].append(node.id)
    ready = [node for node, count in waiting.items() if not count]
    done = 0
    while ready:
        done += 1
        for follower in followers[ready.pop()]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    if done < len(nodes):
        first = min(node for node, count in waiting.items() if count)
        raise InputError(f"{name}: node {first}: waits for itself through its dependencies, or for nodes that do")


def traces_of(collectives: Iterable[Collective], ranks: int) -> list[list[Node]]:
    """Return each rank's nodes: one per collective that it is a member of, after all of its phases before.

    Rings and trees are both an all-reduce there, and the flows of CUSTOM are sent one by one. Raises InputError for
    CUSTOM without `bytes`.
    """
    nodes: list[list[Node]] = [[] for _ in range(ranks)]
    by_phase: dict[int, list[tuple[int, Collective]]] = defaultdict(list)
    for index, collective in enumerate(collectives):
        by_phase[collective.phase].append((index, collective))
    for phase in sorted(by_phase):
        before = [tuple(node.id for node in mine) for mine in nodes]
        for index, collective in by_phase[phase]:
            for rank, kind, attributes in _operations(index, collective, ranks):
                number = len(nodes[rank])
                nodes[rank].append(Node(number, f"collective {index}", kind, before[rank], attributes))
    return nodes


def _operations(
    index: int, collective: Collective, ranks: int
) -> Iterator[tuple[int, int, dict[str, int | str | bool]]]:  # fmt: skip
    """Yield rank, node type and attributes of each operation of a collective."""
    size_bytes = collective.size_bytes
    listed: tuple[RankPair | FlowDemand, ...] = (*collective.pairs, *collective.flows)
    pairs = [(each.src_rank, each.dst_rank) for each in listed]
    if pairs and not size_bytes:
        raise InputError(f"collectives[{index}]: bytes: is missing; a trace says how many bytes are sent")
    for tag, (sender, receiver) in enumerate(pairs):
        sent: dict[str, int | str | bool] = {"comm_size": size_bytes, "comm_tag": tag, "is_cpu_op": False}
        yield sender, SEND, sent | {"comm_src": sender, "comm_dst": receiver}
        yield receiver, RECEIVE, sent | {"comm_src": sender, "comm_dst": receiver}
    if not collective.kind.pattern.lists:
        own: dict[str, int | str | bool] = {"comm_type": TYPE_OF[collective.kind], "comm_size": size_bytes}
        own |= {"is_cpu_op": False, "pg_name": f"group {index}" if collective.members else "all"}
        own |= {"root": collective.root} if collective.kind.pattern.is_rooted else {}
        for rank in collective.members or range(ranks):
            yield rank, COLLECTIVE, own
