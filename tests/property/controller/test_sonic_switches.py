"""Switches as they are found: ports that are down, chassis, vendors' headroom, shapers, remarking, hash seeds."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.sonic.config_db import ConfigDb
from heddle.controller.sonic.differences import comparison, differences
from heddle.controller.sonic.export import PortNames, config_tables
from heddle.controller.sonic.headroom import headroom_bytes, least_headroom_bytes
from heddle.controller.sonic.path_differences import hash_seed, shared_seeds
from heddle.controller.sonic.wording import Effect
from tests.support.examples import examples
from tests.support.fabrics.sonic_switch import with_the_hardware_s_own

SAME_FOR_A_PAIR = ["SRC_MAC", "DST_MAC", "ETHERTYPE", "VLAN_ID", "INNER_SRC_IP", "INNER_L4_DST_PORT"]


@pytest.fixture
def config():
    return config_tables({1: 100_000, 2: 100_000}, PortNames(), 40)


def found(config):
    return {tuple(each.place): each for each in differences(ConfigDb(config))}


def effects(config):
    return {tuple(each.place): each.effect for each in differences(ConfigDb(config))}


def notes(config):
    return [each for each in comparison(ConfigDb(config)) if each.is_note]


# Ports


def test_beside_a_port_that_is_up_one_without_admin_status_is_down_and_not_compared(config):
    config["PORT"]["Ethernet0"]["admin_status"] = "up"
    del config["PORT_QOS_MAP"]["Ethernet4"]
    assert found(config) == {}
    del config["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"]
    assert set(found(config)) == {("PORT_QOS_MAP", "Ethernet0", "pfc_enable")}


def test_where_no_port_is_up_a_whole_file_has_a_note_and_an_export_none(config):
    assert notes(config) == []
    (note,) = notes(with_the_hardware_s_own(config))
    assert str(note).startswith("PORT admin_status: up on no port: SONiC takes all ports as down")


@pytest.mark.parametrize("role", ["Int", "Inb", "Rec", "Dpc"])
def test_ports_inside_the_switch_are_not_compared(config, role):
    config["PORT"]["Ethernet4"]["role"] = role
    del config["PORT_QOS_MAP"]["Ethernet4"]
    assert found(config) == {}


def test_rows_of_older_releases_that_name_several_ports_are_read_for_each(config):
    for table in ("PORT_QOS_MAP", "PFC_WD"):
        row = config[table].pop("Ethernet0")
        del config[table]["Ethernet4"]
        config[table]["Ethernet4,Ethernet0"] = row
    assert found(config) == {}
    config["PORT_QOS_MAP"]["Ethernet4,Ethernet0"]["pfc_enable"] = "4"
    assert set(found(config)) == {("PORT_QOS_MAP", "Ethernet4,Ethernet0", "pfc_enable")}


# A VOQ chassis


def on_a_chassis(config, hostname):
    config["DEVICE_METADATA"] = {"localhost": {"switch_type": "voq", "hostname": hostname, "asic_name": "asic1"}}
    for table in ("QUEUE", "BUFFER_QUEUE"):
        config[table] = {
            **{f"card3|asic0|{key}": {} for key in list(config[table])[:2]},
            **{f"card3|asic1|{key}": row for key, row in config[table].items()},
            **{f"card5|asic1|{key}": {} for key in list(config[table])[:2]},
        }
    return config


@pytest.mark.parametrize("hostname", ["card3", "renamed"])
def test_queues_of_a_chassis_are_read_from_the_rows_of_its_own_line_card(config, hostname):
    config = on_a_chassis(config, hostname)
    assert found(config) == {}
    del config["QUEUE"]["card3|asic1|Ethernet4|3"]["wred_profile"]
    assert set(found(config)) == {("QUEUE", "card3|asic1|Ethernet4|3", "wred_profile")}


def test_the_line_card_s_own_name_counts_though_another_has_more_rows(config):
    config = on_a_chassis(config, "card5")
    missing = {place for place in found(config) if place[0] in ("QUEUE", "BUFFER_QUEUE")}
    assert ("QUEUE", "Ethernet4|3", "wred_profile") in missing
    assert ("BUFFER_QUEUE", "Ethernet4|3", "profile") in missing


def test_rows_of_other_line_cards_cover_no_queue_of_this_one(config):
    assert ConfigDb(on_a_chassis(config, "card3")).overlaps == []


# Headroom


@hypothesis_settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from([1_000, 10_000, 100_000, 400_000, 800_000]), st.integers(1, 40_000), st.integers(4_160, 9_216))
def test_the_least_headroom_is_cable_frame_and_packet_and_no_more_than_the_worst_case(speed, metres, mtu):
    least = least_headroom_bytes(speed, metres, mtu, 4_160)
    round_trip_s = 2 * metres / 198e6
    assert least - mtu - 4_160 == pytest.approx(round_trip_s * speed * 1e6 / 8, abs=1)
    assert least <= headroom_bytes(speed, metres, mtu)


def with_headroom(config, xoff, cable="12m"):
    config["BUFFER_PROFILE"]["HEDDLE_100000M"]["xoff"] = str(xoff)
    config["CABLE_LENGTH"]["HEDDLE"] = {"Ethernet0": cable, "Ethernet4": cable}
    return config


# 12 m at 100 Gbit/s there and back: 1,515 bytes. Of the MTU 9,100, of RoCE 4,160; IEEE's reaction: 25,216.
@pytest.mark.parametrize("xoff", [14_775, 39_999, 44_930])
def test_headroom_that_holds_for_a_sender_that_reacts_soon_is_a_note_with_its_quanta(config, xoff):
    config = with_headroom(config, xoff)
    assert found(config) == {}
    first, second = notes(config)
    assert first[:5] == second[:5]
    assert f"within {(xoff - 14_775) // 64} pause quanta" in first.reason
    assert "(394)" in first.reason
    assert "need 44931" in first.reason


def test_without_a_cable_length_40_m_are_assumed_and_the_line_says_so(config):
    config = with_headroom(config, 18_310)  # 5,050 + 9,100 + 4,160
    del config["CABLE_LENGTH"]
    assert found(config) == {}
    assert "40 m (no CABLE_LENGTH) at 100000 Mbit/s" in notes(config)[0].reason
    assert set(found(with_headroom(config | {"CABLE_LENGTH": {"HEDDLE": {}}}, 18_309, "40m"))) == {
        ("BUFFER_PROFILE", "HEDDLE_100000M", "xoff")
    }


def test_headroom_for_the_worst_case_has_no_note(config):
    assert notes(with_headroom(config, 44_931)) == []


def test_headroom_below_what_cable_and_frames_hold_loses_data(config):
    config = with_headroom(config, 14_774)
    (place,) = found(config)
    assert place == ("BUFFER_PROFILE", "HEDDLE_100000M", "xoff")
    assert effects(config)[place] is Effect.DROPS
    assert "12 m at 100000 Mbit/s" in found(config)[place].reason


def test_headroom_that_nothing_reserves_is_a_note_and_a_shared_one_is_none(config):
    profile = config["BUFFER_PROFILE"]["HEDDLE_100000M"]
    assert notes(config) == []
    profile["size"] = str(int(profile["xoff"]) - 1)
    assert found(config) == {}
    assert {tuple(each.place) for each in notes(config)} == {("BUFFER_PROFILE", "HEDDLE_100000M", "size")}
    config["BUFFER_POOL"]["ingress_lossless_pool"]["xoff"] = "1712128"
    assert notes(config) == []


def test_a_cable_of_0m_loses_data_because_sonic_removes_its_groups(config):
    config["CABLE_LENGTH"]["HEDDLE"]["Ethernet4"] = "0m"
    assert effects(config) == {("CABLE_LENGTH", "HEDDLE", "Ethernet4"): Effect.DROPS}


def test_an_export_for_cables_of_0_m_says_1_m():
    config = config_tables({1: 100_000}, PortNames(), 0)
    assert config["CABLE_LENGTH"]["HEDDLE"] == {"Ethernet0": "1m"}
    assert found(config) == {}
    assert notes(config) == []


def computed(config, **metadata):
    config["DEVICE_METADATA"] = {"localhost": metadata}
    for port in ("Ethernet0", "Ethernet4"):
        config["BUFFER_PG"][f"{port}|3"] = {"profile": "NULL"}
    return config


def test_headroom_is_computed_in_the_dynamic_buffer_model_only(config):
    assert found(computed(config, buffer_model="dynamic")) == {}
    place = ("DEVICE_METADATA", "localhost", "buffer_model")
    assert effects(computed(config, buffer_model="traditional")) == {place: Effect.DROPS}
    assert effects(computed(config, hostname="leaf9")) == {place: Effect.DROPS}


def test_headroom_that_is_computed_for_packets_smaller_than_roce_s_is_a_note(config):
    config = computed(config, buffer_model="dynamic")
    config["LOSSLESS_TRAFFIC_PATTERN"] = {"AZURE": {"mtu": "1024", "small_packet_percentage": "100"}}
    assert found(config) == {}
    assert {tuple(each.place) for each in notes(config)} == {("LOSSLESS_TRAFFIC_PATTERN", "AZURE", "mtu")}
    config["LOSSLESS_TRAFFIC_PATTERN"]["AZURE"]["mtu"] = "4160"
    assert notes(config) == []


def test_data_in_the_queue_profile_of_other_traffic_is_dropped_where_that_is(config):
    config["BUFFER_QUEUE"]["Ethernet4|3"] = {"profile": "HEDDLE_LOSSY_QUEUE"}
    assert effects(config) == {("BUFFER_QUEUE", "Ethernet4|3", "profile"): Effect.DROPS}
    config["BUFFER_PROFILE"]["HEDDLE_LOSSY_QUEUE"]["dynamic_th"] = "7"  # it may take the whole pool
    assert found(config) == {}


# Shapers


def shaped(config, where, **limits):
    config["SCHEDULER"]["SLOW"] = {"type": "DWRR", "weight": "50", **limits}
    table, key = where
    config[table][key] = {**config[table][key], "scheduler": "SLOW"}
    return config


PORT, DATA_QUEUE = ("PORT_QOS_MAP", "Ethernet0"), ("QUEUE", "Ethernet0|3")


@pytest.mark.parametrize(("where", "what"), [(PORT, "the port is shaped"), (DATA_QUEUE, "the queue of data is shaped")])
def test_a_limit_below_the_rate_is_named_with_both_rates(config, where, what):
    each = found(shaped(config, where, pir="2500000", meter_type="bytes"))["SCHEDULER", "SLOW", "pir"]
    assert each.reason.startswith(f"{what} to 20 Mbit/s of its 100,000 Mbit/s")
    assert each.wanted == "none, or at least 12500000000 bytes/s"


@pytest.mark.parametrize("limits", [{}, {"pir": "0"}, {"pir": "12500000000"}, {"cir": "4000", "pir": "99999999999"}])
def test_no_limit_and_one_at_the_rate_are_no_difference(config, limits):
    assert found(shaped(config, PORT, **limits)) == {}


def test_a_limit_in_packets_is_a_difference_at_any_number(config):
    assert set(found(shaped(config, PORT, pir="99999999999", meter_type="packets"))) == {
        ("SCHEDULER", "SLOW", "meter_type")
    }


def test_a_shaper_in_the_global_row_is_none_because_sonic_ignores_it(config):
    assert found(shaped(config, ("PORT_QOS_MAP", "global"), pir="1000")) == {}


def test_a_limit_of_other_traffic_is_none_and_a_guarantee_above_its_share_is_a_difference(config):
    other = ("QUEUE", "Ethernet0|0")
    assert found(shaped(config, other, pir="1000")) == {}
    assert found(shaped(config, other, cir="6250000000")) == {}
    assert set(found(shaped(config, other, cir="6250000001"))) == {("SCHEDULER", "SLOW", "cir")}


# Maps


@pytest.mark.parametrize(
    ("remarked", "effect"),
    [
        ({"3": "10"}, Effect.DROPS),
        ({"0": "26"}, Effect.OTHER),
        ({"6": "26"}, Effect.OTHER),
        ({"3": "26", "6": "48", "0": "8", "5": "26"}, None),
    ],
    ids=str,
)
def test_a_class_that_leaves_with_the_dscp_of_another_is_a_difference(config, remarked, effect):
    config["TC_TO_DSCP_MAP"] = {"REMARK": remarked, "UNUSED": {"3": "0"}}
    config["PORT_QOS_MAP"]["Ethernet4"]["tc_to_dscp_map"] = "REMARK"
    expected = {("TC_TO_DSCP_MAP", "REMARK", next(iter(remarked))): effect} if effect is not None else {}
    assert effects(config) == expected


def test_of_the_global_row_only_the_dscp_map_counts(config):
    shared = config["PORT_QOS_MAP"]["global"]
    for row in (config["PORT_QOS_MAP"]["Ethernet0"], config["PORT_QOS_MAP"]["Ethernet4"]):
        shared |= {field: row.pop(field) for field in ("dscp_to_tc_map", "tc_to_pg_map")}
    assert effects(config) == {
        ("PORT_QOS_MAP", port, "tc_to_pg_map"): Effect.DROPS for port in ("Ethernet0", "Ethernet4")
    }


def test_a_group_that_pauses_another_priority_loses_data(config):
    config["PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"] = {"PAUSE": {"3": "4", "4": "3"}}
    config["PORT_QOS_MAP"]["Ethernet0"]["pfc_to_pg_map"] = "PAUSE"
    assert effects(config) == {("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "PAUSE", "3"): Effect.DROPS}


@pytest.mark.parametrize(("value", "effect"), [("4", Effect.DROPS), ("", Effect.DROPS), ("3,4", Effect.OTHER)])
def test_pfc_without_data_s_priority_is_worse_than_pfc_of_one_more(config, value, effect):
    config["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] = value
    assert effects(config) == {("PORT_QOS_MAP", "Ethernet0", "pfc_enable"): effect}


def test_a_watchdog_without_an_action_drops_and_one_without_a_detection_time_does_not_start(config):
    del config["PFC_WD"]["Ethernet0"]["action"]
    assert found(config) == {}
    del config["PFC_WD"]["Ethernet4"]["detection_time"]
    assert set(found(config)) == {("PFC_WD", "Ethernet4", "detection_time")}
    del config["PFC_WD"]["Ethernet0"]
    assert ("PFC_WD", "Ethernet0", "action") in found(config)


# Paths


def test_fields_that_all_packets_of_a_pair_share_move_no_flow(config):
    config["SWITCH_HASH"]["GLOBAL"]["ecmp_hash"] += SAME_FOR_A_PAIR
    assert found(config) == {}


def test_members_of_a_port_channel_are_chosen_by_a_hash_too(config):
    config["SWITCH_HASH"]["GLOBAL"] |= {"lag_hash": ["SRC_IP", "DST_IP"], "lag_hash_algorithm": "RANDOM"}
    assert found(config) == {}
    config["PORTCHANNEL_MEMBER"] = {"PortChannel7|Ethernet0": {}, "PortChannel7|Ethernet4": {}}
    assert {place[2] for place in found(config)} == {"lag_hash", "lag_hash_algorithm"}


def test_rules_with_a_hash_of_their_own_are_a_note(config):
    config["PBH_RULE"] = {"nvgre|inner": {"hash": "inner"}}
    assert found(config) == {}
    assert [tuple(each.place) for each in notes(config)] == [("PBH_RULE", "nvgre|inner", "")]


def switch(hostname, neighbours=(), **metadata):
    near = {f"Ethernet{number}": {"name": name} for number, name in enumerate(neighbours)}
    return ConfigDb({"DEVICE_METADATA": {"localhost": {"hostname": hostname, **metadata}}, "DEVICE_NEIGHBOR": near})


# sonic-buildimage, dockers/docker-orchagent/switch.json.j2
@pytest.mark.parametrize(
    ("metadata", "seed"),
    [
        ({}, 0),
        ({"type": "ToRRouter"}, 0),
        ({"type": "BackEndLeafRouter"}, 10),
        ({"type": "SpineRouter"}, 25),
        ({"type": "UpperSpineRouter"}, 25),
        ({"type": "LowerRegionalHub"}, 60),
        ({"type": "SpineRouter", "namespace_id": "2"}, 27),
        ({"type": "SpineRouter", "ecmp_hash_seed": "7"}, 7),
    ],
    ids=str,
)
def test_the_seed_follows_the_type_of_the_switch(metadata, seed):
    assert hash_seed(switch("s", **metadata)) == seed


def test_tables_that_do_not_say_what_the_switch_is_have_no_known_seed(config):
    assert hash_seed(ConfigDb(config)) is None


def test_neighbours_with_one_seed_are_named_and_switches_of_one_tier_are_not():
    found = list(
        shared_seeds(
            {
                "a.json": switch("tor1", ["agg1"], type="ToRRouter"),
                "b.json": switch("tor2", ["agg1"], type="ToRRouter"),
                "c.json": switch("agg1", [], type="LeafRouter"),
                "d.json": switch("core1", ["agg1"], type="LeafRouter"),
            }
        )
    )
    assert len(found) == 1
    assert found[0].startswith("c.json, d.json hash with one seed (10, of DEVICE_METADATA type) and are of two tiers")


def test_without_neighbours_one_seed_of_all_switches_may_be_of_two_tiers_and_two_seeds_say_nothing():
    leaf, spine = switch("leaf1", type="LeafRouter"), switch("spine1", type="LeafRouter")
    (note,) = shared_seeds({"leaf1.json": leaf, "spine1.json": spine})
    assert "leaf1.json, spine1.json hash with one seed" in note
    assert "may be of two tiers" in note
    assert list(shared_seeds({"leaf1.json": leaf, "x.json": spine, "s.json": switch("s", type="SpineRouter")})) == []
    assert list(shared_seeds({"leaf1.json": leaf})) == []


def test_of_one_switch_the_types_of_its_neighbours_say_whether_they_share_its_seed():
    leaf = switch("leaf1", ["spine1", "gpu1"], type="LeafRouter")
    leaf.tables["DEVICE_NEIGHBOR_METADATA"] = {"spine1": {"type": "LeafRouter"}, "gpu1": {"type": "Server"}}
    (note,) = shared_seeds({"leaf1.json": leaf})
    assert note.startswith(
        "leaf1.json, its neighbour spine1 hash with one seed (10, of DEVICE_METADATA type) and are of"
    )
    leaf.tables["DEVICE_NEIGHBOR_METADATA"]["spine1"]["type"] = "SpineRouter"
    assert list(shared_seeds({"leaf1.json": leaf})) == []


def test_a_server_s_seed_is_no_switch_s():
    tor = switch("tor1", ["gpu1"], type="ToRRouter")
    tor.tables["DEVICE_NEIGHBOR_METADATA"] = {"gpu1": {"type": "Server"}}
    assert list(shared_seeds({"tor1.json": tor})) == []
