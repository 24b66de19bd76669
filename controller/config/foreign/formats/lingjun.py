"""Read topo.csv of the Alibaba Lingjun dataset (2023): a row per host with its access, pod and core switch.

They are called ASW, PSW and DSW. The numbers of ASWs start again in every pod, those of PSWs under every DSW. The file
names one switch per pod and one core, without rates or cables. `aggs_per_pod` and `cores` split each PSW and DSW into
several switches, in planes as in `clos3`: agg a of every pod is linked to the a-th run of the cores.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.config.foreign.draft import Draft, DraftLink, DraftPlug, Options
from heddle.controller.config.text.complaint import shown
from heddle.controller.model.limit import MAX_SWITCHES

_COLUMNS = ("ip", "DSW", "PSW", "ASW")
_HOST_NAME = 12
"""Hosts are named by 64 hexadecimal digits; so many distinguish them."""
_MAX_HOST_LENGTH = len("255.255.255.255")
_LAYERS = 3
_NUMBER = re.compile(r"([0-9]{1,9})")


class _Row(NamedTuple):
    line: str
    host: str
    path: tuple[str, ...]


def looks_like(text: str) -> bool:
    """Return whether the first line names the columns."""
    cells = {cell.strip().strip('"') for cell in text.lstrip()[:1000].split("\n", 1)[0].split(",")}
    return set(_COLUMNS[1:]) <= cells


def read(text: str, draft: Draft, options: Options) -> None:
    """Fill the draft; raises InputError."""
    cores = options.aggs_per_pod if options.cores is None else options.cores
    if cores % options.aggs_per_pod:
        draft.refuse("", f"{cores} cores must be a multiple of {options.aggs_per_pod} aggs per pod")
    if max(cores, options.aggs_per_pod) > MAX_SWITCHES:
        draft.refuse("", f"at most {MAX_SWITCHES:,} switches are allowed")
    rows = list(_rows(text, draft))
    if not rows:
        draft.refuse("", "no hosts: there is no row after the first line")
    places = _places(rows)
    name_of = _switch_names(places, (cores, options.aggs_per_pod, 1))
    for path, names in name_of.items():
        for name in names:
            draft.add_switch(name, places[path], tier=_LAYERS - len(path))
    _add_links(draft, options, places, name_of)
    _add_hosts(draft, options, rows, name_of)
    draft.assumed.append(f"every NIC {options.nic_bps / 1e9:g} Gbit/s, every other link {options.cable_bps / 1e9:g}")
    draft.assumed.append("one NIC per row, one cable per pair of linked switches")
    draft.assumed.append(f"{options.aggs_per_pod} switch(es) for each PSW, {cores} for each DSW")


def _rows(text: str, draft: Draft) -> Iterator[_Row]:
    reader = csv.reader(text.splitlines())
    try:
        header = [cell.strip() for cell in next(reader, [])]
        missing = [name for name in _COLUMNS if name not in header]
        if missing:
            draft.refuse("1", f"no column {', '.join(missing)}: the first line must name ip, DSW, PSW and ASW")
        at = [header.index(name) for name in _COLUMNS]
        for row in reader:
            line = str(reader.line_num)
            if not any(row):
                continue
            if len(row) <= max(at):
                draft.refuse(line, f"{len(row)} cells, the first line has {len(header)}")
            host, *path = (row[i].strip() for i in at)
            if not all((host, *path)):
                name = next(name for name, cell in zip(_COLUMNS, (host, *path), strict=True) if not cell)
                draft.refuse(line, f"{name} is empty")
            yield _Row(line, host, tuple(path))
    except csv.Error as error:
        draft.refuse(str(reader.line_num), f"not a table: {error}")


def _places(rows: list[_Row]) -> dict[tuple[str, ...], str]:
    """Return the line that first names each switch, by its path from the DSW: cores, pods, access switches."""
    first: dict[tuple[str, ...], str] = {}
    for row in rows:
        for depth in (1, 2, 3):
            first.setdefault(row.path[:depth], row.line)
    return {path: first[path] for path in sorted(first, key=lambda path: (len(path), [_natural(one) for one in path]))}


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that orders S2 before S10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _NUMBER.split(text)]


def _switch_names(
    places: dict[tuple[str, ...], str], switches_each: tuple[int, int, int]
) -> dict[tuple[str, ...], list[str]]:
    """Return a unique name for every switch; names that repeat in a layer are prefixed by the layer above."""
    names = {depth: Counter(path[-1] for path in places if len(path) == depth) for depth in range(1, _LAYERS + 1)}
    repeated = {depth for depth, count in names.items() if max(count.values()) > 1}
    found = {}
    for path in places:
        depth = len(path)
        name = "-".join(path[-2:] if depth in repeated else path[-1:])
        count = switches_each[depth - 1]
        found[path] = [name] if count == 1 else [f"{name}-{i + 1}" for i in range(count)]
    return found


def _add_links(
    draft: Draft,
    options: Options,
    places: dict[tuple[str, ...], str],
    name_of: dict[tuple[str, ...], list[str]],
) -> None:
    for path, place in places.items():
        if len(path) == 1:
            continue
        upper, lower = name_of[path[:-1]], name_of[path]
        run = len(upper) // len(lower) if len(path) == _LAYERS - 1 else len(upper)
        for at, below in enumerate(lower):
            for above in upper[at * run : (at + 1) * run]:
                draft.add_link(DraftLink(below, above, options.cable_bps, place))


def _add_hosts(draft: Draft, options: Options, rows: list[_Row], name_of: dict[tuple[str, ...], list[str]]) -> None:
    """Record the NICs of hosts; a host with several rows has one for each."""
    seen: dict[_Row, str] = {}
    owner: dict[str, str] = {}
    nics: Counter[str] = Counter()
    for row in rows:
        other = seen.setdefault(row._replace(line=""), row.line)
        if other != row.line:
            draft.refuse(row.line, f"the host {shown(row.host)} is there twice, at line {other} too; keep one")
        short = row.host[:_HOST_NAME] if len(row.host) > _MAX_HOST_LENGTH else row.host
        host = short if owner.setdefault(short, row.host) == row.host else row.host
        draft.hosts[host] = row.line
        draft.add_plug(DraftPlug(host, name_of[row.path][0], options.nic_bps, row.line, nics[host]))
        nics[host] += 1
