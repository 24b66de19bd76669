"""Keep a host's VXLAN state as the controller configures it, by a driver for the kernel or for Open vSwitch.

Each VPC uses one gateway VTEP, chosen by VNI so that VPCs spread evenly over gateways. Both gateways of an
active-standby pair serve the same VTEP, so a takeover needs no change here.

An option or the alias of an interface assigns the interface to an endpoint (`claims`). When the kernel reports that
interfaces appeared or disappeared, the agent compares the host's whole state with the desired state and repairs it: a
new virtual machine joins its VPC within about a second.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any, Protocol

from heddle.dataplane.config.desired import Desired
from heddle.dataplane.control.session.attachment import Attachment
from heddle.dataplane.vtep.claims import claimed
from heddle.dataplane.vtep.desired import HostState, wanted
from heddle.dataplane.vtep.link_monitor import LinkMonitor
from heddle.dataplane.vtep.linux import VtepError
from heddle.foundation.tls_files import Tls
from heddle.v1 import heddle_pb2 as pb

SETTLE_S = 0.2
"""Delay from a link event to the comparison: the program that created the interface may still be configuring it."""
MIN_INTERVAL_S = 1.0
"""Minimum time between two comparisons, which limits the load of frequent link events."""
CHECK_S = 10.0
"""Interval at which the installed state is compared with the desired state, to repair changes by others."""

log = logging.getLogger("heddle.vtep")


class Driver(Protocol):
    """Installs a host's desired state: `dataplane.vtep.linux` or `dataplane.vtep.openvswitch`."""

    def check(self) -> None:
        """Raise VtepError if the driver cannot work on this host."""

    def links(self) -> list[dict[str, Any]]:
        """Return the host's interfaces in the form of `ip -j link show`; raises VtepError."""

    def apply(self, wanted: HostState, ports: Mapping[tuple[int, int], str]) -> int:
        """Install the desired state; return the number of changes. Raises VtepError."""


class VtepAgent:
    """The agent of one host."""

    def __init__(
        self, server: str, host: str, vtep: IPv4Address, driver: Driver, ports: Mapping[tuple[int, int], str],
        tls: Tls | None = None,
    ) -> None:  # fmt: skip
        """Prepare an agent; nothing happens before `run`.

        Args:
            server: the controller's address.
            host: this host's id.
            vtep: this host's VTEP address.
            driver: installs the state.
            ports: interfaces of endpoints by (VNI, MAC), from options.
            tls: the certificate for the controller; None: none.
        """
        self._vtep, self._driver, self._ports = vtep, driver, ports
        self._desired: Desired | None = None
        self._ignored: set[str] = set()
        self._installing = asyncio.Lock()
        hello = pb.GatewayHello(gateway_id=host, kind="host", vtep_ip=str(vtep))
        self.attachment = Attachment(server, hello, self._apply, tls=tls)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.attachment.run())
            tasks.create_task(self._repair())

    async def _apply(self, desired: Desired) -> None:
        async with self._installing:
            await self._install(desired)
            self._desired = desired

    async def _install(self, desired: Desired) -> int:
        want = wanted(desired.network, self._vtep, gateways_by_vni(desired), desired.virtual_ips)
        try:
            return await asyncio.to_thread(self._apply_to_host, want)
        except VtepError as error:
            raise ValueError(str(error)) from None

    def _apply_to_host(self, want: HostState) -> int:
        ports, ignored = claimed(self._driver.links(), self._ports)
        for line in ignored:
            if line not in self._ignored:
                log.warning("%s; ignored", line)
        self._ignored = set(ignored)
        return self._driver.apply(want, ports)

    async def _repair(self) -> None:
        with contextlib.closing(LinkMonitor()) as links:
            while True:
                changed = await links.wait(CHECK_S)
                if changed:
                    await asyncio.sleep(SETTLE_S)
                links.clear()
                await self._reconcile(links_changed=changed)
                await asyncio.sleep(MIN_INTERVAL_S)

    async def _reconcile(self, *, links_changed: bool) -> None:
        try:
            async with self._installing:  # the desired state may change until the lock is acquired
                if self._desired is None:
                    return
                changed = await self._install(self._desired)
        except ValueError as error:
            log.error("%s; retrying", error)
            return
        if changed and links_changed:
            log.info("interfaces appeared or disappeared: %d changes", changed)
        elif changed:
            log.warning("%d entries differed from the desired state: repaired", changed)


def gateways_by_vni(desired: Desired) -> dict[int, IPv4Address]:
    """Return the gateway VTEP of each VPC by VNI; empty if there is no gateway."""
    vteps = list(dict.fromkeys(vtep for _, vtep in sorted(desired.gateways.items())))  # a pair may serve one together
    return {vpc.vni: vteps[vpc.vni % len(vteps)] for vpc in desired.network.vpcs} if vteps else {}
