"""The VTEP agent when a new generation and a link event arrive at the same time."""

import asyncio
import threading
from ipaddress import IPv4Address, ip_network

from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.network import Endpoint, NetworkConfig, Subnet, Vpc
from heddle.dataplane.vtep.agent import VtepAgent

VTEP, OTHER = IPv4Address("192.168.9.1"), IPv4Address("192.168.9.2")


class SlowDriver:
    """A driver that records the VNIs applied last, and blocks while `may_go_on` is clear."""

    def __init__(self):
        self.vnis = frozenset()
        self.busy, self.may_go_on = threading.Event(), threading.Event()
        self.may_go_on.set()

    def check(self):
        pass

    def links(self):
        return []

    def apply(self, wanted, ports):
        self.busy.set()
        assert self.may_go_on.wait(60)
        changed, self.vnis = wanted.vnis ^ self.vnis, wanted.vnis
        return len(changed)


def desired(*vnis):
    vpcs = [
        Vpc(
            id=f"vpc{vni}",
            vni=vni,
            subnets=(Subnet(prefix=ip_network("10.0.0.0/24"), gateway=IPv4Address("10.0.0.254")),),
            endpoints=(Endpoint(ip=IPv4Address("10.0.0.1"), mac=0x020000000001, vtep=VTEP),),
        )
        for vni in vnis
    ]
    return Desired(network=NetworkConfig(generation=len(vnis), vpcs=tuple(vpcs)), gateways={"gw1": OTHER})


async def test_a_repair_that_waits_for_an_installation_does_not_restore_the_former_state():
    driver = SlowDriver()
    agent = VtepAgent("127.0.0.1:1", "h1", VTEP, driver, {})
    await agent._apply(desired(5))
    assert driver.vnis == {5}
    driver.busy.clear()
    driver.may_go_on.clear()
    applying = asyncio.create_task(agent._apply(desired(5, 6)))
    assert await asyncio.to_thread(driver.busy.wait, 60)
    repairing = asyncio.create_task(agent._reconcile(links_changed=True))
    await asyncio.sleep(0)
    driver.may_go_on.set()
    await asyncio.gather(applying, repairing)
    assert driver.vnis == {5, 6}
