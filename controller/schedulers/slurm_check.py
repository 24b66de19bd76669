"""Check a topology file of Slurm for what ends slurmctld, or keeps nodes or jobs from running.

Slurm 22.05 exits at `scontrol reconfigure` where the file has a bad range, an unknown key or child, a switch twice or a
loop, and does not start again. A node that is in no switch can run nothing; jobs across two roots are refused; block
sizes that are not base x 2^k, or a block of fewer nodes than the base, are fatal (switch_record.c, block_record.c).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from heddle.controller.schedulers.host_list import MAX_HOSTS
from heddle.controller.schedulers.slurm_files import MAX_BLOCK_LEVEL, Format
from heddle.controller.schedulers.slurm_reading import Entry, TextError, entries_of

MAX_DEPTH = 20
MAX_SWITCHES = 65_533
"""Slurm numbers switches in 16 bits."""
MAX_NAMED = 3
_SIZES = re.compile(r"[1-9][0-9]{0,8}(?:,[1-9][0-9]{0,8})*")


def problems_of(text: str, form: Format, nodes: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return what is wrong with a file, nothing where Slurm may read it.

    Each of `nodes` must be in it once, and no other; without them the nodes are those that the file names.
    """
    try:
        entries, sizes = entries_of(text, form)
    except TextError as error:
        return (str(error),)
    if not entries or len(entries) > MAX_SWITCHES:
        return (f"{len(entries):,} switches; Slurm takes 1 to {MAX_SWITCHES:,}",)
    placed = [node for each in entries for node in each.nodes]
    found = [*_naming(entries), *_placing(placed, placed if nodes is None else nodes)]
    if form is Format.BLOCK:
        return (*found, *_sizing(sizes, [len(each.nodes) for each in entries]))
    return tuple(found or _shaping({each.name: each.children for each in entries}))


def _naming(entries: Sequence[Entry]) -> Iterator[str]:
    for name, times in Counter(each.name for each in entries).items():
        if times > 1:
            yield f"{name}: defined {times} times"


def _placing(placed: Sequence[str], wanted: Iterable[str]) -> Iterator[str]:
    """Yield which nodes are not in the file exactly once."""
    times, wanted = Counter(placed), dict.fromkeys(wanted)
    if not times:
        yield "no node"
    if len(times) > MAX_HOSTS:
        yield f"{len(times):,} nodes; Slurm takes {MAX_HOSTS:,}"
    for what, nodes in (
        ("below two switches", [node for node, count in times.items() if count > 1]),
        ("below no switch, so that no job could run there", [node for node in wanted if node not in times]),
        ("not among Slurm's nodes", [node for node in times if node not in wanted]),
    ):
        if nodes:
            more = f" and {len(nodes) - MAX_NAMED:,} more" if len(nodes) > MAX_NAMED else ""
            yield f"{', '.join(nodes[:MAX_NAMED])}{more}: {what}"


def _shaping(children: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield why the switches are no tree: unknown children, several parents, several roots, loops, too deep."""
    parents = Counter(child for below in children.values() for child in below)
    yield from (f"{child}: no switch of this name" for child in parents if child not in children)
    yield from (f"{child}: below {times} switches" for child, times in parents.items() if times > 1)
    roots = [name for name in children if name not in parents]
    if len(roots) != 1:
        yield f"{len(roots)} switches are below no other ({', '.join(roots[:MAX_NAMED])}); jobs need one root"
        return
    level, seen = roots, 0
    for _ in range(MAX_DEPTH):
        seen += len(level)
        level = [child for name in level for child in children.get(name, ()) if parents[child] == 1]
    if seen < len(children):
        yield f"{len(children) - seen} switches are below themselves, or more than {MAX_DEPTH} deep"


def _sizing(sizes: str, blocks: Sequence[int]) -> Iterator[str]:
    """Yield why Slurm refuses the sizes of blocks: each is base x 2^k, and no block is smaller than the base."""
    if not _SIZES.fullmatch(sizes):
        yield "BlockSizes: must be numbers with commas between them"
        return
    base, *others = map(int, sizes.split(","))
    allowed = {base << level for level in range(MAX_BLOCK_LEVEL + 1)}
    if not set(others) <= allowed:
        yield f"BlockSizes: {sizes}: each must be {base} x 2^k, k up to {MAX_BLOCK_LEVEL}"
    if min(blocks) < base:
        yield f"BlockSizes: a block has {min(blocks)} nodes, less than the base {base}"
