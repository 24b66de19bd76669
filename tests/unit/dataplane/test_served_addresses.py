"""A gateway refuses public addresses that belong to something else on its networks."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import pytest

from heddle.dataplane.config.network import FloatingIp, NetworkConfig
from heddle.dataplane.tables.compiler.compile import compile_tables
from tests.fakes.gateway.gateway_site import EXTERNAL, LOCAL, NEIGHBOURS, NETWORK, PROVIDER, UNDERLAY

ROUTER, WAN = IPv4Address("203.0.113.1"), IPv4Network("203.0.113.0/24")
assert (LOCAL.interfaces[EXTERNAL].router, LOCAL.interfaces[EXTERNAL].network) == (ROUTER, WAN)


def refusal(network: NetworkConfig) -> str:
    with pytest.raises(ValueError, match="vpc ") as refused:
        compile_tables(LOCAL, network, neighbours=NEIGHBOURS, generation=1)
    return str(refused.value)


def with_nat(address: IPv4Address) -> NetworkConfig:
    first, *others = NETWORK.vpcs
    return replace(NETWORK, vpcs=(replace(first, nat=address, floating_ips=()), *others))


def test_a_nat_address_that_is_the_routers_is_refused_with_the_remedy():
    name = LOCAL.interfaces[EXTERNAL].name
    assert refusal(with_nat(ROUTER)) == (
        f"vpc {NETWORK.vpcs[0].id}: nat.public_ip: {ROUTER} is the router of gateway {LOCAL.gateway_id} on {name}; "
        "choose an address that nothing else has"
    )


@pytest.mark.parametrize("side", [UNDERLAY, EXTERNAL, PROVIDER])
def test_an_address_of_the_gateway_itself_is_refused(side):
    port = LOCAL.interfaces[side]
    line = f"nat.public_ip: {port.address} is an own address of gateway {LOCAL.gateway_id} on {port.name}"
    assert line in refusal(with_nat(port.address))


@pytest.mark.parametrize("number", [0, -1])
def test_an_address_that_no_host_may_have_is_refused(number):
    assert "is the network's or broadcast address of" in refusal(with_nat(WAN[number]))


def test_a_floating_address_that_is_the_routers_is_refused():
    first, *others = NETWORK.vpcs
    inside = next(each.ip for each in first.endpoints if each.ip.version == 4)
    floating = FloatingIp(public=ROUTER, endpoint=inside)
    network = replace(NETWORK, vpcs=(replace(first, nat=None, floating_ips=(floating,)), *others))
    assert f"floating_ips[0].public_ip: {ROUTER} is the router" in refusal(network)


def test_other_addresses_are_accepted():
    compile_tables(LOCAL, NETWORK, neighbours=NEIGHBOURS, generation=1)
