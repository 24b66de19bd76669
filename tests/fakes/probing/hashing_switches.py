"""The switches of a fabric file as routers that hash, and the search for ports by probes through them.

Every switch chooses among its live next hops by a hash of the five-tuple, under a seed of its own or one for all, as
`hashing_fabric` has them. Routing is up to the lowest tier that reaches the leaf, then down.
"""

import struct
from collections.abc import Sequence
from zlib import crc32

from heddle.controller.model.fabric import Cable, Fabric, Nic
from heddle.probing.flow import Found, Wanted
from heddle.probing.probe import ROCE_PORT, Question
from heddle.probing.search import Search
from tests.fakes.probing.hashing_fabric import Hash, mixing


class HashingSwitches:
    """Every router's hash, which cables are down, and the probes that were sent."""

    def __init__(self, fabric: Fabric, hashes: Hash = mixing, equal_seeds: bool = False) -> None:
        self._fabric, self._hash, self._equal = fabric, hashes, equal_seeds
        self._nics = {nic.ip: nic for nic in fabric.nics}
        links = [link for link in fabric.directed_links if ":" in link.dst]
        self._link_at = {number: link.id for number, link in enumerate(links, 1)}
        self._address_of = {link: number for number, link in self._link_at.items()}
        self.salt = 0
        """Added to every seed: another one is another hash."""
        self.down: set[str] = set()
        self.silent: set[int] = set()
        """The addresses of NICs whose hosts have no agent."""
        self.probes = 0
        self._known: dict[tuple[str, str, frozenset[str]], list[Cable]] = {}

    def path(self, source: Nic, target: Nic, port: int) -> tuple[str, ...]:
        """Return the links of a packet's path; it ends early where a switch has no live next hop."""
        header = struct.pack("!IIBHHx", source.ip, target.ip, 17, port, ROCE_PORT)
        links, switch, leaf = [source.up_link], source.port.switch, target.port.switch
        while switch != leaf:
            choices = self._next(switch, leaf)
            if not choices:
                return tuple(links)
            seed = self.salt + (1 if self._equal else crc32(switch.encode()))
            cable = choices[self._hash(header, seed, len(choices))]
            up = cable.lower.switch == switch
            links.append(cable.up_link if up else cable.down_link)
            switch = cable.upper.switch if up else cable.lower.switch
        return (*links, target.down_link)

    def _next(self, switch: str, leaf: str) -> list[Cable]:
        """Return the cables that a switch hashes over, upwards or downwards."""
        key = (switch, leaf, frozenset(self.down))
        if key not in self._known:
            down = leaf in self._fabric.leaves_below[switch]
            self._known[key] = self._down(switch, leaf) if down else self._up(switch, leaf)
        return self._known[key]

    def _live(self, cables: Sequence[Cable]) -> list[Cable]:
        return [cable for cable in cables if cable.id not in self.down]

    def _down(self, switch: str, leaf: str) -> list[Cable]:
        below = self._fabric.leaves_below
        cables = self._live([c for c in self._fabric.down_cables[switch] if leaf in below[c.lower.switch]])
        return [cable for cable in cables if cable.lower.switch == leaf or self._down(cable.lower.switch, leaf)]

    def _up(self, switch: str, leaf: str) -> list[Cable]:
        return [cable for cable in self._live(self._fabric.up_choices[switch]) if self._reaches(cable, leaf)]

    def _reaches(self, cable: Cable, leaf: str) -> bool:
        upper = cable.upper.switch
        return bool(self._next(upper, leaf))

    def found(self, flows: Sequence[Wanted], ways: int) -> Found:
        """Search as the controller's probe service does."""
        asked = [flow for flow in flows if flow.src_ip not in self.silent]
        search, before = Search(asked, self._link_at, ways), self.probes
        while not search.is_over:
            for src_ip, questions in search.questions().items():
                search.heard(src_ip, {each: at for each in questions if (at := self._reply(src_ip, each)) is not None})
        missing = dict.fromkeys(search.missing, "no port was seen on its path")
        silent = {flow.flow_id: "its host has no probe agent" for flow in flows if flow.src_ip in self.silent}
        return Found(
            ports=search.ports,
            missing=missing | silent,
            probes=self.probes - before,
            reached={flow_id: search.reached(flow_id) for flow_id in missing} | dict.fromkeys(silent, frozenset()),
            elsewhere=search.elsewhere,
        )

    async def find(self, flows: Sequence[Wanted], ways: int) -> Found:
        """Search, as a `PortFinder`."""
        return self.found(flows, ways)

    def _reply(self, src_ip: int, question: Question) -> int | None:
        self.probes += 1
        links = self.path(self._nics[src_ip], self._nics[question.dst_ip], question.port)
        return self._address_of.get(links[question.ttl - 1]) if question.ttl < len(links) else None
