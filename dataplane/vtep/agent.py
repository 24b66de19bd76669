"""A host's VTEP agent: what the controller says of VPCs that live here becomes VXLAN, the kernel's or Open vSwitch's.

Which gateway a VPC's traffic leaves by: of the VTEPs that gateways serve each VPC has one, chosen by its VNI so that
VPCs are shared out evenly. The two of an active-standby pair name the same VTEP, which moves between them and needs
nothing here; a gateway that goes away for good is no longer named.

Which interface an endpoint has, options say or the interfaces themselves (`claims`). The kernel tells when one comes or
goes, and all is compared anew then: a virtual machine that starts is in its VPC within a second.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any, Protocol

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from dataplane.config.desired import Desired
from dataplane.control.session.attachment import Attachment
from dataplane.vtep.claims import claimed
from dataplane.vtep.desired import HostState, wanted
from dataplane.vtep.link_monitor import LinkMonitor
from dataplane.vtep.linux import VtepError

SETTLE_S = 0.2
"""After word of an interface: whoever made it is not done with it yet."""
LEAST_S = 1.0
"""Between two looks at most: interfaces that come and go all the time are no load."""
CHECK_S = 10.0
"""How often the host's state is compared with what is wanted, so that what others changed is mended."""

log = logging.getLogger("heddle.vtep")


class Driver(Protocol):
    """What makes VXLAN of a host's state: `dataplane.vtep.linux` or `dataplane.vtep.openvswitch`."""

    def check(self) -> None:
        """Raise VtepError where it cannot work here."""

    def links(self) -> list[dict[str, Any]]:
        """Return the host's interfaces, as `ip -j link show` does; raises VtepError."""

    def apply(self, wanted: HostState, ports: Mapping[tuple[int, int], str]) -> int:
        """Make it so and return the number of changes; raises VtepError."""


class VtepAgent:
    """Keeps one host's VXLAN as the controller says; `ports` gives interfaces of endpoints by VNI and MAC."""

    def __init__(
        self, server: str, host: str, vtep: IPv4Address, driver: Driver, ports: Mapping[tuple[int, int], str]
    ) -> None:
        """Take the controller's address, this host's id and VTEP address, what makes VXLAN here, and the endpoints."""
        self._vtep, self._driver, self._ports = vtep, driver, ports
        self._desired: Desired | None = None
        self._ignored: set[str] = set()
        self._at_work = asyncio.Lock()
        hello = pb.GatewayHello(gateway_id=host, kind="host", vtep_ip=str(vtep))
        self.attachment = Attachment(server, hello, self._apply)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.attachment.run())
            tasks.create_task(self._mend())

    async def _apply(self, desired: Desired) -> None:
        async with self._at_work:
            await self._install(desired)
            self._desired = desired

    async def _install(self, desired: Desired) -> int:
        want = wanted(desired.network, self._vtep, gateways_by_vni(desired))
        try:
            return await asyncio.to_thread(self._make, want)
        except VtepError as fault:
            raise ValueError(str(fault)) from None

    def _make(self, want: HostState) -> int:
        ports, ignored = claimed(self._driver.links(), self._ports)
        for line in ignored:
            if line not in self._ignored:
                log.warning("%s; it counts for nothing", line)
        self._ignored = set(ignored)
        return self._driver.apply(want, ports)

    async def _mend(self) -> None:
        with contextlib.closing(LinkMonitor()) as news:
            while True:
                heard = await news.wait(CHECK_S)
                if heard:
                    await asyncio.sleep(SETTLE_S)
                news.forget()
                await self._look(heard)
                await asyncio.sleep(LEAST_S)

    async def _look(self, heard: bool) -> None:
        try:
            async with self._at_work:  # what is wanted may change until it is our turn
                if self._desired is None:
                    return
                changed = await self._install(self._desired)
        except ValueError as fault:
            log.error("%s; trying again", fault)
            return
        if changed and heard:
            log.info("interfaces came or went: %d changes", changed)
        elif changed:
            log.warning("%d entries were not as they should be: mended", changed)


def gateways_by_vni(desired: Desired) -> dict[int, IPv4Address]:
    """Return the VTEP of the gateway that each VPC leaves by; nothing for a VPC where there is no gateway."""
    vteps = list(dict.fromkeys(vtep for _, vtep in sorted(desired.gateways.items())))  # a pair may serve one together
    return {vpc.vni: vteps[vpc.vni % len(vteps)] for vpc in desired.network.vpcs} if vteps else {}
