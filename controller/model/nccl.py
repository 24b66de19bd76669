"""Expand a collective as NCCL does, by NVLink domains and rails; pure.

`Algorithm` in `controller.model.job` has a row for each algorithm, which refers to these tables. Members whose GPUs
share an NVLink domain communicate inside it, and every NIC of a domain is a rail: rail r of each domain is connected
with rail r of others alone. Sources: NVIDIA/nccl 5067397c, src/graph/connect.cc (rings), src/graph/trees.cc (trees),
src/graph/search.cc (which NIC sends); docs/contract.md has the rules in words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from heddle.controller.model.collectives import EACH_TO_EACH, RING, TREE, Pattern
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Nic

CHANNELS_PER_RAIL = 2
"""NCCL doubles the channels that it finds, one a rail: the second half repeats the rings, and has the second tree."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """The members of a collective by NVLink domain; all domains have as many NICs, on the same rails, and members.

    `first[d][r]` is the first member on NIC r of domain d, `domain[m]` the domain of member m. Domains are in the order
    of their first members, the NICs of a domain in that of rails, then of their first members.
    """

    first: tuple[tuple[int, ...], ...]
    domain: tuple[int, ...]

    @property
    def domains(self) -> int:
        """Return the number of domains."""
        return len(self.first)

    @property
    def rails(self) -> int:
        """Return the number of NICs of each domain."""
        return len(self.first[0])

    @property
    def channels(self) -> int:
        """Return the number of NCCL's channels."""
        return CHANNELS_PER_RAIL * self.rails


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnRails:
    """The flows of a pattern between domains.

    `pairs` are sender and receiver of each flow, by member, and `count` their number. `part` is the bytes of a flow
    over those that a flow of the kind has by the contract. `visits` limits `count` by the number of members.
    """

    pairs: Callable[[Layout], Iterable[tuple[int, int]]]
    count: Callable[[Layout], int]
    part: Callable[[Layout], float]
    visits: Callable[[int], int]


def _rings(at: Layout) -> Iterator[tuple[int, int]]:
    """Channel c enters and leaves each domain by NIC c mod rails (NCCL_CROSS_NIC=0, and the first try of 2)."""
    for channel in range(at.channels if at.domains > 1 else 0):
        rail = channel % at.rails
        for domain in range(at.domains):
            yield at.first[domain][rail], at.first[(domain + 1) % at.domains][rail]


def _trees(at: Layout) -> Iterator[tuple[int, int]]:
    for tree in double_tree(at.domains):
        for rail in range(at.rails):
            for child, parent in tree:
                yield at.first[child][rail], at.first[parent][rail]
                yield at.first[parent][rail], at.first[child][rail]


def double_tree(count: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return child and parent of each edge of both trees over so many domains (trees.cc, ncclGetDtree).

    The second is the mirror of the first, or for an odd number the first moved by one.
    """
    tree = [(child, _parent(child, count)) for child in range(1, count)]
    if count % 2:
        return tree, [((child + 1) % count, (parent + 1) % count) for child, parent in tree]
    return tree, [(count - 1 - child, count - 1 - parent) for child, parent in tree]


def _parent(child: int, count: int) -> int:
    """Return the parent in the binary tree of root 0, where the lowest bit set is the height (ncclGetBtree)."""
    bit = child & -child
    above = (child ^ bit) | (bit << 1)
    return above if above < count else child ^ bit


def _by_rail(at: Layout) -> Iterator[tuple[int, int]]:
    """Every GPU's data for a rail of another domain go over NVLink to the NIC of that rail (PXN), which sends."""
    for sender, receiver in permutations(range(at.domains), 2):
        yield from zip(at.first[sender], at.first[receiver], strict=True)


def _by_own_nic(at: Layout) -> Iterator[tuple[int, int]]:
    pairs = permutations(range(len(at.domain)), 2)
    return ((a, b) for a, b in pairs if at.domain[a] != at.domain[b])


_RINGS = OnRails(
    pairs=_rings,
    count=lambda at: at.channels * at.domains if at.domains > 1 else 0,
    part=lambda at: 1 / at.channels,
    visits=lambda members: CHANNELS_PER_RAIL * members,
)
_TREES = OnRails(
    pairs=_trees,
    count=lambda at: 2 * at.channels * (at.domains - 1),
    part=lambda at: 1 / at.channels,
    visits=lambda members: 2 * CHANNELS_PER_RAIL * members,
)
_PXN = OnRails(
    pairs=_by_rail,
    count=lambda at: at.rails * at.domains * (at.domains - 1),
    part=lambda at: (len(at.domain) // at.domains) ** 2 / at.rails,
    visits=lambda members: members * members,
)
_NO_PXN = OnRails(
    pairs=_by_own_nic,
    count=lambda at: len(at.domain) ** 2 * (at.domains - 1) // at.domains,
    part=lambda at: 1.0,
    visits=lambda members: members * members,
)
BY_KIND_ALONE: Mapping[Pattern, OnRails] = {}
WITH_PXN: Mapping[Pattern, OnRails] = {RING: _RINGS, TREE: _TREES, EACH_TO_EACH: _PXN}
"""By the pattern of a kind; NCCL has no rules here for the others."""
WITHOUT_PXN: Mapping[Pattern, OnRails] = {RING: _RINGS, TREE: _TREES, EACH_TO_EACH: _NO_PXN}


def layout_of(nics: Sequence[Nic]) -> Layout:
    """Return the layout of members on these NICs; raises InputError where rails or domains do not allow one."""
    domains: dict[str, dict[str, list[int]]] = {}
    for member, nic in enumerate(nics):
        if not nic.nvlink_domain:
            raise InputError(
                f"host {nic.host} has no nvlink_domain in the fabric file: NCCL uses every rail where NVLink joins the "
                "GPUs; name its domain, or leave algorithm out"
            )
        domains.setdefault(nic.nvlink_domain, {}).setdefault(nic.id, []).append(member)
    shapes = {name: _sorted_by_rail(name, members_of, nics) for name, members_of in domains.items()}
    _refuse_unequal(shapes, domains, nics)
    number = {name: index for index, name in enumerate(domains)}
    return Layout(first=tuple(shapes.values()), domain=tuple(number[nic.nvlink_domain] for nic in nics))


def _sorted_by_rail(domain: str, members_of: Mapping[str, Sequence[int]], nics: Sequence[Nic]) -> tuple[int, ...]:
    """Return the first member on each NIC of a domain, by rail, then in the order of members."""
    first = [members[0] for members in members_of.values()]
    on_rail: dict[tuple[str, int], Nic] = {}
    for nic in (nics[member] for member in first):
        other = on_rail.setdefault((nic.host, nic.rail), nic)
        if other is not nic:
            raise InputError(
                f"NICs {other.id} and {nic.id} of host {nic.host} are both on rail {nic.rail} (0 where the fabric file "
                "names none): give each NIC of a host its rail"
            )
    if len({len(members) for members in members_of.values()}) > 1:
        raise InputError(f"nvlink_domain {domain} has more ranks on one NIC than on another: give each as many")
    return tuple(sorted(first, key=lambda member: nics[member].rail))


def _refuse_unequal(
    shapes: Mapping[str, tuple[int, ...]], domains: Mapping[str, Mapping[str, Sequence[int]]], nics: Sequence[Nic]
) -> None:
    """Refuse domains that differ in rails, or in ranks on each NIC."""
    sizes = {
        name: (tuple(nics[member].rail for member in first), sum(map(len, domains[name].values())))
        for name, first in shapes.items()
    }
    for name, size in sizes.items():
        model = next(iter(sizes))
        if size != sizes[model]:
            both = " and ".join(f"{each} {_shown(*sizes[each])}" for each in (model, name))
            raise InputError(
                f"the hosts of the job are unequal: nvlink_domain {both}; NCCL's rails meet where all domains have the "
                "same NICs and ranks"
            )


def _shown(rails: Sequence[int], ranks: int) -> str:
    names = " ".join(map(str, rails[:16])) + (" …" if len(rails) > 16 else "")
    return f"has {ranks} ranks on rails {names}"
