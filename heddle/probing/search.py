"""Find a source port for the planned path of every flow: propose ports, locate replies, confirm every cable.

A probe that expires at hop k came in by the k-th link of its path, whose end the reply's address names. Ports are drawn
until one expires at the top of the fabric by the planned link; then the flow's own five-tuple is probed at every hop up
to the far leaf. A silent probe says nothing about a path. The search decides nothing by time and sends nothing.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from heddle.probing.flow import Wanted
from heddle.probing.probe import FIRST_PORT, PORTS, Question

BUDGET_FACTOR = 8
"""Probes per flow and path: of flows that want one of n paths, about exp(-8) of a hash's draws find none."""


@dataclass
class _Seek:
    """The state of one flow: ports not tried yet, the candidate under confirmation, and the number of probes sent."""

    wanted: Wanted
    untried: Iterator[int]
    budget: int
    candidate: int | None = None
    sent: int = 0

    @property
    def is_spent(self) -> bool:
        return self.sent >= self.budget


class Search:
    """The search for the ports of flows: `ports` are found, the flows of `missing` have none within their budget."""

    def __init__(
        self, flows: Sequence[Wanted], link_at: Mapping[int, str], ways: int, seed: int = 0, batch: int | None = None
    ) -> None:
        """Begin; `link_at` names the link that ends at an address, `ways` is how many paths a flow has at most.

        `batch` ports are tried per flow and round, half of `ways` by default.
        """
        self._link_at, self._batch = link_at, batch or max(1, ways // 2)
        self.ports: dict[str, int] = {}
        self.unknown_addresses = 0
        self.astray = 0
        self.elsewhere: dict[str, tuple[str, ...]] = {}
        self._open: dict[str, _Seek] = {}
        self._pairs: dict[tuple[int, int], set[int]] = {}
        self._of_source: dict[int, set[str]] = {}
        self._seen: dict[tuple[int, int], dict[int, str]] = {}
        for flow in flows:
            order = _drawn_ports(f"{seed}/{flow.flow_id}")
            if flow.top < 2:
                self.ports[flow.flow_id] = next(order)
            else:
                self._of_source.setdefault(flow.src_ip, set()).add(flow.flow_id)
                budget = BUDGET_FACTOR * ways + len(flow.path)
                self._open[flow.flow_id] = _Seek(flow, order, budget, flow.port or None)
                self._taken(flow).update({flow.port} - {0})

    @property
    def missing(self) -> list[str]:
        """Return the flows for which no port was found within their budget."""
        return [flow_id for flow_id, seek in self._open.items() if seek.is_spent]

    def reached(self, flow_id: str) -> frozenset[str]:
        """Return the links at the top of the fabric on which probes between the NICs of a missing flow were seen."""
        wanted = self._open[flow_id].wanted
        seen = self._seen.get((wanted.src_ip, wanted.dst_ip), {})
        return frozenset(link for key, link in seen.items() if key & 0xFF == wanted.top)

    @property
    def is_over(self) -> bool:
        """Return whether every flow has a port or has spent its budget."""
        return all(seek.is_spent for seek in self._open.values())

    def questions(self) -> dict[int, list[Question]]:
        """Return the probes to send next, by source address; none when the search is over."""
        found: dict[int, list[Question]] = {}
        for seek in self._open.values():
            if not seek.is_spent:
                probes = self._confirming(seek) or self._seeking(seek)
                seek.sent = seek.sent + len(probes) if probes else seek.budget  # no port is left
                found.setdefault(seek.wanted.src_ip, []).extend(probes)
        return found

    def heard(self, src_ip: int, replies: Mapping[Question, int]) -> None:
        """Take the replies to the last probes of a source: by probe the address of the router that replied."""
        for question, address in replies.items():
            link = self._link_at.get(address)
            if link is None:
                self.unknown_addresses += 1
            else:
                self._seen.setdefault((src_ip, question.dst_ip), {})[question.port << 8 | question.ttl] = link
        for flow_id in sorted(self._of_source[src_ip]):
            self._conclude(flow_id)

    def abandon(self, src_ip: int) -> list[str]:
        """End the search for the flows of a source that cannot send any more; return their ids."""
        left = sorted(self._of_source.pop(src_ip, ()))
        for flow_id in left:
            del self._open[flow_id]
        return left

    def _confirming(self, seek: _Seek) -> list[Question]:
        if seek.candidate is None:
            return []
        wanted = seek.wanted
        seen = self._seen.get((wanted.src_ip, wanted.dst_ip), {})
        hops = (hop for hop in range(2, len(wanted.path)) if seek.candidate << 8 | hop not in seen)
        return [Question(wanted.dst_ip, seek.candidate, hop) for hop in hops]

    def _seeking(self, seek: _Seek) -> list[Question]:
        wanted, taken = seek.wanted, self._taken(seek.wanted)
        ports = [port for _, port in zip(range(self._batch), seek.untried, strict=False) if port not in taken]
        return [Question(wanted.dst_ip, port, wanted.top) for port in ports]

    def _conclude(self, flow_id: str) -> None:
        """Confirm or drop the candidate of a flow; where it has none, take the first port that was seen on its path."""
        seek = self._open[flow_id]
        wanted = seek.wanted
        seen = self._seen.get((wanted.src_ip, wanted.dst_ip), {})
        if wanted.port:
            self._confirm(seek, seen)
            return
        if seek.candidate is not None:
            links = {hop: seen.get(seek.candidate << 8 | hop) for hop in range(2, len(wanted.path))}
            if any(link not in (None, wanted.path[hop - 1]) for hop, link in links.items()):
                self.astray += 1
                self._taken(wanted).discard(seek.candidate)
                seek.candidate = None
            elif None not in links.values():
                self.ports[flow_id] = seek.candidate
                del self._open[flow_id]
                self._of_source[wanted.src_ip].discard(flow_id)
                return
        if seek.candidate is None:
            self._choose(seek, seen)

    def _confirm(self, seek: _Seek, seen: Mapping[int, str]) -> None:
        """Conclude on a port that a flow has: it leads over the path, elsewhere, or a hop is silent."""
        wanted = seek.wanted
        links = [seen.get(wanted.port << 8 | hop) for hop in range(2, len(wanted.path))]
        self._of_source[wanted.src_ip].discard(wanted.flow_id)
        if links == list(wanted.path[1:-1]):
            self.ports[wanted.flow_id] = wanted.port
            del self._open[wanted.flow_id]
            return
        seek.sent = seek.budget
        if any(link not in (None, planned) for link, planned in zip(links, wanted.path[1:-1], strict=True)):
            self.astray += 1
            known = [link for link in links if link is not None]
            path = (wanted.path[0], *known, wanted.path[-1])
            self.elsewhere[wanted.flow_id] = path if len(known) == len(links) else ()

    def _choose(self, seek: _Seek, seen: Mapping[int, str]) -> None:
        wanted, taken = seek.wanted, self._taken(seek.wanted)
        links = dict(enumerate(wanted.path[1:-1], start=2))
        for key, link in seen.items():
            port, hop = key >> 8, key & 0xFF
            astray = any(seen.get(port << 8 | at) not in (None, planned) for at, planned in links.items())
            if hop == wanted.top and link == links[hop] and port not in taken and not astray:
                seek.candidate = port
                taken.add(port)
                return

    def _taken(self, wanted: Wanted) -> set[int]:
        """Return the ports that flows between the same addresses have or try."""
        return self._pairs.setdefault((wanted.src_ip, wanted.dst_ip), set())


def _drawn_ports(seed: str) -> Iterator[int]:
    """Yield every port once, in random order."""
    drawn, before = random.Random(seed), set[int]()
    while len(before) < PORTS:
        port = FIRST_PORT + drawn.randrange(PORTS)
        if port not in before:
            before.add(port)
            yield port
