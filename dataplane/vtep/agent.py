"""A host's VTEP agent: what the controller says of VPCs that live here becomes VXLAN, the kernel's or Open vSwitch's.

Which gateway a VPC's traffic leaves by: of the VTEPs that gateways serve each VPC has one, chosen by its VNI so that
VPCs are shared out evenly. The two of an active-standby pair name the same VTEP, which moves between them and needs
nothing here; a gateway that goes away for good is no longer named.
"""

import asyncio
import logging
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Protocol

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from dataplane.config.desired import Desired
from dataplane.control.attachment import Attachment
from dataplane.vtep.desired import HostState, wanted
from dataplane.vtep.linux import VtepFault

CHECK_S = 10.0
"""How often the host's state is compared with what is wanted, so that what others changed is mended."""

log = logging.getLogger("heddle.vtep")


class Driver(Protocol):
    """What makes VXLAN of a host's state: `dataplane.vtep.linux` or `dataplane.vtep.openvswitch`."""

    def check(self) -> None:
        """Raise VtepFault where it cannot work here."""

    def apply(self, wanted: HostState, ports: Mapping[tuple[int, int], str]) -> int:
        """Make it so and return the number of changes; raises VtepFault."""


class VtepAgent:
    """Keeps one host's VXLAN as the controller says; `ports` gives the interface of each endpoint by VNI and MAC."""

    def __init__(
        self, server: str, host: str, vtep: IPv4Address, driver: Driver, ports: Mapping[tuple[int, int], str]
    ) -> None:
        """Take the controller's address, this host's id and VTEP address, what makes VXLAN here, and the endpoints."""
        self._vtep, self._driver, self._ports = vtep, driver, ports
        self._desired: Desired | None = None
        hello = pb.GatewayHello(gateway_id=host, kind="host", vtep_ip=str(vtep))
        self.attachment = Attachment(server, hello, self._apply)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.attachment.run())
            tasks.create_task(self._mend())

    async def _apply(self, desired: Desired) -> None:
        await self._install(desired)
        self._desired = desired

    async def _install(self, desired: Desired) -> int:
        want = wanted(desired.network, self._vtep, gateways_by_vni(desired))
        try:
            return await asyncio.to_thread(self._driver.apply, want, self._ports)
        except VtepFault as fault:
            raise ValueError(str(fault)) from None

    async def _mend(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            if self._desired is None:
                continue
            try:
                if changed := await self._install(self._desired):
                    log.warning("%d entries were not as they should be, or an interface came late: mended", changed)
            except ValueError as fault:
                log.error("%s; trying again", fault)


def gateways_by_vni(desired: Desired) -> dict[int, IPv4Address]:
    """Return the VTEP of the gateway that each VPC leaves by; nothing for a VPC where there is no gateway."""
    vteps = list(dict.fromkeys(vtep for _, vtep in sorted(desired.gateways.items())))  # a pair may serve one together
    return {vpc.vni: vteps[vpc.vni % len(vteps)] for vpc in desired.network.vpcs} if vteps else {}
