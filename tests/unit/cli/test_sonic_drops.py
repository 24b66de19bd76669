"""What drops RoCE packets without a word of PFC: access lists, MTUs of groups, bounds of queues; and other files."""

from typing import Any

import pytest

from heddle.controller.model.error import InputError
from heddle.controller.sonic.acl_differences import acl_differences
from heddle.controller.sonic.config_db import ConfigDb
from heddle.controller.sonic.port_differences import queue_differences
from heddle.controller.sonic.wording import Effect
from heddle.programs.console.sonic import read_config_db

PORTS = {"Ethernet0": {"admin_status": "up", "speed": "100000"}, "Ethernet4": {"admin_status": "down"}}


def found(*rules, bound="Ethernet0", kind="L3"):
    """Return the differences of an access list whose rules come first to last."""
    rows = {f"ACL|R{at}": {"PRIORITY": str(100 - at), **rule} for at, rule in enumerate(rules)}
    table = {"type": kind, "stage": "ingress", "ports": bound.split(",")}
    return list(acl_differences(ConfigDb({"PORT": PORTS, "ACL_TABLE": {"ACL": table}, "ACL_RULE": rows})))


def drop(**match):
    return {"PACKET_ACTION": "DROP", **match}


def forward(**match):
    return {"PACKET_ACTION": "FORWARD", **match}


ROCE = {"IP_PROTOCOL": "17", "L4_DST_PORT": "4791"}


@pytest.mark.parametrize(
    "rule",
    [
        drop(**ROCE),
        drop(),
        drop(ETHER_TYPE="2048"),
        drop(ETHER_TYPE="0x0800", IP_PROTOCOL="0x11"),
        drop(DSCP="26"),
        drop(DSCP="24/0x38"),
        drop(IP_TYPE="IPV4ANY"),
        drop(L4_DST_PORT_RANGE="4000-5000"),
        drop(L4_SRC_PORT_RANGE="1024-65535", RULE_DESCRIPTION="no clients"),
        {"PACKET_ACTION": "REDIRECT:Ethernet8", **ROCE},
        {**drop(**ROCE), "MIRROR_INGRESS_ACTION": "session1", "MIRROR_EGRESS_ACTION": "session1"},
    ],
)
def test_a_rule_that_fits_every_roce_packet_is_a_difference(rule):
    (each,) = found(rule)
    assert (str(each.place), each.effect, each.ports) == ("ACL_RULE|ACL|R0 PACKET_ACTION", Effect.DROPS, ("Ethernet0",))
    assert each.found == rule["PACKET_ACTION"]


@pytest.mark.parametrize(
    "rule",
    [
        drop(IP_PROTOCOL="6"),
        drop(L4_DST_PORT="22"),
        drop(L4_DST_PORT_RANGE="1-4790"),
        drop(L4_SRC_PORT_RANGE="0-49151"),
        drop(DSCP="46"),
        drop(DSCP="46/0x3e"),
        drop(IP_TYPE="NON_IPV4"),
        drop(ETHER_TYPE="0x86DD"),
        drop(IP_TYPE="ARP"),
        drop(TCP_FLAGS="0x02/0x02"),
        drop(ICMP_TYPE="8"),
        forward(**ROCE),
        {"MIRROR_INGRESS_ACTION": "session1", **ROCE},
        {"PACKET_ACTION": "DO_NOT_NAT"},
    ],
)
def test_a_rule_that_takes_no_roce_packet_is_none(rule):
    assert found(rule) == []


@pytest.mark.parametrize(
    "match",
    [{"SRC_IP": "10.0.0.0/8"}, {"IN_PORTS": "Ethernet0"}, {"L4_SRC_PORT": "50000"}, {"IP_TYPE": "IPV4_OF_LATER"}],
)
def test_a_rule_that_may_fit_roce_packets_is_a_note(match):
    (each,) = found(drop(**ROCE, **match))
    assert each.effect is Effect.NOTE


def test_the_first_rule_that_fits_decides():
    assert found(forward(**ROCE), drop()) == []
    assert [each.effect for each in found(forward(SRC_IP="10.0.0.0/8"), drop())] == [Effect.NOTE]
    assert [each.effect for each in found(forward(IP_PROTOCOL="6"), drop())] == [Effect.DROPS]
    assert [each.effect for each in found(drop(), forward(**ROCE, PRIORITY="9000"))] == []
    assert found({"MIRROR_INGRESS_ACTION": "session1", **ROCE}, drop()) == []
    assert [each.effect for each in found(ROCE, drop())] == [Effect.DROPS]  # a rule without an action is none


def test_a_rule_that_takes_all_after_those_that_take_some_is_a_difference():
    some = drop(SRC_IP="10.0.0.0/8")
    assert [(each.place.key, each.effect) for each in found(some, some, drop())] == [
        ("ACL|R0", Effect.NOTE),
        ("ACL|R2", Effect.DROPS),
    ]
    assert [each.place.key for each in found(some, forward(**ROCE), drop())] == ["ACL|R0"]


def test_a_redirection_in_a_field_of_its_own_is_a_difference():
    (each,) = found({"REDIRECT_ACTION": "Ethernet8", "PACKET_ACTION": "FORWARD", **ROCE})
    assert (str(each.place), each.found) == ("ACL_RULE|ACL|R0 REDIRECT_ACTION", "Ethernet8")
    assert each.effect is Effect.DROPS


def test_a_list_that_drops_one_class_names_it():
    (cnps,) = found(drop(DSCP="48"))
    assert (cnps.effect, "RoCE packets (CNPs," in cnps.reason) == (Effect.UNMARKED, True)
    data, both = found(drop(DSCP="26"), drop())[0], found(drop())[0]
    assert "RoCE packets (data," in data.reason
    assert "RoCE packets (data and CNPs," in both.reason
    assert [each.effect for each in found(forward(DSCP="26"), drop())] == [Effect.UNMARKED]


@pytest.mark.parametrize(
    ("bound", "kind", "count"),
    [
        ("Ethernet0", "L3", 1),
        ("PortChannel1", "L3", 1),
        ("Vlan10", "MY_TYPE", 1),
        ("Ethernet4", "L3", 0),
        ("", "L3", 0),
        ("Ethernet0", "CTRLPLANE", 0),
        ("Ethernet0", "L3V6", 0),
    ],
)
def test_only_access_lists_that_packets_of_the_fabric_meet_count(bound, kind, count):
    assert len(found(drop(), bound=bound, kind=kind)) == count


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        (
            {"PORTCHANNEL": {"PortChannel1": {"mtu": "1500"}}, "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}}},
            "PORTCHANNEL|PortChannel1 mtu",
        ),
        ({"VLAN": {"Vlan10": {"mtu": "1500"}}, "VLAN_MEMBER": {"Vlan10|Ethernet0": {}}}, "VLAN|Vlan10 mtu"),
        (
            {
                "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}},
                "VLAN": {"Vlan10": {"mtu": "x"}},
                "VLAN_MEMBER": {"Vlan10|PortChannel1": {}},
            },
            "VLAN|Vlan10 mtu",
        ),
    ],
    ids=["port channel", "VLAN", "VLAN of a port channel"],
)
def test_a_small_mtu_of_the_group_of_a_port_is_a_difference(tables, place):
    config = ConfigDb({"PORT": PORTS, **tables})
    sizes = [each for each in queue_differences(config, "Ethernet0") if each.place.field == "mtu"]
    assert [(str(each.place), each.effect, each.ports) for each in sizes] == [(place, Effect.DROPS, ("Ethernet0",))]


@pytest.mark.parametrize(
    ("mode", "threshold", "size", "effect"),
    [
        ("static", {"static_th": "79999"}, "32000000", Effect.DROPS),
        ("static", {"static_th": "80000"}, "32000000", Effect.NOTE),
        ("static", {"static_th": "7999999"}, "32000000", Effect.NOTE),
        ("static", {"static_th": "8000000"}, "32000000", None),
        ("static", {"static_th": "80000"}, "", None),
        ("dynamic", {"dynamic_th": "-8"}, "32000000", Effect.DROPS),
        ("dynamic", {"dynamic_th": "-1"}, "32000000", Effect.NOTE),
        ("dynamic", {"dynamic_th": "7"}, "32000000", None),
        ("static", {}, "32000000", None),
    ],
)
def test_a_bound_of_the_data_queue_below_its_pool_is_found(mode, threshold, size, effect):
    tables = {
        "BUFFER_QUEUE": {"Ethernet0|3": {"profile": "data"}},
        "BUFFER_PROFILE": {"data": {"pool": "out", "size": "0", **threshold}},
        "BUFFER_POOL": {"out": {"type": "egress", "mode": mode, "size": size}},
    }
    found = queue_differences(ConfigDb({"PORT": PORTS, **tables}), "Ethernet0")
    effects = [each.effect for each in found if each.place.field.endswith("_th")]
    assert effects == ([] if effect is None else [effect])


def test_a_group_with_room_for_roce_packets_is_none():
    tables: Any = {
        "VLAN": {"Vlan10": {"mtu": "9100"}, "Vlan11": {}},
        "VLAN_MEMBER": {"Vlan10|Ethernet0": {}, "odd": {}},
    }
    config = ConfigDb({"PORT": PORTS, **tables})
    assert not [each for each in queue_differences(config, "Ethernet0") if each.place.field == "mtu"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '{"PORT|Ethernet0": {"speed": "100000"}}',
            "PORT|Ethernet0: a row at the top, as in a dump of Redis; `sonic-cf",
        ),
        (
            '{"PORT|Ethernet0": {"ttl": 1, "type": "hash", "value": {}}}',
            "PORT|Ethernet0: a row at the top, as in a dum",
        ),
        (
            '{"localhost": {"PORT": {}}, "asic0": {"PORT": {}}}',
            "localhost, asic0: tables of several ASICs; name a file",
        ),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path, text, line):
    path = tmp_path / "config_db.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_config_db(path)
    assert str(caught.value).startswith(f"{path}: {line}")
