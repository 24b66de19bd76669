"""Read topology files of the HPCC simulator and of the ns-3 simulators that grew from it.

    nodes switches links
    ids of all switches
    node node rate delay error_rate                              once per link

All other nodes are hosts; each of a host's links is a NIC. The simulator reads as many links as the first line says and
ignores what follows (alibaba-edu/High-Precision-Congestion-Control, simulation/scratch/third.cc).
"""

import re
from collections.abc import Iterator

from heddle.controller.config.foreign.draft import Draft, DraftLink, DraftPlug, Options
from heddle.controller.config.foreign.formats.link_lines import is_count, lines_of, node_number, rate_bps
from heddle.controller.model.limit import MAX_CABLES, MAX_NICS, MAX_SWITCHES

_HEAD = re.compile(r"\s*(?:[0-9]+[ \t]+){2}[0-9]+[ \t]*\r?\n[0-9\s]*?[0-9]+[ \t]+[0-9]+[ \t]+[0-9.]+[A-Za-z/]+\s")
_LONGEST = 1_000_000


def looks_like(text: str) -> bool:
    """Return whether the first line holds three counts, and numbers only follow up to the first link."""
    return bool(_HEAD.match(text[:_LONGEST]))


def read(text: str, draft: Draft, options: Options) -> None:
    """Fill the draft; raises InputError."""
    lines = lines_of(text)
    place, words = next(lines, ("1", []))
    if len(words) != 3 or not all(map(is_count, words)):
        draft.refuse(place, "the first line must hold the numbers of nodes, switches and links")
    nodes, switches, links = map(int, words)
    _check_counts(draft, place, nodes, switches, links)
    found: dict[int, str] = {}
    while len(found) < switches:
        place, words = next(lines, (place, []))
        if not words:
            draft.refuse(place, f"the file ends after {len(found)} switch ids, the first line says {switches}")
        for word in words:
            number = node_number(draft, place, word, nodes)
            if number in found:
                draft.refuse(place, f"the switch id {number} a second time")
            found[number] = f"switch{number}"
            draft.add_switch(found[number], place)
    if len(found) > switches:
        draft.refuse(place, f"{len(found)} switch ids, the first line says {switches}")
    for number in range(nodes):
        if number not in found:
            draft.hosts[f"h{number}"] = ""
    _add_links(draft, lines, nodes, links, found)
    draft.assumed.append("a host for each node that is no switch, with a NIC for each of its links")


def _add_links(
    draft: Draft, lines: Iterator[tuple[str, list[str]]], nodes: int, links: int, switches: dict[int, str]
) -> None:
    nics: dict[str, int] = {}
    count, place = 0, ""
    for place, words in lines:
        if count == links:
            draft.leave_out(f"line after the {links} links, which the simulator ignores too", place)
            continue
        count += 1
        if len(words) < 3:
            draft.refuse(place, "a link is two nodes, rate, delay and error rate")
        ends = [node_number(draft, place, word, nodes) for word in words[:2]]
        rate = rate_bps(draft, place, words[2])
        if ends[0] == ends[1]:
            draft.refuse(place, f"node {ends[0]} is linked to itself")
        joined = [switches[end] for end in ends if end in switches]
        hosts = [f"h{end}" for end in ends if end not in switches]
        if len(hosts) == 2:
            draft.leave_out("link between two hosts", place)
        elif hosts:
            rail = nics.setdefault(hosts[0], 0)
            nics[hosts[0]] += 1
            draft.add_plug(DraftPlug(hosts[0], joined[0], rate, place, rail))
        else:
            draft.add_link(DraftLink(joined[0], joined[1], rate, place))
    if count < links:
        draft.refuse(place, f"the file ends after {count} links, the first line says {links}")


def _check_counts(draft: Draft, place: str, nodes: int, switches: int, links: int) -> None:
    for count, most, what in (
        (switches, MAX_SWITCHES, "switches"),
        (nodes - switches, MAX_NICS, "hosts"),
        (links, MAX_CABLES + 3 * MAX_NICS, "links"),
    ):
        if count > most:
            draft.refuse(place, f"{count:,} {what}, at most {most:,} are allowed")
    if nodes <= switches:
        draft.refuse(place, "no hosts: there must be more nodes than switches")
