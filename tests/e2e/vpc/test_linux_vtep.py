"""Hosts with the kernel's VXLAN, programmed by the VTEP agent's driver."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, ip_address, ip_network

import pytest

from heddle.dataplane.config.network import Endpoint, NetworkConfig, Subnet, Vpc
from heddle.dataplane.vtep.desired import HostState, wanted
from heddle.dataplane.vtep.linux import LinuxVtep, VtepError
from heddle.foundation.address import mac_text
from tests.support.packets.namespaces import Namespace, endpoint, join

pytestmark = pytest.mark.e2e

GATEWAY = IPv4Address("192.168.9.77")
NUMBERS = (1, 2)
VNIS = {"red": 100, "blue": 16_777_215}


def mac_of(number: int) -> int:
    return 0x0200_0000_0000 + number


def vtep_of(number: int) -> IPv4Address:
    return IPv4Address(f"192.168.9.{number}")


def vpc(name: str) -> Vpc:
    """Two tenants with the same subnets, addresses and MACs."""
    subnets = (("10.0.0.0/24", "10.0.0.254"), ("fd00::/64", "fd00::fe"))
    return Vpc(
        id=name,
        vni=VNIS[name],
        subnets=tuple(Subnet(prefix=ip_network(p), gateway=ip_address(g)) for p, g in subnets),
        endpoints=tuple(
            Endpoint(ip=ip_address(ip), mac=mac_of(number), vtep=vtep_of(number))
            for number in NUMBERS
            for ip in (f"10.0.0.{number}", f"fd00::{number}")
        ),
    )


NETWORK = NetworkConfig(generation=1, vpcs=(vpc("red"), vpc("blue")))
GATEWAYS = dict.fromkeys(VNIS.values(), GATEWAY)


class TwoHosts:
    """Two hosts on one underlay, each with an endpoint of either tenant."""

    def __init__(self) -> None:
        self.hosts = {number: Namespace() for number in NUMBERS}
        join(self.hosts[1], "underlay", self.hosts[2], "underlay", 1550)
        self.machines = {}
        for number, host in self.hosts.items():
            host.run("ip", "addr", "add", f"{vtep_of(number)}/24", "dev", "underlay")
            for name in VNIS:
                addresses = (f"10.0.0.{number}/24", f"fd00::{number}/64")
                self.machines[name, number] = endpoint(host, name, mac_text(mac_of(number)), addresses, 1500)

    def driver(self, number: int) -> LinuxVtep:
        return LinuxVtep(vtep_of(number), 1550, self.hosts[number].entrance)

    def apply(self, network: NetworkConfig) -> list[int]:
        return [
            self.driver(number).apply(
                wanted(network, vtep_of(number), GATEWAYS),
                {(vni, mac_of(number)): name for name, vni in VNIS.items()},
            )
            for number in NUMBERS
        ]

    def close(self) -> None:
        for space in (*self.machines.values(), *self.hosts.values()):
            space.close()


@pytest.fixture
def two() -> Iterator[TwoHosts]:
    two = TwoHosts()
    yield two
    two.close()


def test_endpoints_of_a_vpc_reach_each_other_over_both_families_at_full_mtu(two):
    two.apply(NETWORK)
    for name in VNIS:
        assert two.machines[name, 1].pings("10.0.0.2", "-s", "1472", "-M", "do")
        assert two.machines[name, 2].pings("fd00::1")


def test_tenants_with_the_same_addresses_and_macs_never_meet(two):
    two.apply(NETWORK)
    two.machines["blue", 2].run("ip", "link", "set", "eth0", "down")
    assert not two.machines["blue", 1].pings("10.0.0.2", count=1)
    assert two.machines["red", 1].pings("10.0.0.2", count=1)


def test_the_installed_state_is_the_desired_one_and_a_second_call_changes_nothing(two):
    two.apply(NETWORK)
    for number in NUMBERS:
        want = wanted(NETWORK, vtep_of(number), GATEWAYS)
        assert two.driver(number).installed() == replace(want, locals=frozenset())
    assert two.apply(NETWORK) == [0, 0]


def test_an_endpoint_that_moves_is_followed_and_a_vpc_that_goes_leaves_nothing(two):
    two.apply(NETWORK)
    red = NETWORK.vpcs[0]
    moved = tuple(replace(e, vtep=vtep_of(3)) if e.vtep == vtep_of(2) else e for e in red.endpoints)
    after = NetworkConfig(generation=2, vpcs=(replace(red, endpoints=moved),))
    two.apply(after)
    assert two.driver(1).installed() == replace(wanted(after, vtep_of(1), GATEWAYS), locals=frozenset())
    assert two.driver(2).installed() == HostState()
    assert "hb" not in two.hosts[2].run("ip", "-o", "link").stdout


def test_a_removed_endpoint_is_detached_and_isolated(two):
    two.apply(NETWORK)
    assert two.machines["red", 1].pings("10.0.0.2")
    red = NETWORK.vpcs[0]
    other = Endpoint(ip=ip_address("10.0.0.9"), mac=mac_of(9), vtep=vtep_of(1))
    left = (*(e for e in red.endpoints if e.vtep != vtep_of(1)), other)
    two.apply(replace(NETWORK, generation=2, vpcs=(replace(red, endpoints=left), NETWORK.vpcs[1])))
    assert "master" not in two.hosts[1].run("ip", "link", "show", "red").stdout
    assert not two.machines["red", 1].pings("10.0.0.2", count=1)
    assert two.machines["blue", 1].pings("10.0.0.2", count=1)
    two.apply(NETWORK)
    assert two.machines["red", 1].pings("10.0.0.2")


def test_a_late_interface_is_attached_by_the_next_call(two):
    host = two.hosts[1]
    host.run("ip", "link", "set", "red", "name", "later")
    two.apply(NETWORK)
    assert two.machines["blue", 1].pings("10.0.0.2", count=1)
    host.run("ip", "link", "set", "later", "down")
    host.run("ip", "link", "set", "later", "name", "red")
    assert [changes > 0 for changes in two.apply(NETWORK)] == [True, False]
    assert two.machines["red", 1].pings("10.0.0.2")


def test_a_refusal_of_the_kernel_is_one_line_that_names_the_command(two):
    two.hosts[1].run("ip", "link", "add", "hb100", "type", "bridge")
    with pytest.raises(VtepError, match="File exists") as fault:
        two.apply(NETWORK)
    assert "\n" not in str(fault.value)
