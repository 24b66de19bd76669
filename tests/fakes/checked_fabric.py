"""Routers of a fabric that hash, reply to probes, and have the faults that a check has to find."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache, partial

from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.next_hops import next_hops
from heddle.probing.check.places import Places
from heddle.probing.check.questions import Round
from heddle.probing.probe import Question

PORT_BASE, LOOPBACK_BASE = 100 << 24, 192 << 24


@dataclass
class CheckedFabric:
    """A fabric by its faults: the switches named hash without ports, spray, stay silent, or reply from elsewhere."""

    fabric: Fabric
    equal_seeds: bool = False
    addresses_only: Collection[str] = ()
    spraying: Collection[str] = ()
    qpn_hashed: Collection[str] = ()
    dscp_hashed: Collection[str] = ()
    silent: Collection[str] = ()
    loopbacks: Collection[str] = ()
    route_back: Collection[str] = ()
    probes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        fabric = self.fabric
        ports = [port for cable in fabric.cables for port in (cable.lower, cable.upper)]
        self.address_of = {port: PORT_BASE + number for number, port in enumerate(ports)}
        self.loopback_of = {switch.id: LOOPBACK_BASE + number for number, switch in enumerate(fabric.switches)}
        self._leaf_of = {nic.ip: nic.port.switch for nic in fabric.nics}
        self._hops = cache(partial(next_hops, fabric))

    @property
    def places(self) -> Places:
        cable_at = self.fabric.cable_by_port
        link_at = {
            address: cable_at[port].down_link if cable_at[port].lower == port else cable_at[port].up_link
            for port, address in self.address_of.items()
        }
        switch_at = {address: port.switch for port, address in self.address_of.items()}
        return Places(link_at, switch_at | {address: switch for switch, address in self.loopback_of.items()})

    def heard(self, asked: Collection[Round]) -> dict:
        return {
            each.variation: {
                src_ip: {one: reply for one in questions if (reply := self.reply(src_ip, one, each)) is not None}
                for src_ip, questions in each.questions.items()
            }
            for each in asked
        }

    def reply(self, src_ip: int, question: Question, each: Round) -> int | None:
        """Return the address from which a probe's error comes, None for silence."""
        self.probes += 1
        switch, came_in = self._leaf_of[src_ip], None
        for _ in range(question.ttl - 1):
            came_in = self._next(switch, src_ip, question, each)
            switch = came_in.switch
        assert came_in is not None
        if switch in self.silent:
            return None
        if switch in self.loopbacks:
            return self.loopback_of[switch]
        return self.address_of[self._port_back(switch, src_ip) if switch in self.route_back else came_in]

    def _next(self, switch: str, src_ip: int, question: Question, each: Round) -> PortRef:
        hops = self._hops(switch, self._leaf_of[question.dst_ip])
        fields: list[object] = [src_ip, question.dst_ip]
        fields += [] if switch in self.addresses_only else [question.port]
        fields += [each.qpn] if switch in self.qpn_hashed else []
        fields += [each.dscp] if switch in self.dscp_hashed else []
        fields += [self.probes] if switch in self.spraying else []
        return hops[self._mixed("" if self.equal_seeds else switch, fields) * len(hops) >> 32].far

    def _port_back(self, switch: str, src_ip: int) -> PortRef:
        hops = self._hops(switch, self._leaf_of[src_ip])
        return hops[self._mixed(switch, [src_ip]) * len(hops) >> 32].own

    @staticmethod
    def _mixed(seed: str, fields: list[object]) -> int:
        return int.from_bytes(hashlib.blake2b(repr((seed, *fields)).encode(), digest_size=4).digest())
