"""A lab of routers to play with: no controller and no rule, kernel ECMP, and source ports that decide paths."""

import json
from collections.abc import Callable
from typing import Any

from controller.model.address import ip_text
from controller.model.error import InputError
from controller.model.fabric import Cable
from controller.model.suggest import did_you_mean
from mininet_topos.host.node_access import write_nodes
from mininet_topos.host.registry import entry_of
from mininet_topos.playground.fabric import LabFabric
from mininet_topos.playground.lab import Playground
from mininet_topos.routed.lab import RoutedLab
from mininet_topos.routed.routes import Routing

FABRIC_FILE, ADDRESSES_FILE = "fabric.yaml", "addresses.json"
"""Files of the lab's directory: the fabric, and by port ("leaf1:3") the address of the routers' interface."""


def routing_of(routed: bool, routing: str | None) -> Routing | None:
    """Return how routers hold next hops; None for a lab of OpenFlow switches. Raises InputError."""
    if routing is not None and routing not in tuple(Routing):
        near = did_you_mean(routing, tuple(Routing))
        raise InputError(f"--routing {routing}: must be one of {', '.join(Routing)}{near}")
    if not routed:
        if routing is not None:
            raise InputError("--routing: only a lab of routers has it, add --routed")
        return None
    return Routing(routing or Routing.ROUTE)


class RoutedPlayground(Playground):
    """A running lab of routers."""

    known = "routes were replaced"

    def __init__(
        self, wanted: LabFabric, progress: Callable[[str], None] = lambda line: None, routing: Routing = Routing.ROUTE
    ) -> None:
        """Prepare the lab; `with` builds it. `progress` is called with a line before each step."""
        super().__init__(wanted, progress)
        self._routing = routing
        self.lab = self._routers = RoutedLab(wanted.fabric, routing=routing)

    def facts(self) -> dict[str, Any]:
        """Return what --json prints."""
        return {"lab": self.lab.id, "routing": self._routing.value, "directory": str(self.directory)}

    def hints(self) -> list[tuple[str, str]]:
        """Return what one may do next, each with its command."""
        cable, host, leaf = self.lab.fabric.cables[0].id, self.lab.fabric.nics[0].host, self.lab.fabric.leaves[0]
        return [
            ("a workload on hashed ports", "heddle lab traffic permutation --hashed"),
            ("can ports steer here?", f"heddle check fabric {self.directory}"),
            ("a cable fails, and returns", f"heddle lab cut '{cable}'; heddle lab heal '{cable}'"),
            ("the routes of a router", f"heddle lab exec {leaf} ip route"),
            ("a shell in a host", f"heddle lab exec {host} bash"),
        ]

    def _set(self, cable: Cable, *, up: bool) -> None:
        self.lab.net.set_cable(cable.id, up=up)
        self._routers.routers.reroute(self._cut)

    def _start(self) -> None:
        self._progress("routers, hosts and NICs")
        self._stack.enter_context(self.lab)
        entry, addresses = entry_of(self.lab.id), self._routers.routers.routes.address_of
        (entry.directory / FABRIC_FILE).write_text(self._wanted.text)
        named = {str(port): ip_text(address) for port, address in addresses.items()}
        (entry.directory / ADDRESSES_FILE).write_text(json.dumps(named))
        write_nodes(entry, {node.name: node.pid for node in self.lab.net.mininet.hosts})
