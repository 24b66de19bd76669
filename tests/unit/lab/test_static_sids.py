"""The static SIDs of the lab's routers, as lines for `ip -batch`."""

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import PortRef
from heddle.mininet_topos.routed.static_sids import StaticSids

TEXT = "version: 1\nsteering: srv6\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1}\n"
FLAVOR = "flavors next-csid lblen 32 nflen 16"


def lines(ports, text=TEXT):
    fabric = parse_fabric(text, "fabric.yaml")
    sids = StaticSids(fabric, {nic.id: 0x02FE00000000 + number for number, nic in enumerate(fabric.nics)})
    return sids.lines("leaf1", {PortRef("leaf1", number): f"p{number}" for number in ports})


def test_a_leaf_has_its_own_entry_one_of_each_cable_and_a_route_to_each_nic():
    assert lines((1, 2)) == [
        "addr replace fe80::2fd:0:0/64 dev p1 nodad",
        "neigh replace fe80::2fd:0:1 lladdr 02:fd:00:00:00:01 dev p1 nud permanent",
        "addr replace fe80::2fe:0:0/64 dev p2 nodad",
        "neigh replace fe80::200:0:1 lladdr 02:00:00:00:00:01 dev p2 nud permanent",
        f"route replace fcbb:0:2::/48 encap seg6local action End {FLAVOR} dev sr0",
        f"route replace fcbb:0:e001::/48 encap seg6local action End.X nh6 fe80::2fd:0:1 oif p1 {FLAVOR} dev p1",
        "route replace fcbb:0:e002::/48 via fe80::200:0:1 dev p2",
    ]


def test_a_port_that_is_down_has_no_entry():
    assert not any("e001" in line or "p1" in line for line in lines((2,)))


def test_with_a_ua_at_nics_their_usid_is_shifted_away():
    (line,) = [line for line in lines((1, 2), TEXT + "srv6: {last_hop: ua}\n") if "e002" in line]
    assert "End.X nh6 fe80::200:0:1 oif p2" in line
