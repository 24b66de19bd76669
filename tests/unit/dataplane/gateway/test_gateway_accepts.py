"""A gateway puts a generation into force VPC by VPC: its tables, its status, and what it reports."""

from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.pair import PairConfig, Path
from heddle.dataplane.control.gateway import Gateway, Wanted
from heddle.dataplane.control.process.messages import Options
from heddle.dataplane.control.session.membership import applier_for, hello_of
from heddle.dataplane.verify.installed import installed
from tests.fakes.gateway.gateway_site import LOCAL, NETWORK, RED, ROUTER

PARTNERS = IPv4Address("203.0.113.3")
PAIR = PairConfig(
    partner_id="gw-2", paths=(Path(listen="127.0.0.1:1", partner="127.0.0.1:2"),), takes_over=(("x0", PARTNERS),)
)
RED_VPC, *OTHERS = NETWORK.vpcs


@pytest.fixture
async def gateway(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    async def at_once(self: Gateway, generation: int) -> None:
        """As if a data process forwarded by it."""

    monkeypatch.setattr(Gateway, "in_use", at_once)
    made = Gateway(LOCAL, Options(), Wanted())
    yield made
    await made.stop()


def network(generation: int, **red: object) -> Desired:
    vpcs = (replace(RED_VPC, **red), *OTHERS)  # type: ignore[arg-type]
    return Desired(network=replace(NETWORK, generation=generation, vpcs=vpcs))


@pytest.mark.parametrize(("address", "owner"), [(ROUTER, "the router of gateway gw-1"), (PARTNERS, "of gateway gw-2")])
async def test_a_vpc_with_an_address_of_something_else_stays_as_it_is_and_the_others_change(
    gateway: Gateway, address: IPv4Address, owner: str
) -> None:
    apply = applier_for(gateway, PAIR)
    assert not await apply(network(1))
    assert RED_VPC.nat is not None
    kept = await apply(network(2, nat=address, rules=()))
    assert kept is not None
    assert owner in kept["red"]
    assert list(kept) == ["red"]
    view = installed(gateway.tables)
    assert (view.vpcs[RED].nat, len(view.vpcs)) == (int(RED_VPC.nat), len(NETWORK.vpcs))
    status = gateway.status()
    assert (status.configured, dict(status.kept_vpcs)) == (2, dict(kept))
    assert not await apply(network(3))
    assert not gateway.status().kept_vpcs


async def test_a_gateway_that_begins_with_a_wrong_vpc_serves_all_but_its_wrong_address(gateway: Gateway) -> None:
    await applier_for(gateway)(network(1, nat=ROUTER))
    view = installed(gateway.tables)
    assert (view.vpcs[RED].nat, bool(view.vpcs[RED].floating), len(view.vpcs)) == (0, True, len(NETWORK.vpcs))


async def test_what_the_controller_does_not_know_is_in_the_status(gateway: Gateway) -> None:
    await applier_for(gateway)(replace(network(1), unknown=frozenset({"red"})))
    assert gateway.status().as_json()["unknown_vpcs"] == ("red",)


def test_a_gateway_reports_the_addresses_that_are_in_use_on_its_networks() -> None:
    ports = {each.name: (each.ip, each.cidr, each.router_ip) for each in hello_of(LOCAL, None).interfaces}
    assert ports == {
        "u0": ("192.168.0.1", "192.168.0.0/24", ""),
        "x0": ("203.0.113.2", "203.0.113.0/24", "203.0.113.1"),
        "p0": ("172.31.0.2", "172.31.0.0/24", "172.31.0.1"),
    }
