"""Names of LLDP as daemons send them, and the ports, NICs and switches of a fabric that they mean."""

import json

import pytest

from heddle.controller.cabling.heard import Neighbour
from heddle.controller.cabling.sources.names import resolve
from heddle.controller.config.port_map import by_name
from heddle.controller.model.fabric import Fabric, PortRef, Role, Switch
from heddle.telemetry.neighbours import lldpd, sonic
from heddle.telemetry.neighbours.advertised import Advertised, Collected, NeighboursError
from tests.support.fabrics.small_fabrics import rails, spine_leaf

FABRIC = spine_leaf(2, 3, 3)
LEAF1_1 = PortRef("leaf1", 1)


def json0(name, *, system="", chassis="", port_id="", kind="ifname", descr="", age="0 day, 00:00:02"):
    """One interface as lldpd 1.0.16 prints it."""
    sender = {"id": [{"type": "mac", "value": chassis}]} | ({"name": [{"value": system}]} if system else {})
    port = {"id": [{"type": kind, "value": port_id}], "descr": [{"value": descr}], "ttl": [{"value": "120"}]}
    return {"name": name, "via": "LLDP", "rid": "1", "age": age, "chassis": [sender], "port": [port]}


def heard_at(node, *interfaces, fabric=FABRIC, lanes=4):
    document = json.loads(json.dumps({"lldp": [{"interface": list(interfaces)}]}))
    return resolve(fabric, lldpd.neighbours(node, document), by_name(lanes))


SENDERS = {
    "a switch by name and interface": ({"system": "spine1", "port_id": "swp3"}, ("spine1", 3, "")),
    "with its domain, in capitals": ({"system": "SPINE1.dc1.example", "port_id": "swp3"}, ("spine1", 3, "")),
    "a port by its description": (
        {"system": "spine1", "port_id": "aa:bb:cc:dd:ee:ff", "kind": "mac", "descr": "swp3"}, ("spine1", 3, ""),
    ),
    "SONiC's lanes": ({"system": "spine1", "port_id": "Ethernet8"}, ("spine1", 3, "")),
    "SONiC's alias": ({"system": "spine1", "port_id": "etp3", "descr": "Ethernet8"}, ("spine1", 3, "")),
    "a NIC by the MAC of its port": (
        {"system": "vm17", "port_id": "02:00:00:00:00:02", "kind": "mac", "descr": "eth2"}, ("", None, "h2-n0"),
    ),
    "a host with one NIC, by name": ({"system": "h2", "port_id": "eth2"}, ("", None, "h2-n0")),
    "a NIC by the MAC of its chassis": ({"chassis": "02:00:00:00:00:02", "port_id": "eth2"}, ("", None, "h2-n0")),
    "a switch by its datapath id": ({"chassis": "00:00:00:00:00:01", "port_id": "swp3"}, ("spine1", 3, "")),
    "a switch whose port has another name": ({"system": "spine1", "port_id": "uplink"}, ("spine1", None, "")),
    "a management port": ({"system": "spine1", "port_id": "mgmt1"}, ("spine1", None, "")),
    "a stranger": ({"system": "border1", "port_id": "swp7"}, ("border1", 7, "")),
}  # fmt: skip


@pytest.mark.parametrize("case", SENDERS)
def test_a_sender_is_found_by_the_names_that_its_daemon_sends(case):
    sends, (switch, port, nic) = SENDERS[case]
    found = heard_at("leaf1", json0("swp1", **sends))
    assert found.heard == {LEAF1_1: Neighbour(switch=switch, port=port, nic=nic)}
    assert (found.up, found.notes) == (None, ())


def test_a_chassis_without_a_name_is_known_by_a_frame_that_has_one():
    found = heard_at(
        "leaf1",
        json0("swp1", system="spine1", chassis="aa:00:00:00:00:01", port_id="swp1"),
        json0("swp2", chassis="aa:00:00:00:00:01", port_id="swp2"),
    )
    assert found.heard[PortRef("leaf1", 2)] == Neighbour(switch="spine1", port=2)


def test_ids_with_a_domain_are_found_by_their_first_label_unless_two_have_it():
    ids = ("leaf1.dc1", "spine1.dc1", "spine2.a", "spine2.b")
    switches = tuple(Switch(id=name, role=Role.SPINE, datapath_id=at + 1) for at, name in enumerate(ids))
    fabric = Fabric(name="domains", switches=switches, cables=(), nics=())
    frames = (json0(f"swp{at}", system=name, port_id="swp1") for at, name in enumerate(
        ("spine1", "spine1.example", "spine2", "spine2.B"), 1))  # fmt: skip
    found = heard_at("leaf1", *frames, fabric=fabric)
    assert [neighbour.switch for neighbour in found.heard.values()] == [
        "spine1.dc1",
        "spine1.dc1",
        "spine2",
        "spine2.b",
    ]
    assert {port.switch for port in found.heard} == {"leaf1.dc1"}


def test_of_a_host_with_several_nics_its_name_does_not_say_which():
    found = heard_at("leaf1", json0("swp3", system="h1", port_id="eth2"), fabric=rails())
    assert found.heard == {PortRef("leaf1", 3): Neighbour(switch="", port=None, nic="h1")}


def test_of_two_frames_of_one_device_the_newer_counts():
    old, new = (json0("swp1", system="spine1", port_id=port, age=age) for port, age in (
        ("swp1", "1 day, 00:00:43"), ("swp2", "0 day, 00:00:06")))  # fmt: skip
    for frames in ((old, new), (new, old)):
        assert heard_at("leaf1", *frames).heard == {LEAF1_1: Neighbour(switch="spine1", port=2)}


def test_a_neighbour_of_the_fabric_counts_beside_strangers_and_two_of_it_do_not():
    one, two, other = (json0("swp1", system=name, port_id="swp1") for name in ("spine1", "spine2", "phone"))
    assert heard_at("leaf1", one, other).heard == {LEAF1_1: Neighbour(switch="spine1", port=1)}
    found = heard_at("leaf1", one, two)
    assert (found.heard, found.notes) == ({}, ("leaf1:1: hears 2 neighbours at once: not used",))


def test_names_of_64_kilobytes_are_not_used():
    found = heard_at("leaf1", json0("swp1", system="spine1" * 10_000, port_id="swp1"))
    assert (found.heard, len(found.notes)) == ({}, 1)
    assert len(found.notes[0]) < 200


def test_what_a_host_hears_is_not_used_and_said():
    found = heard_at("h1", json0("eth2", system="leaf1", port_id="swp3"))
    assert (found.heard, found.notes) == ({}, ("h1: no switch of the fabric: what it hears is not used",))


def test_rows_of_sonic_have_neighbours_and_carriers():
    rows = {
        "LLDP_ENTRY_TABLE:Ethernet0": {
            "lldp_rem_port_id_subtype": "5", "lldp_rem_port_id": "Ethernet4", "lldp_rem_port_desc": "etp2",
            "lldp_rem_chassis_id_subtype": "4", "lldp_rem_chassis_id": "aa:bb:cc:dd:ee:ff",
            "lldp_rem_sys_name": "spine1", "lldp_rem_time_mark": "12", "lldp_rem_sys_cap_enabled": "28 00",
        },
        "LLDP_ENTRY_TABLE:Ethernet4": {"lldp_rem_sys_name": "spine2", "lldp_rem_port_id": "Ethernet0"},  # stale
        "LLDP_ENTRY_TABLE:eth0": {"lldp_rem_sys_name": "oob", "lldp_rem_port_id": "7"},
        "PORT_TABLE:Ethernet0": {"oper_status": "up"},
        "PORT_TABLE:Ethernet60": {"oper_status": "up"},
        "PORT_TABLE:Ethernet4": {"oper_status": "down"},
        "PORT_TABLE:PortConfigDone": {"count": "2"},
        "ROUTE_TABLE:10.0.0.0/8": {"nexthop": ""},
    }  # fmt: skip
    dump = {key: {"type": "hash", "value": row} for key, row in rows.items()}
    for form in (rows, dump):
        found = resolve(FABRIC, sonic.neighbours("leaf1", form), by_name(4))
        assert found.heard == {LEAF1_1: Neighbour(switch="spine1", port=2)}
        assert found.up is not None
        # Of a switch that was not read nothing is called down.
        assert PortRef("leaf1", 2) not in found.up
        assert {LEAF1_1, PortRef("leaf1", 16), PortRef("leaf2", 2), PortRef("leaf2", 3)} <= found.up


def test_a_neighbour_of_sonic_without_a_name_is_known_by_its_chassis():
    row = {"lldp_rem_chassis_id": "02:00:00:00:00:02", "lldp_rem_port_id": "eth2"}
    rows = {"LLDP_ENTRY_TABLE:eth0": row, "LLDP_ENTRY_TABLE:Ethernet0": row}
    found = resolve(FABRIC, sonic.neighbours("leaf1", rows), by_name(4))
    assert found.heard == {LEAF1_1: Neighbour(switch="", port=None, nic="h2-n0")}


def test_nodes_that_did_not_reply_are_notes():
    assert resolve(FABRIC, Collected(unread=["leaf1: Redis: refused"]), by_name(4)).notes == ("leaf1: Redis: refused",)


@pytest.mark.parametrize(
    "document",
    [[], {}, {"lldp": [3]}, {"lldp": [{"interface": {"swp1": {}}}]}, {"lldp": [{"interface": [1]}]}],
)
def test_another_document_than_lldpds_is_refused_in_one_line(document):
    with pytest.raises(NeighboursError, match=r"\Aleaf1: ") as error:
        lldpd.neighbours("leaf1", document)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "interface",
    [
        {}, {"name": 3}, {"name": "swp1", "chassis": []}, {"name": "swp1", "chassis": "x", "port": [[]]},
        {"name": "swp1", "chassis": [{"name": [{"value": 7}]}], "age": 4},
    ],
)  # fmt: skip
def test_values_of_other_types_name_nothing(interface):
    found = heard_at("leaf1", interface)
    assert found.heard == {}


def test_names_of_a_sensible_length_are_needed():
    assert not Advertised(node="leaf1", interface="swp1").has_names
    assert Advertised(node="leaf1", interface="swp1", system="x" * 255).has_names
    assert not Advertised(node="leaf1", interface="swp1", system="spine1", ports=("x" * 256,)).has_names
