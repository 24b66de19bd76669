"""Read topology files of SimAI, as its generator writes them. Those of the HPCC simulator differ (`hpcc`).

    nodes gpus_per_server nvswitches switches links gpu_type
    ids of all switches, the NVSwitches first
    node node rate delay error_rate                              once per link

GPUs are nodes 0 and on, server by server. A GPU's links to switches are the ports of its NIC (two in a dual-ToR
fabric); links to NVSwitches stay inside a server and are no fabric links.
"""

import re
from typing import NamedTuple

from heddle.controller.config.foreign.draft import Draft, DraftLink, DraftPlug, Options
from heddle.controller.config.foreign.formats.link_lines import is_count, lines_of, node_number, rate_bps
from heddle.controller.model.limit import MAX_CABLES, MAX_NICS, MAX_SWITCHES

_HEAD = re.compile(r"\s*[0-9]+(\s+[0-9]+){4}\s+[A-Za-z][^\s]*\s*\Z")
_MAX_GPUS = MAX_NICS


class _Head(NamedTuple):
    nodes: int
    gpus_per_server: int
    nvswitches: int
    switches: int
    links: int

    @property
    def gpus(self) -> int:
        return self.nodes - self.nvswitches - self.switches


def looks_like(text: str) -> bool:
    """Return whether the first line holds five counts and a GPU type."""
    return bool(_HEAD.match(text.lstrip()[:1000].split("\n", 1)[0]))


def read(text: str, draft: Draft, options: Options) -> None:
    """Fill the draft; raises InputError."""
    lines = lines_of(text)
    place, words = next(lines, ("1", []))
    nodes = _Nodes(draft, _head(draft, place, words), *next(lines, ("2", [])))
    links, nvlinks = 0, 0
    for place, words in lines:
        links += 1
        if links > nodes.head.links:
            draft.refuse(place, f"more links than the {nodes.head.links} of the first line")
        if len(words) < 3:
            draft.refuse(place, "a link is two nodes, rate, delay and error rate")
        nvlinks += nodes.add_link(place, words)
    if links < nodes.head.links:
        draft.refuse(place, f"the file ends after {links} links, the first line says {nodes.head.links}")
    draft.assumed.append(
        f"{nodes.head.gpus_per_server} GPUs per host, a NIC for each; its links to switches are its ports"
    )
    if nvlinks:
        draft.assumed.append(f"{nvlinks} NVSwitch links are inside hosts and no fabric links")


class _Nodes:
    """The nodes of a file: which are GPUs, NVSwitches and switches."""

    def __init__(self, draft: Draft, head: _Head, place: str, words: list[str]) -> None:
        self.head = head
        self._draft = draft
        if head.nvswitches + head.switches != len(words):
            counts = f"{head.nvswitches} NVSwitches and {head.switches} switches"
            draft.refuse(place, f"{len(words)} switch ids, the first line says {counts}")
        numbers = [self._number(place, word) for word in words]
        if len(set(numbers)) < len(numbers):
            draft.refuse(place, "the same switch id twice")
        self._nvswitches = set(numbers[: head.nvswitches])
        self._switches = set(numbers[head.nvswitches :])
        for number in numbers[head.nvswitches :]:
            draft.add_switch(f"switch{number}", place)
        gpus = sorted(set(range(head.nodes)).difference(numbers))
        self._gpu_of = {number: at for at, number in enumerate(gpus)}
        for gpu in range(0, head.gpus, head.gpus_per_server):
            draft.hosts[self._server(gpu)] = ""

    def add_link(self, place: str, words: list[str]) -> bool:
        """Record a link; return whether it stays inside a host."""
        a, b = self._number(place, words[0]), self._number(place, words[1])
        if a == b:
            self._draft.refuse(place, f"node {a} is linked to itself")
        inside = [end in self._nvswitches for end in (a, b)]
        if any(inside):
            if a in self._switches or b in self._switches:
                self._draft.leave_out("link between an NVSwitch and a switch of the fabric", place)
            return True
        if a in self._gpu_of and b in self._gpu_of:
            self._draft.leave_out("link between two GPUs", place)
            return False
        rate = rate_bps(self._draft, place, words[2])
        if a in self._gpu_of or b in self._gpu_of:
            gpu, switch = (self._gpu_of[a], b) if a in self._gpu_of else (self._gpu_of[b], a)
            rail = gpu % self.head.gpus_per_server
            plug = DraftPlug(self._server(gpu), f"switch{switch}", rate, place, rail, (rail,))
            self._draft.add_plug(plug)
        else:
            self._draft.add_link(DraftLink(f"switch{a}", f"switch{b}", rate, place))
        return False

    def _server(self, gpu: int) -> str:
        return f"h{gpu // self.head.gpus_per_server + 1}"

    def _number(self, place: str, word: str) -> int:
        return node_number(self._draft, place, word, self.head.nodes)


def _head(draft: Draft, place: str, words: list[str]) -> _Head:
    if len(words) < 5 or not all(map(is_count, words[:5])):
        draft.refuse(place, "the first line must hold nodes, GPUs per server, NVSwitches, switches, links, GPU type")
    head = _Head(*map(int, words[:5]))
    limits = (
        (head.switches, MAX_SWITCHES, "switches"),
        (head.gpus, _MAX_GPUS, "GPUs"),
        (head.nvswitches, _MAX_GPUS, "NVSwitches"),
        (head.links, MAX_CABLES + 3 * _MAX_GPUS, "links"),
    )
    for count, most, what in limits:
        if count > most:
            draft.refuse(place, f"{count:,} {what}, at most {most:,} are allowed")
    if head.gpus < 1 or head.gpus_per_server < 1:
        draft.refuse(place, "no GPUs: there must be more nodes than switches, and at least one GPU per server")
    return head
