"""The static SIDs of the lab's routers, as lines for `ip -batch`."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.fabric import PortRef
from heddle.mininet_topos.routed import net
from heddle.mininet_topos.routed.net import RoutedNet
from heddle.mininet_topos.routed.static_sids import StaticSids

TEXT = "version: 1\nsteering: srv6\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1}\n"
FLAVOR = "flavors next-csid lblen 32 nflen 16"


def lines(ports, text=TEXT, switch="leaf1"):
    fabric = parse_fabric(text, "fabric.yaml")
    sids = StaticSids(fabric, {nic.id: 0x02FE00000000 + number for number, nic in enumerate(fabric.nics)})
    return sids.lines(switch, {PortRef(switch, number): f"p{number}" for number in ports})


def test_a_leaf_has_its_own_entry_one_of_each_cable_and_a_route_to_each_nic():
    assert lines((1, 2)) == [
        "addr replace fe80::2fd:0:0/64 dev p1 nodad",
        "neigh replace fe80::2fd:0:1 lladdr 02:fd:00:00:00:01 dev p1 nud permanent",
        "addr replace fe80::2fe:0:0/64 dev p2 nodad",
        "neigh replace fe80::200:0:1 lladdr 02:00:00:00:00:01 dev p2 nud permanent",
        f"route replace fcbb:0:2::/48 encap seg6local action End {FLAVOR} dev sr0",
        f"route replace fcbb:0:e001::/48 encap seg6local action End.X nh6 fe80::2fd:0:1 oif p1 {FLAVOR} dev p1",
        "route replace fcbb:0:e002::/48 via fe80::200:0:1 dev p2",
        "addr replace fcbb:0:2::1/128 dev sr0",
        "route replace fcbb:0:2:e002::/64 via fe80::200:0:1 dev p2 table 100",
    ]


def test_a_spine_has_routes_for_its_own_errors_to_the_leaves_below_by_all_cables_that_are_up():
    wide = TEXT.replace("leaves: 2", "leaves: 2, links_per_spine: 2")
    found = [line for line in lines((1, 2, 3), wide, "spine1") if "table 100" in line]
    assert found == [
        "route replace fcbb:0:2::/48 table 100 nexthop via fe80::2fd:0:0 dev p1 nexthop via fe80::2fd:0:2 dev p2",
        "route replace fcbb:0:3::/48 table 100 nexthop via fe80::2fd:0:4 dev p3",
    ]


def test_a_port_that_is_down_has_no_entry():
    assert not any("e001" in line or "p1" in line for line in lines((2,)))


def test_with_a_ua_at_nics_their_usid_is_shifted_away():
    (line,) = [line for line in lines((1, 2), TEXT + "srv6: {last_hop: ua}\n") if "fcbb:0:e002::" in line]
    assert "End.X nh6 fe80::200:0:1 oif p2" in line


def test_a_kernel_that_lacks_them_is_one_line_with_what_they_need(monkeypatch):
    def refused(*_):
        raise PrerequisiteError("ip refused to make the lab's links: Error: seg6local: unsupported operation")

    monkeypatch.setattr(net, "ip_batch", refused)
    router = SimpleNamespace(
        sids=SimpleNamespace(lines=lambda *_: ["route …"]), interface_of={}, _down=set(), _entrance=lambda _: []
    )
    with pytest.raises(PrerequisiteError) as found:
        RoutedNet.set_sids(cast("Any", router), "leaf1")
    assert str(found.value) == (
        "ip refused to make the lab's links: Error: seg6local: unsupported operation; static SIDs need "
        "Linux 6.17 with seg6local (6.1 with `srv6: {style: cable}`) and iproute2 6.1"
    )
