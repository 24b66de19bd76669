"""The fabric of a lab to play with: as given where software switches carry it, else scaled down."""

from dataclasses import replace

import pytest

from heddle.controller.config import parse_fabric
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import SteeredBy
from heddle.mininet_topos.playground.command import _playground
from heddle.mininet_topos.playground.fabric import EXAMPLE, LAB_RATES_BPS, lab_fabric
from heddle.mininet_topos.playground.routed import RoutedPlayground, on_routers, routing_of
from heddle.mininet_topos.routed.routes import Routing

FABRIC = """
version: 1
name: f
generate: {{kind: spine_leaf, spines: 2, leaves: {leaves}, hosts_per_leaf: {hosts}, gbps: {gbps}}}
"""


def written(tmp_path, **values):
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.format(**{"leaves": 2, "hosts": 2, "gbps": 0.01, **values}))
    return path


def test_the_built_in_fabric_is_small_and_as_written():
    found = lab_fabric(None)
    assert (len(found.fabric.switches), len(found.fabric.nics), found.scale) == (6, 8, 1)


def test_the_built_in_fabric_may_have_planes_among_whose_ports_a_nic_has_its_rate():
    found = lab_fabric(None, 2)
    assert {
        nic: [(port.plane, port.capacity_bps) for port in ports] for nic, ports in found.fabric.ports_of.items()
    } == {f"h{host}-n0": [(0, 10_000_000), (1, 10_000_000)] for host in range(1, 9)}
    assert parse_fabric(found.text, "its text") == found.fabric


@pytest.mark.parametrize(
    ("file", "planes", "problem"),
    [
        (False, 0, r"^--planes 0: must be 1 to 8$"),
        (False, 9, r"^--planes 9: must be 1 to 8$"),
        (True, 2, r"^--planes 2 is of the built-in fabric: write `planes: 2` into .*fabric.yaml$"),
    ],
)
def test_planes_are_of_the_built_in_fabric_and_few(tmp_path, file, planes, problem):
    with pytest.raises(InputError, match=problem):
        lab_fabric(written(tmp_path) if file else None, planes)


def test_a_fast_fabric_of_planes_is_scaled_down_with_its_ports(tmp_path):
    path = written(tmp_path, gbps="400, planes: 2")
    found = lab_fabric(path)
    assert {len(ports) for ports in found.fabric.ports_of.values()} == {2}
    assert {nic.capacity_bps for nic in found.fabric.nics} == {LAB_RATES_BPS[0]}


def test_a_slow_fabric_is_left_as_it_is(tmp_path):
    path = written(tmp_path)
    found = lab_fabric(path)
    assert (found.scale, found.text) == (1, path.read_text())


def test_a_fast_fabric_keeps_its_ratios_at_rates_of_a_lab(tmp_path):
    path = written(tmp_path, gbps=400)
    found = lab_fabric(path)
    assert found.scale == 400e9 / LAB_RATES_BPS[0]
    assert {nic.capacity_bps for nic in found.fabric.nics} == {LAB_RATES_BPS[0]}
    assert {cable.capacity_bps for cable in found.fabric.cables} == {LAB_RATES_BPS[0]}
    assert [nic.id for nic in found.fabric.nics] == ["h1-n0", "h2-n0", "h3-n0", "h4-n0"]


def test_a_larger_fabric_gets_lower_rates(tmp_path):
    found = lab_fabric(written(tmp_path, gbps=100, leaves=16))
    assert {nic.capacity_bps for nic in found.fabric.nics} == {LAB_RATES_BPS[1]}


def test_a_fabric_that_no_rate_fits_is_refused(tmp_path):
    with pytest.raises(InputError, match="packets per second through software switches"):
        lab_fabric(written(tmp_path, gbps=100, leaves=200))


def test_a_fabric_of_one_host_is_refused(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text(
        "version: 1\nname: f\ngenerate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 1, gbps: 1}\n"
    )
    with pytest.raises(InputError, match="at least 2 hosts"):
        lab_fabric(path)


@pytest.mark.parametrize(
    ("routed", "routing", "problem"),
    [
        (False, "route", r"^--routing: only a lab of routers has it, add --routed$"),
        (True, "rout", r"^--routing rout: must be one of route, group, resilient, bgp, did you mean route\?$"),
    ],
)
def test_a_way_to_hold_next_hops_is_one_of_those_named_and_only_of_routers(routed, routing, problem):
    with pytest.raises(InputError, match=problem):
        routing_of(routed, routing)


def test_a_lab_of_routers_holds_next_hops_in_routes_by_default():
    assert routing_of(True, None) is Routing.ROUTE
    assert routing_of(False, None) is None


def test_a_fabric_that_hashes_is_built_of_routers_also_without_the_option(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text(EXAMPLE + "steering: hash\n")
    wanted = lab_fabric(path)
    assert isinstance(_playground(wanted, print, None), RoutedPlayground)
    assert not isinstance(_playground(lab_fabric(None), print, None), RoutedPlayground)
    assert on_routers(wanted) is wanted


def test_routers_get_the_same_fabric_with_steering_by_hash():
    wanted = lab_fabric(None)
    found = on_routers(wanted)
    assert found.fabric == replace(wanted.fabric, steered_by=SteeredBy.HASH)
    assert parse_fabric(found.text, "its text") == found.fabric


def test_srv6_is_of_a_lab_of_routers_only():
    with pytest.raises(InputError, match=r"^--srv6: only a lab of routers has it, add --routed$"):
        routing_of(False, None, srv6=True)
    assert routing_of(True, None, srv6=True) is Routing.ROUTE


@pytest.mark.parametrize("steering", ["openflow", "hash", "srv6"])
def test_routers_get_the_same_fabric_with_steering_by_srv6(tmp_path, steering):
    path = written(tmp_path)
    path.write_text(path.read_text() + f"steering: {steering}\n")
    wanted = lab_fabric(path)
    found = on_routers(wanted, srv6=True)
    assert found.fabric == replace(wanted.fabric, steered_by=SteeredBy.SRV6)
    assert parse_fabric(found.text, "its text") == found.fabric
    assert isinstance(_playground(found, print, None), RoutedPlayground)
    assert on_routers(found) is found
