"""SONiC settings: what is exported fits SONiC's schema and the plan, and every planted difference is named."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.sonic.config_db import ConfigDb
from heddle.controller.sonic.differences import differences
from heddle.controller.sonic.export import PortNames, config_tables, switch_ports
from tests.oracles.sonic_schema import schema_violations
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3, spine_leaf
from tests.support.fabrics.sonic_switch import with_the_hardware_s_own

SPEEDS_MBPS = st.sampled_from([20, 1_000, 10_000, 25_000, 56_000, 100_000, 200_000, 400_000, 800_000])
EXPORTS = st.builds(
    config_tables,
    st.dictionaries(st.integers(1, 128), SPEEDS_MBPS, min_size=1, max_size=6),
    st.builds(PortNames, st.integers(0, 3), st.integers(1, 8)),
    st.integers(0, 2_000),
)


def named(config):
    return {tuple(each.place) for each in differences(ConfigDb(config))}


@hypothesis_settings(max_examples=examples(40), deadline=None)
@given(EXPORTS)
def test_an_export_fits_sonic_s_schema_and_has_no_difference(tables):
    assert schema_violations(with_the_hardware_s_own(tables)) == set()
    assert named(tables) == set()


@pytest.mark.parametrize("fabric", [spine_leaf(2, 4, 8), clos3(2, 2, 2, 4)], ids=["two tiers", "three tiers"])
def test_an_export_names_every_cabled_port_with_its_rate(fabric):
    ends = {(end.switch, end.number) for cable in fabric.cables for end in (cable.lower, cable.upper)}
    ends |= {tuple(nic.port) for nic in fabric.nics}
    assert {(switch, port) for switch, ports in switch_ports(fabric).items() for port in ports} == ends
    assert {rate for ports in switch_ports(fabric).values() for rate in ports.values()} == {20}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("SCHEDULER", "HEDDLE_SHARED", "weight"), "0"),
        (("WRED_PROFILE", "HEDDLE_100000M", "green_max_threshold"), "1"),
        (("QUEUE", "Ethernet0|3", "wred_profile"), "absent"),
        (("PFC_WD", "Ethernet0", "detection_time"), "100"),
        (("BUFFER_PG", "Ethernet0|9", "profile"), "NULL"),
        (("SWITCH_HASH", "GLOBAL", "ecmp_hash"), "SRC_IP"),
        (("PORT_QOS_MAP", "Ethernet999", "pfc_enable"), "3"),
    ],
    ids=lambda each: each[-1] if isinstance(each, tuple) else each,
)
def test_the_schema_of_the_tests_refuses_what_sonic_refuses(place, value):
    config = with_the_hardware_s_own(config_tables({1: 100_000}, PortNames(), 40))
    table, key, field = place
    config[table].setdefault(key, {})[field] = value
    assert {(table, key)} == {wrong[:2] for wrong in schema_violations(config)}


def plant(table, key, field, value):
    """A plant that sets one field (None: removes it); `PORT` in `key` is the drawn port, `PROFILE` its own profile."""
    return (table, key, field, value)


HASH = ["SRC_IP", "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT", "L4_DST_PORT"]
PLANTS = [
    plant("DSCP_TO_TC_MAP", "HEDDLE", "26", "0"),
    plant("DSCP_TO_TC_MAP", "HEDDLE", "48", "3"),
    plant("DSCP_TO_TC_MAP", "HEDDLE", "0", "3"),
    plant("TC_TO_QUEUE_MAP", "HEDDLE", "3", "4"),
    plant("TC_TO_PRIORITY_GROUP_MAP", "HEDDLE", "3", "0"),
    plant("MAP_PFC_PRIORITY_TO_QUEUE", "HEDDLE", "3", None),
    plant("PORT_QOS_MAP", "PORT", "tc_to_queue_map", "absent"),
    plant("PORT_QOS_MAP", "PORT", "pfc_enable", ""),
    plant("PORT_QOS_MAP", "PORT", "pfc_enable", "3,4"),
    plant("PORT_QOS_MAP", "PORT", "pfcwd_sw_enable", None),
    plant("PFC_WD", "PORT", "action", "forward"),
    plant("PORT", "PORT", "pfc_asym", "on"),
    plant("PORT", "PORT", "mtu", "1500"),
    plant("CABLE_LENGTH", "HEDDLE", "PORT", "0m"),
    plant("WRED_PROFILE", "PROFILE", "ecn", "ecn_none"),
    plant("WRED_PROFILE", "PROFILE", "green_min_threshold", "7"),
    plant("WRED_PROFILE", "PROFILE", "green_max_threshold", "99999999"),
    plant("WRED_PROFILE", "PROFILE", "green_drop_probability", "5"),
    plant("WRED_PROFILE", "PROFILE", "wred_green_enable", "false"),
    plant("SCHEDULER", "HEDDLE_STRICT", "type", "DWRR"),
    plant("SCHEDULER", "HEDDLE_SHARED", "type", "STRICT"),
    plant("QUEUE", "PORT|3", "wred_profile", None),
    plant("QUEUE", "PORT|6", "scheduler", None),
    plant("BUFFER_PG", "PORT|3", "profile", "absent"),
    plant("BUFFER_QUEUE", "PORT|3", "profile", None),
    plant("BUFFER_PROFILE", "PROFILE", "xoff", "1000"),
    plant("BUFFER_PROFILE", "PROFILE", "xon", "0"),
    plant("BUFFER_PROFILE", "HEDDLE_LOSSLESS_QUEUE", "packet_discard_action", "trim"),
    plant("BUFFER_POOL", "ingress_lossless_pool", "type", "egress"),
    plant("SWITCH_HASH", "GLOBAL", "ecmp_hash", HASH[:3]),
    plant("SWITCH_HASH", "GLOBAL", "ecmp_hash", [*HASH, "RDMA_BTH_DEST_QP"]),
    plant("SWITCH_HASH", "GLOBAL", "ecmp_hash", None),
    plant("SWITCH_HASH", "GLOBAL", "ecmp_hash_ipv4_rdma", ["SRC_IP", "DST_IP"]),
    plant("SWITCH_HASH", "GLOBAL", "ecmp_hash_algorithm", "RANDOM"),
    plant("SCHEDULER", "HEDDLE_STRICT", "pir", "1250"),
    plant("SCHEDULER", "HEDDLE_SHARED", "cir", "100000000000"),
    plant("ARS_OBJECT", "ars", "", {}),
    plant("SWITCH_TRIMMING", "GLOBAL", "dscp_value", "48"),
    plant("SWITCH_TRIMMING", "GLOBAL", "queue_index", "3"),
    plant("SWITCH_TRIMMING", "GLOBAL", "tc_value", "6"),
]
# What a plant hides: a profile that marks nothing has no thresholds to compare.
HIDES = {
    ("WRED_PROFILE", "ecn"): {
        "green_min_threshold",
        "green_max_threshold",
        "green_drop_probability",
        "wred_green_enable",
    },
    ("DSCP_TO_TC_MAP", "48"): {"dscp_value"},
}


@hypothesis_settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(SPEEDS_MBPS, min_size=1, max_size=3),
    st.lists(st.sampled_from(PLANTS), min_size=1, max_size=6, unique_by=lambda each: each[:3]),
    st.data(),
)
def test_every_planted_difference_is_named_and_nothing_else(speeds, plants, data):
    plants = [each for each in plants if not any(each[2] in HIDES.get((p[0], p[2]), ()) for p in plants)]
    # Every rate has two ports: what a plant in one no longer refers to is compared for the other.
    config = config_tables(dict(enumerate(sorted({*speeds}) * 2, 1)), PortNames(), 40)
    port = data.draw(st.sampled_from(sorted(config["PORT"])))
    profile = f"HEDDLE_{config['PORT'][port]['speed']}M"
    planted = set()
    for table, key, field, value in plants:
        key, field = key.replace("PORT", port).replace("PROFILE", profile), field.replace("PORT", port)
        row = config.setdefault(table, {}).setdefault(key, {})
        if value is None:
            del row[field]
        else:
            row[field] = value
        planted.add((table, key, field))
    assert named(config) == planted


def test_maps_and_profiles_of_other_names_and_of_older_spellings_are_no_difference():
    config = config_tables({1: 100_000, 2: 100_000}, PortNames(), 40)
    config["DSCP_TO_TC_MAP"]["AZURE"] = config["DSCP_TO_TC_MAP"].pop("HEDDLE")
    config["PORT_QOS_MAP"] = {
        port: {**row, "dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]"} for port, row in config["PORT_QOS_MAP"].items()
    }
    row = config["QUEUE"]["Ethernet0|3"]
    config["QUEUE"] = {key: row for key, row in config["QUEUE"].items() if not key.endswith("|3")}
    config["QUEUE"]["Ethernet0,Ethernet4|3-4"] = row
    config["BUFFER_PG"]["Ethernet4|3"] = {"profile": "NULL"}
    assert named(config) == set()


def test_a_port_that_is_down_is_not_compared():
    config = config_tables({1: 100_000, 2: 100_000}, PortNames(), 40)
    config["PORT"]["Ethernet4"]["admin_status"] = "down"
    del config["PORT_QOS_MAP"]["Ethernet4"]
    assert named(config) == set()


def test_rows_that_cover_a_queue_or_group_twice_are_a_difference():
    config = config_tables({1: 100_000}, PortNames(), 40)
    config["BUFFER_PG"]["Ethernet0|3-4"] = {"profile": "HEDDLE_100000M"}
    (found,) = differences(ConfigDb(config))
    assert found.place == ("BUFFER_PG", "Ethernet0|3-4", "")
    assert "BUFFER_PG|Ethernet0|3 covers it too" in found.reason


def test_of_two_cable_lengths_of_a_port_the_headroom_is_that_of_the_longer():
    config = config_tables({1: 100_000}, PortNames(), 40)
    config["CABLE_LENGTH"]["AZURE"] = {"Ethernet0": "300m"}
    assert named(config) == {("BUFFER_PROFILE", "HEDDLE_100000M", "xoff")}
