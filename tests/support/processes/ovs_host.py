"""A host with Open vSwitch (userspace datapath) as its VTEP, in a namespace of the test."""

import os
import tempfile
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from heddle.dataplane.vtep.openvswitch import OpenVSwitchVtep
from heddle.mininet_topos.vpc.host_switch import BRIDGE, HostSwitch
from tests.support.packets.namespaces import Namespace


class OvsHost:
    """Open vSwitch of a test host: bridge `phy` has the underlay interface and address, bridge `vpc` the endpoints."""

    def __init__(self, space: Namespace, vtep: IPv4Address, underlay: str) -> None:
        self.vtep = vtep
        self._folder = tempfile.TemporaryDirectory(prefix="hov")  # short: socket paths have a limit
        self.switch = HostSwitch(space.entrance, Path(self._folder.name), os.environ)
        self.switch.start(underlay, IPv4Interface(f"{vtep}/24"))

    def driver(self) -> OpenVSwitchVtep:
        return OpenVSwitchVtep(self.vtep, BRIDGE, self.switch.entrance)

    def flows(self) -> list[str]:
        return self.switch.flows()

    def close(self) -> None:
        """End the daemons; their tap devices are removed with the namespace."""
        self.switch.stop()
        self._folder.cleanup()
