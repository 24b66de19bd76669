"""Define which members of a collective send to which (a pattern), what its bytes are, and how many a flow carries.

`CollectiveKind` in `controller.model.job` has a row for each kind, which refers to these values; they compare by
identity. Members count from 0 in the order of the collective, and `root` is the root's place among them. The words
are those of docs/contract.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, permutations, repeat
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """Which members send to which.

    `pairs` returns sender and receiver of each flow among so many members, those inside a host included; `visits` the
    number of pairs that planning visits, at least the members. `count` counts the flows between hosts where that is
    faster than by `pairs`. `lists` names the field of a request that lists the flows, where the kind has none of
    its own.
    """

    words: str
    pairs: Callable[[int, int], Iterable[tuple[int, int]]] = lambda members, root: ()
    visits: Callable[[int], int] = lambda members: members
    count: Callable[[Sequence[str], int], int] | None = None
    is_rooted: bool = False
    lists: Literal["", "pairs", "flows"] = ""

    def flows(self, hosts: Sequence[str], root: int) -> int:
        """Count the flows between different hosts; `hosts` are those of the members."""
        if self.count is not None:
            return self.count(hosts, root)
        return sum(hosts[a] != hosts[b] for a, b in self.pairs(len(hosts), root))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowSize:
    """The bytes of each flow per iteration; `of` takes the collective's bytes and the number n of its members."""

    words: str
    of: Callable[[int, int], float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buffer:
    """Which buffer the bytes B of a collective are, per member and iteration.

    `call` is NCCL's, `formula` gives B by its arguments: a count of elements and the `size` of one in bytes.
    """

    words: str
    call: str
    formula: str


def _ring(members: int, _: int) -> Iterable[tuple[int, int]]:
    return zip(range(members), chain(range(1, members), (0,)), strict=False)  # no member, no receiver


def _tree(members: int, _: int) -> Iterator[tuple[int, int]]:
    for child in range(1, members):
        parent = (child - 1) // 2
        yield child, parent
        yield parent, child


def _binomial_tree(members: int, root: int) -> Iterator[tuple[int, int]]:
    for i in range(members // 2 + 1):  # k from the first with 2^k > i to the last with i + 2^k < n
        for k in range(i.bit_length(), (members - 1 - i).bit_length()):
            yield (i + root) % members, (i + (1 << k) + root) % members


def _to_root(members: int, root: int) -> Iterable[tuple[int, int]]:
    return zip(chain(range(root), range(root + 1, members)), repeat(root), strict=False)


RING = Pattern(words="from each to the next, the last to the first", pairs=_ring)
TREE = Pattern(
    words="between i and (i-1) div 2 for i = 1 … n-1, both directions, root ignored",
    pairs=_tree,
    visits=lambda members: 2 * members,
    count=lambda hosts, _: 2 * sum(hosts[i] != hosts[(i - 1) // 2] for i in range(1, len(hosts))),
)
EACH_TO_EACH = Pattern(
    words="from every one to every other",
    pairs=lambda members, _: permutations(range(members), 2),
    visits=lambda members: members * members,
    count=lambda hosts, _: len(hosts) ** 2 - sum(count * count for count in Counter(hosts).values()),
)
FROM_ROOT = Pattern(
    words="along a binomial tree (counted from the root and wrapping, member i sends to i + 2^k for every k with "
    "2^k > i and i + 2^k < n)",
    pairs=_binomial_tree,
    is_rooted=True,
)
TO_ROOT = Pattern(
    words="from every other to the root",
    pairs=_to_root,
    count=lambda hosts, root: len(hosts) - hosts.count(hosts[root]),
    is_rooted=True,
)
LISTED_PAIRS = Pattern(words="as given", lists="pairs")
LISTED_FLOWS = Pattern(words="as given", lists="flows")

ALL = FlowSize(words="B", of=lambda size_bytes, n: float(size_bytes))
ALL_BUT_OWN = FlowSize(words="(n-1)/n B", of=lambda size_bytes, n: (n - 1) / n * size_bytes)
TWICE_ALL_BUT_OWN = FlowSize(words="2 (n-1)/n B", of=lambda size_bytes, n: 2 * (n - 1) / n * size_bytes)
A_PART = FlowSize(words="B/n", of=lambda size_bytes, n: size_bytes / n)

REDUCED = Buffer(words="the buffer of a member", call="ncclAllReduce", formula="count × size")
GATHERED = Buffer(words="the whole gathered buffer", call="ncclAllGather", formula="n × sendcount × size")
SCATTERED = Buffer(
    words="the whole buffer before it is scattered", call="ncclReduceScatter", formula="n × recvcount × size"
)
EXCHANGED = Buffer(
    words="what a member has for all n, itself included", call="ncclAlltoAll", formula="n × count × size"
)
BROADCASTED = Buffer(words="the buffer of the root", call="ncclBroadcast", formula="count × size")
PART_OF_EACH = Buffer(words="what each member sends; the root has n B", call="ncclGather", formula="count × size")
SENT = Buffer(words="what each pair sends", call="ncclSend", formula="count × size")
SENT_BY_FLOW = Buffer(words="what each flow sends", call="ncclSend", formula="count × size")
