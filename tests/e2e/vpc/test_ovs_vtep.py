"""Open vSwitch as a VTEP beside a host with the kernel's VXLAN: the two implementations interoperate."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.vtep.desired import wanted
from heddle.dataplane.vtep.linux import LinuxVtep, VtepError
from heddle.dataplane.vtep.openvswitch import FORWARD, TUNNEL, OpenVSwitchVtep, flows
from heddle.foundation.address import mac_text
from tests.e2e.vpc.test_linux_vtep import GATEWAYS, NETWORK, VNIS, mac_of, vtep_of
from tests.support.packets.namespaces import Namespace, endpoint, join
from tests.support.processes.ovs_host import OvsHost

pytestmark = pytest.mark.e2e

PORTS = {(vni, mac_of(1)): name for name, vni in VNIS.items()}


class OvsAndLinux:
    """Host 1 runs Open vSwitch, host 2 the kernel's VXLAN; each has an endpoint of either tenant."""

    def __init__(self) -> None:
        self.spaces = [Namespace(), Namespace()]
        join(self.spaces[0], "underlay", self.spaces[1], "underlay", 1600)
        self.spaces[1].run("ip", "addr", "add", f"{vtep_of(2)}/24", "dev", "underlay")
        self.machines = {}
        for number, space in enumerate(self.spaces, 1):
            for name in VNIS:
                addresses = (f"10.0.0.{number}/24", f"fd00::{number}/64")
                self.machines[name, number] = endpoint(space, name, mac_text(mac_of(number)), addresses)
        self.ovs = OvsHost(self.spaces[0], vtep_of(1), "underlay")
        self.linux = LinuxVtep(vtep_of(2), 1600, self.spaces[1].entrance)
        self.linux.apply(wanted(NETWORK, vtep_of(2), GATEWAYS), {(vni, mac_of(2)): name for name, vni in VNIS.items()})

    def apply(self, network: NetworkConfig) -> int:
        return self.ovs.driver().apply(wanted(network, vtep_of(1), GATEWAYS), PORTS)

    def close(self) -> None:
        self.ovs.close()
        for space in (*self.machines.values(), *self.spaces):
            space.close()


@pytest.fixture
def both() -> Iterator[OvsAndLinux]:
    both = OvsAndLinux()
    yield both
    both.close()


def test_open_vswitch_and_the_kernel_carry_a_vpc_between_them_and_tenants_stay_apart(both):
    both.apply(NETWORK)
    assert both.machines["red", 1].pings("10.0.0.2")
    assert both.machines["red", 2].pings("10.0.0.1")
    both.machines["blue", 2].run("ip", "link", "set", "eth0", "down")
    assert not both.machines["blue", 1].pings("10.0.0.2", count=1)


def test_a_spoofed_source_mac_is_dropped(both):
    both.apply(NETWORK)
    both.machines["red", 1].run("ip", "link", "set", "eth0", "address", "02:00:00:00:00:99")
    assert not both.machines["red", 1].pings("10.0.0.2", count=1)


def test_a_change_replaces_flows_and_a_second_call_changes_nothing(both):
    both.apply(NETWORK)
    assert both.apply(NETWORK) == 0
    red = replace(NETWORK.vpcs[0], endpoints=NETWORK.vpcs[0].endpoints[:2])
    after = NetworkConfig(generation=2, vpcs=(red,))
    assert both.apply(after) > 0
    assert both.apply(after) == 0
    installed = both.ovs.flows()
    lines = flows(wanted(after, vtep_of(1), GATEWAYS), {(VNIS["red"], mac_of(1)): 1}, 2)
    assert len([line for line in installed if "actions" in line]) == len(lines)
    assert not [line for line in installed if f"{VNIS['blue']}" in line or f"0x{VNIS['blue']:x}" in line]
    assert "blue" not in both.ovs.switch.vsctl("list-ports", "vpc").split()


def test_a_missing_interface_does_not_delay_the_others(both):
    late = {**PORTS, (VNIS["red"], 0x0200_0000_00AA): "late"}
    both.ovs.driver().apply(wanted(NETWORK, vtep_of(1), GATEWAYS), late)
    assert both.machines["red", 1].pings("10.0.0.2")


def test_a_missing_bridge_is_reported_in_one_line(both):
    with pytest.raises(VtepError, match="no bridge nosuch"):
        OpenVSwitchVtep(vtep_of(1), "nosuch", both.ovs.switch.entrance).check()


def test_each_mac_of_a_vpc_has_one_flow_and_the_tunnel_never_sends_back_into_itself():
    want = wanted(NETWORK, vtep_of(1), GATEWAYS)
    lines = flows(want, {(vni, mac_of(1)): number for number, vni in enumerate(VNIS.values(), 1)}, 9)
    assert f"table={FORWARD},priority=15,in_port=9,actions=drop" in lines
    matches = [line.split(",actions=")[0] for line in lines]
    assert len(matches) == len(set(matches))
    for line in lines:
        assert "output:9" not in line or int(line.split("priority=")[1].split(",")[0]) < 15
    assert TUNNEL not in "".join(lines)
