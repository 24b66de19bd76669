"""Number the ends of all cables, so that cabling is two lists of integers: whom each end should meet, and whom it does.

An end is a switch port or a NIC. Its node is the switch or the host; its number is the port's, or the NIC's place on
its host. Ends that no cable of the fabric has (spare ports, strangers) are added when they are heard.
"""

from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef

NONE = -1
"""No end: nothing is expected, or nothing is known."""
_NO_TIER = 3


class Ends:
    """The ends of a fabric's cables, and of what else is heard; lists are indexed by the end."""

    def __init__(self, fabric: Fabric) -> None:
        """Number both ends of every cable of the fabric."""
        self.expected: list[int] = []
        self.node: list[int] = []
        self.number: list[int] = []
        self.cable: list[Cable | Nic | None] = []
        self.port: list[PortRef | None] = []
        self.node_names: list[str] = []
        self.is_known: list[bool] = []
        """Of each node: whether the fabric has it."""
        self.tier: list[int] = []
        """Of each node: the tier of a switch, from 0 at leaves; hosts and strangers are above all."""
        self._nodes: dict[tuple[bool, str], int] = {}
        self._at: dict[tuple[int, int], int] = {}
        self._of_port: dict[PortRef, int] = {}
        self._of_nic: dict[str, int] = {}
        self._nic_names: dict[int, str] = {}
        for switch in fabric.switches:
            self._node(False, switch.id, known=True, tier=switch.role.tier)
        for cable in fabric.cables:
            self._join(self._switch_end(cable.lower, cable), self._switch_end(cable.upper, cable))
        placed: dict[str, int] = {}
        for nic in fabric.nics:
            place = placed[nic.host] = placed.get(nic.host, NONE) + 1
            end = self._add(self._node(True, nic.host, known=True), place, nic)
            self._of_nic[nic.id] = end
            self._nic_names[end] = nic.id
            self._join(self._switch_end(nic.port, nic), end)
        self.built = len(self.expected)
        """How many ends the fabric has; those from here on were only heard."""

    def name(self, end: int) -> str:
        """Return the name of an end for people: `switch:port`, or the NIC's id."""
        if end in self._nic_names:
            return self._nic_names[end]
        name = self.node_names[self.node[end]]
        return f"{name}:{self.number[end]}" if self.number[end] >= 0 else name

    def node_name(self, end: int) -> str:
        """Return the switch or host of an end."""
        return self.node_names[self.node[end]]

    def is_nic(self, end: int) -> bool:
        """Return whether an end is a NIC of the fabric."""
        return end in self._nic_names

    def is_stranger(self, end: int) -> bool:
        """Return whether an end cannot be placed: its device is not in the fabric, or its port is not known."""
        return not self.is_known[self.node[end]] or (self.number[end] < 0)

    def cable_id(self, end: int) -> str:
        """Return the id of the cable that belongs at an end; empty where none does."""
        cable = self.cable[end]
        return "" if cable is None else cable.up_link

    def at(self, node: int, number: int) -> int:
        """Return the end of a node's number, adding it if it is new."""
        end = self._at.get((node, number), NONE)
        return self._add(node, number, None) if end == NONE else end

    def find(self, node: int, number: int) -> int:
        """Return the end of a node's number, NONE if there is none."""
        return self._at.get((node, number), NONE)

    def of_port(self, port: PortRef) -> int:
        """Return the end of a switch port, adding it if it is new."""
        end = self._of_port.get(port, NONE)
        if end == NONE:
            end = self._of_port[port] = self.at(self._node(False, port.switch), port.number)
            self.port[end] = port
        return end

    def of_neighbour(self, heard: Neighbour, hearing: int) -> int:
        """Return the end that is heard, adding it if it is new; NONE if it may be the expected one, but need not."""
        if heard.nic:
            end = self._of_nic.get(heard.nic, NONE)
            return end if end != NONE else self._unnamed(self._node(True, heard.nic), hearing)
        if heard.port is not None and heard.port >= 0:
            return self.of_port(PortRef(heard.switch, heard.port))
        return self._unnamed(self._node(False, heard.switch), hearing)

    def _unnamed(self, node: int, hearing: int) -> int:
        """Return a new end of a node of which the port is not known; NONE if the expected end is of this node."""
        far = self.expected[hearing]
        return NONE if far != NONE and self.node[far] == node else self._add(node, -2 - len(self.node), None)

    def _node(self, is_host: bool, name: str, known: bool = False, tier: int = _NO_TIER) -> int:
        key = (is_host, name)
        node = self._nodes.get(key, NONE)
        if node == NONE:
            node = self._nodes[key] = len(self.node_names)
            self.node_names.append(name)
            self.is_known.append(known)
            self.tier.append(tier)
        return node

    def _switch_end(self, port: PortRef, cable: Cable | Nic) -> int:
        end = self._of_port[port] = self._add(self._nodes[False, port.switch], port.number, cable)
        self.port[end] = port
        return end

    def _add(self, node: int, number: int, cable: Cable | Nic | None) -> int:
        end = self._at[node, number] = len(self.node)
        self.node.append(node)
        self.number.append(number)
        self.cable.append(cable)
        self.port.append(None)
        self.expected.append(NONE)
        return end

    def _join(self, first: int, second: int) -> None:
        self.expected[first], self.expected[second] = second, first
