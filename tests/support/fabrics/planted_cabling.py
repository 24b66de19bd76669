"""A fabric whose plugs are put elsewhere on purpose: what was planted, and what each port hears then.

Written on names and dictionaries alone, so that it shares nothing with the diagnosis that it tests.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from heddle.controller.cabling.diagnosis import Cause, Diagnosis
from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.fabric import Fabric, PortRef

End = PortRef | str
"""A switch port, or the id of a NIC."""

BLOCK_SIZES = (4, 8, 12)
BAD_DAY = {
    "nodes": 1, "shifted": 4, "blocks": 3, "reversed": 2, "pairs": 2, "exchanged": 40, "exchanged far": 8,
    "missing": 40, "moved": 10,
}  # fmt: skip
"""How much of what a bad day has: a pair of nodes, 11 blocks, 48 exchanges, 40 missing and 10 moved cables."""


class Planted(NamedTuple):
    """A planted fault: the kind of cause that names it, and the ports or nodes that it must name."""

    kind: str
    names: frozenset[str]


class PlantedCabling:
    """The cabling of a fabric with planted faults, no two of which touch the same cable."""

    def __init__(self, fabric: Fabric, seed: int) -> None:
        self.fabric = fabric
        self.expected: dict[End, End] = {}
        for cable in fabric.cables:
            self.expected[cable.lower], self.expected[cable.upper] = cable.upper, cable.lower
        for nic in fabric.nics:
            self.expected[nic.id], self.expected[nic.port] = nic.port, nic.id
        self.met = dict(self.expected)
        self.planted: list[Planted] = []
        self._rng = random.Random(seed)
        self._used: set[End] = set()
        self._ports: dict[str, list[PortRef]] = {switch.id: [] for switch in fabric.switches}
        for end in self.expected:
            if isinstance(end, PortRef):
                self._ports[end.switch].append(end)
        for ports in self._ports.values():
            ports.sort()
        self._alike = {
            switch.id: [other.id for other in fabric.switches if other.role is switch.role and other is not switch]
            for switch in fabric.switches
        }

    def plant(self, counts: Mapping[str, int]) -> "PlantedCabling":
        """Plant so many faults of each kind."""
        for kind, count in counts.items():
            for _ in range(count):
                while not self._plant(kind):
                    pass
        return self

    def hearings(self, lost: float = 0.0, silent: Iterable[str] = ()) -> tuple[dict[PortRef, Neighbour], set[PortRef]]:
        """Return what ports hear if a part of LLDP is lost and some switches neither send nor listen, and carriers."""
        heard, mute = {}, set(silent)
        for end, far in self.met.items():
            if isinstance(end, PortRef) and self._rng.random() >= lost and end.switch not in mute:
                if isinstance(far, str):
                    heard[end] = Neighbour(switch="", port=None, nic=far)
                elif far.switch not in mute:
                    heard[end] = Neighbour(switch=far.switch, port=far.number)
        return heard, {end for end in self.met if isinstance(end, PortRef)}

    def move(self, places: Mapping[End, End]) -> None:
        """Put the plug of each end into another one, all at once."""
        far = {end: self.met.pop(end) for end in places if end in self.met}
        for end, other in far.items():
            self.met[places[end]] = other = places.get(other, other)
            self.met[other] = places[end]

    def exchange(self, first: End, second: End) -> None:
        """Exchange two plugs, and record it."""
        self._move(Planted("exchanged", _names((first, second))), {first: second, second: first})

    def found(self, diagnosis: Diagnosis) -> int:
        """Return how many planted faults a cause names as planted: the same kind at the same ports."""
        named = {named for cause in diagnosis.causes for named in _named(cause)}
        return sum(fault in named for fault in self.planted)

    def _move(self, fault: Planted, places: Mapping[End, End]) -> bool:
        touched = {*places, *places.values()}
        touched |= {self.expected[end] for end in touched if end in self.expected}
        if not self._used.isdisjoint(touched):
            return False
        self._used |= touched
        self.planted.append(fault)
        self.move(places)
        return True

    def _plant(self, kind: str) -> bool:
        switch = self._rng.choice(list(self._ports))
        ports = self._ports[switch]
        plants: dict[str, Callable[[str, list[PortRef]], bool]] = {
            "nodes": self._nodes, "missing": self._missing, "moved": self._moved,
            "exchanged": lambda switch, ports: self._exchanged(ports, ports),
            "exchanged far": lambda switch, ports: self._exchanged(ports, self._ports[self._other(switch)]),
        }  # fmt: skip
        return plants.get(kind, lambda switch, ports: self._block(kind, switch, ports))(switch, ports)

    def _other(self, switch: str) -> str:
        return self._rng.choice(self._alike[switch])

    def _exchanged(self, ports: list[PortRef], others: list[PortRef]) -> bool:
        first, second = self._rng.choice(ports), self._rng.choice(others)
        fault = Planted("exchanged", _names((first, second)))
        return first != second and self._move(fault, {first: second, second: first})

    def _nodes(self, switch: str, ports: list[PortRef]) -> bool:
        other = self._other(switch)
        places: dict[End, End] = {port: PortRef(other, port.number) for port in ports}
        places |= {PortRef(other, port.number): port for port in ports}
        return self._move(Planted("nodes", frozenset((switch, other))), places)

    def _missing(self, switch: str, ports: list[PortRef]) -> bool:
        port = self._rng.choice(ports)
        pair = (port, self.expected[port])
        if not self._move(Planted("missing", _names(end for end in pair if isinstance(end, PortRef))), {port: port}):
            return False
        for end in pair:
            del self.met[end]
        return True

    def _moved(self, switch: str, ports: list[PortRef]) -> bool:
        port = self._rng.choice(ports)
        spare = PortRef(switch, ports[-1].number + self._rng.randint(1, 4))
        return self._move(Planted("moved", _names((port, spare))), {port: spare})

    def _block(self, kind: str, switch: str, ports: list[PortRef]) -> bool:
        size = self._rng.choice(BLOCK_SIZES)
        first = self._rng.randrange(max(1, len(ports) - size + 1))
        if kind == "pairs":
            first -= first % 2
        run = ports[first : first + size]
        if len(run) < size:
            return False
        if kind == "blocks":
            other = self._other(switch)
            others = [PortRef(other, port.number) for port in run]
            places: dict[End, End] = dict(zip((*run, *others), (*others, *run), strict=True))
        else:
            at = {
                "shifted": [(place + 1) % size for place in range(size)],
                "reversed": [size - 1 - place for place in range(size)],
                "pairs": [place ^ 1 for place in range(size)],
            }[kind]
            places = {port: run[place] for port, place in zip(run, at, strict=True)}
        return self._move(Planted(kind, _names(places)), places)


def _names(ends: Iterable[End]) -> frozenset[str]:
    return frozenset(map(str, ends))


def _named(cause: Cause) -> list[Planted]:
    if cause.nodes:
        return [Planted(cause.kind, frozenset(cause.nodes))]
    return [Planted(cause.kind, _names(ports)) for ports in (cause.ports, cause.instead) if ports]
