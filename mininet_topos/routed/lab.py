"""The lab with routers instead of bridges: the same fabric files, NICs, capture and workloads.

    with RoutedLab(fabric) as lab:
        result = lab.run_flows(requests, timeout_s=20)

There is no rule in any router: kernel ECMP hashes addresses and ports, so a flow's UDP source port decides its path.
"""

import sys

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.host.registry import LabRegistration
from heddle.mininet_topos.host.signals import stop_deferred
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.runner import FlowRunner
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.routed.net import RoutedNet
from heddle.mininet_topos.routed.routes import Routing


class RoutedLab(Lab):
    """A fabric of Linux routers on this machine."""

    def __init__(
        self,
        fabric: Fabric,
        *,
        routing: Routing = Routing.ROUTE,
        seeded: bool = True,
        settings: NicSettings | None = None,
    ) -> None:
        """Describe the lab; `seeded` gives every router a hash seed of its own, else tiers repeat their choices."""
        super().__init__(fabric, settings=settings)
        self._routing, self._seeded = routing, seeded

    @property
    def routers(self) -> RoutedNet:
        """Return the network of routers."""
        net = self.net
        assert isinstance(net, RoutedNet)
        return net

    def delivered_bytes(self) -> int:
        """Return the bytes that leaves have sent to NICs so far."""
        sent = {leaf: self.routers.sent_bytes(leaf) for leaf in self.fabric.nics_of_leaf}
        return sum(sent[nic.port.switch][self.net.interface_of[nic.port]] for nic in self.fabric.nics)

    def pfc_frames(self) -> int:
        """Return 0: routers send no PFC frames."""
        return 0

    def _build(self) -> None:
        with stop_deferred():
            self._registration = LabRegistration()
        capture = self._child("the capture", [sys.executable, "-m", "heddle.mininet_topos.measure.capture"])
        net = self._net = RoutedNet(self.fabric, self._registration.entry, self._routing, self._seeded)
        net.start()
        self._start_nics()
        self._runner = FlowRunner(net, self.nics, capture, self._settings, net.read_queues)
