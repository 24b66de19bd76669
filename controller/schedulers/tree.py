"""Arrange the nodes of a scheduler in a tree by the switches of a fabric: each node once, and one root.

A group without groups below it holds the nodes of one leaf, or of all leaves that hosts join (rails, hosts on two
leaves). Groups whose leaves share aggregation switches are below one pod. Spines and cores make no groups: any of them
leads to any leaf, so they are the root. The tree is that of the fabric as built, since a partitioned fabric of today is
no reason to refuse jobs tomorrow.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from heddle.controller.model.fabric import Fabric, Role
from heddle.foundation.network import Network

MAX_NAME_LENGTH = 63
"""Slurm takes 64 characters, a label of Kubernetes 63."""
ROOT, UNKNOWN = "fabric", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that are near each other: it has either nodes or groups, never both."""

    name: str
    nodes: tuple[str, ...] = ()
    groups: tuple["Group", ...] = ()

    def walk(self, above: tuple["Group", ...] = ()) -> Iterator[tuple["Group", ...]]:
        """Yield each group with the groups above it, nearest first: those at the bottom before the root."""
        chain = (self, *above)
        for group in self.groups:
            yield from group.walk(chain)
        yield chain

    def leaves(self) -> list[tuple["Group", ...]]:
        """Return the groups that have nodes, each with the groups above it, nearest first."""
        return [chain for chain in self.walk() if chain[0].nodes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The groups of all nodes, and the nodes that the fabric does not know, which are in one group of their own."""

    root: Group
    unknown: tuple[str, ...]


def tree_of(fabric: Fabric, nodes: Sequence[str] | None = None) -> Tree:
    """Return the tree of the scheduler's nodes; without `nodes` that of all hosts with a NIC of the compute network."""
    compute = _leaves_of_hosts(fabric, compute=True)
    block_of = _joined(compute.values(), fabric.leaves)
    known = {host: block_of[leaves[0]] for host, leaves in (_leaves_of_hosts(fabric, compute=False) | compute).items()}
    wanted = dict.fromkeys(compute if nodes is None else nodes)
    members: dict[str, list[str]] = {block: [] for block in block_of.values()}
    for host, block in known.items():
        if host in wanted:
            members[block].append(host)
    sizes = Counter(block_of.values())
    names = _Names()
    blocks = {
        block: Group(name=names.new(block if sizes[block] == 1 else f"{block}-group"), nodes=tuple(hosts))
        for block, hosts in members.items()
        if hosts
    }
    groups = _in_pods(fabric, block_of, blocks, names)
    unknown = tuple(node for node in wanted if node not in known)
    if unknown:
        groups.append(Group(name=names.new(UNKNOWN), nodes=unknown))
    return Tree(root=Group(name=names.new(ROOT), groups=tuple(groups)), unknown=unknown)


class _Names:
    """Names that Slurm and Kubernetes take, each given once; the ids of a fabric have the right characters."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def new(self, text: str) -> str:
        """Return the text, or what is nearest to it and free."""
        name = text[:MAX_NAME_LENGTH].rstrip("._-")
        while self._given[name]:
            self._given[name] += 1
            number = f"-{self._given[name]}"
            name = name[: MAX_NAME_LENGTH - len(number)] + number
        self._given[name] = 1
        return name


def _leaves_of_hosts(fabric: Fabric, *, compute: bool) -> dict[str, list[str]]:
    """Return the leaves of each host's NICs: of those of the compute network, or of all others."""
    found: dict[str, list[str]] = {}
    for nic in fabric.nics:
        if (nic.network is Network.COMPUTE) == compute:
            found.setdefault(nic.host, []).append(nic.port.switch)
    return found


def _in_pods(fabric: Fabric, block_of: Mapping[str, str], blocks: Mapping[str, Group], names: _Names) -> list[Group]:
    """Return the groups below the root: a pod for the blocks that share aggregation switches, and each other block."""
    aggs = [switch.id for switch in fabric.switches if switch.role is Role.AGG]
    cables = [
        (block_of[cable.lower.switch], cable.upper.switch)
        for cable in fabric.cables
        if cable.lower.switch in block_of and fabric.switch_by_id[cable.upper.switch].role is Role.AGG
    ]
    pod_of = _joined(cables, [*block_of.values(), *aggs])
    pods = {pod_of[block] for block, _ in cables}
    members: dict[str, list[Group]] = {}
    for block, group in blocks.items():
        members.setdefault(pod_of[block], []).append(group)
    number = count(1)
    return [
        group
        for pod, groups in members.items()
        for group in ([Group(name=names.new(f"pod{next(number)}"), groups=tuple(groups))] if pod in pods else groups)
    ]


def _joined(sets: Iterable[Sequence[str]], items: Iterable[str]) -> dict[str, str]:
    """Return for each item the first of its component in the order of `items`; the items of one set are joined."""
    parent = {item: item for item in items}
    place = {item: number for number, item in enumerate(parent)}

    def first(item: str) -> str:
        while parent[item] != item:
            parent[item] = item = parent[parent[item]]
        return item

    for each in sets:
        for other in each[1:]:
            one, two = sorted((first(each[0]), first(other)), key=place.__getitem__)
            parent[two] = one
    return {item: first(item) for item in parent}
