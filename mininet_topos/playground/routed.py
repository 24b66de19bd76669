"""A lab of routers to play with: kernel ECMP and source ports that probes find, or packets that name their paths."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from heddle.controller.config import parse_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.model.address import ip_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Cable, Nic, SteeredBy
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.model.suggest import did_you_mean
from heddle.mininet_topos.playground.fabric import LabFabric
from heddle.mininet_topos.playground.lab import Playground
from heddle.mininet_topos.routed import probe_agents
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.routed.net import RoutedNet
from heddle.mininet_topos.routed.routes import Routing
from heddle.mininet_topos.services.controller_process import running

ADDRESSES_FILE = "addresses.json"
"""A file of the lab's directory: by port ("leaf1:3") the address of the routers' interface."""
ROUTERS_FILE = "routers.json"
"""What the telemetry agent reads: by router the process of its namespace, and the numbers of its ports by interface."""


def routing_of(routed: bool, routing: str | None, *, srv6: bool = False) -> Routing | None:
    """Return how routers hold next hops; None for a lab of OpenFlow switches. Raises InputError."""
    if routing is not None and routing not in tuple(Routing):
        near = did_you_mean(routing, tuple(Routing))
        raise InputError(f"--routing {routing}: must be one of {', '.join(Routing)}{near}")
    if srv6 and not routed:
        raise InputError("--srv6: only a lab of routers has it, add --routed")
    if not routed:
        if routing is not None:
            raise InputError("--routing: only a lab of routers has it, add --routed")
        return None
    return Routing(routing or Routing.ROUTE)


def on_routers(wanted: LabFabric, *, srv6: bool = False) -> LabFabric:
    """Return the same fabric with `steering: hash`, unless it needs no OpenFlow switch as it is; or with srv6."""
    steered_by = SteeredBy.SRV6 if srv6 else SteeredBy.HASH
    if wanted.fabric.steered_by is steered_by or not (srv6 or traits_of(wanted.fabric).has_sessions):
        return wanted
    text = "\n".join(fabric_text(replace(wanted.fabric, steered_by=steered_by))) + "\n"
    return LabFabric(parse_fabric(text, f"the fabric with steering by {steered_by}"), text, wanted.scale)


class RoutedPlayground(Playground):
    """A running lab of routers."""

    parts = "routers, hosts and NICs"
    scenes = frozenset()

    def __init__(
        self,
        wanted: LabFabric,
        progress: Callable[[str], None] = lambda line: None,
        routing: Routing = Routing.ROUTE,
        *,
        srv6: bool = False,
    ) -> None:
        """Prepare the lab; `with` builds it. `progress` is called with a line before each step."""
        super().__init__(on_routers(wanted, srv6=srv6), progress)
        self._routing = routing
        self.lab = self._lab = RoutedLab(self._wanted.fabric, routing=routing)

    @property
    def routers(self) -> RoutedNet:
        """Return the network of routers."""
        return self._lab.routers

    def facts(self) -> dict[str, Any]:
        """Return what --json prints."""
        return {**super().facts(), "routing": self._routing.value}

    def hints(self) -> list[tuple[str, str]]:
        """Return what one may do next, each with its command."""
        routes = ("the routes of a router", f"heddle lab exec {self.lab.fabric.leaves[0]} ip route")
        check = ("can ports steer here?", f"heddle check fabric {self.directory}")
        if traits_of(self.lab.fabric).in_packets:
            routes = ("the SIDs of a router", f"heddle lab exec {self.lab.fabric.leaves[0]} ip -6 route")
            check = ("the SIDs of all", f"heddle topology --sids --server {self.addresses['grpc']}")
        return [*super().hints()[:-1], routes, check, super().hints()[-1]]

    def _set(self, cable: Cable | Nic, *, up: bool) -> None:
        self.lab.net.set_cable(cable.id, up=up)
        self.routers.reroute(self._cut)
        self.client.await_link(cable.up_link, up=up)

    def _describe(self) -> None:
        super()._describe()
        net, fabric = self.routers, self.lab.fabric
        self._write(ADDRESSES_FILE, {str(port): ip_text(address) for port, address in net.routes.address_of.items()})
        ports: dict[str, dict[str, int]] = {switch.id: {} for switch in fabric.switches}
        for port, interface in net.interface_of.items():
            ports[port.switch][interface] = port.number
        self._write(ROUTERS_FILE, {name: {"pid": net.host(name).pid, "ports": mine} for name, mine in ports.items()})
        self._write(
            probe_agents.FILE,
            {
                host: {"pid": net.host(host).pid, "devices": [net.device_of[nic.id] for nic in nics]}
                for host, nics in net.nics_of_host.items()
            },
        )

    def _attach(self) -> None:
        if not traits_of(self.lab.fabric).is_probed:
            return
        self._progress("the probe agents")
        words = [sys.executable, "-m", "heddle.mininet_topos.routed.probe_agents"]
        words += [self.addresses["grpc"], str(self.directory / probe_agents.FILE)]
        log = self.directory / "probe-agents.log"
        self._stack.enter_context(running("the probe agents", words, log, self.environment))

    def _write(self, name: str, content: Any) -> None:
        (self.directory / name).write_text(json.dumps(content))
