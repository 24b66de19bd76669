"""Causes: every difference is in one line, the number of lines does not grow with ports, and ranges lose nothing."""

import re

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.sonic.causes import causes, ranges
from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.differences import comparison
from heddle.controller.sonic.export import PortNames, config_tables
from heddle.controller.sonic.refusals import refusals
from heddle.controller.sonic.wording import Difference, Effect
from tests.support.examples import examples
from tests.support.fabrics.sonic_switch import with_the_hardware_s_own

TABLES = ["PORT_QOS_MAP", "PFC_WD", "QUEUE", "BUFFER_PG", "WRED_PROFILE", "SWITCH_HASH", "DSCP_TO_TC_MAP"]
SPEEDS = dict.fromkeys(range(1, 9), 100_000)


def numbers_of(text):
    """The numbers that a text of ranges stands for."""
    spans = [part.split("-") for part in text.split(",")]
    return {number for first, *last in spans for number in range(int(first), int(last[0] if last else first) + 1)}


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(st.sets(st.integers(0, 63), min_size=1))
def test_ranges_stand_for_exactly_their_numbers(numbers):
    text = ranges([str(number) for number in sorted(numbers, key=str)])
    assert numbers_of(text) == numbers
    assert len(text.split(",")) == sum(number + 1 not in numbers for number in numbers)


def broken(tables_without, fields, speeds=SPEEDS):
    """A switch that lacks whole tables, with some fields of its own set to nonsense."""
    config = with_the_hardware_s_own(config_tables(speeds, PortNames(), 40))
    for table in tables_without:
        config[table] = {}
    for table, key, field in fields:
        if key in config.get(table, {}):
            config[table][key][field] = "none"
    return ConfigDb(config)


def found_in(config):
    return [*refusals(config), *comparison(config)]


PLACES = st.sampled_from(
    [
        ("PORT", "Ethernet4", "fec"),
        ("PORT_QOS_MAP", "Ethernet0", "pfc_enable"),
        ("QUEUE", "Ethernet8|3", "wred_profile"),
        ("WRED_PROFILE", "HEDDLE_100000M", "green_min_threshold"),
        ("DSCP_TO_TC_MAP", "HEDDLE", "9"),
        ("DSCP_TO_TC_MAP", "HEDDLE", "26"),
        ("BUFFER_PROFILE", "HEDDLE_100000M", "xoff"),
    ]
)


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(TABLES), max_size=3, unique=True), st.lists(PLACES, max_size=4))
def test_every_difference_is_in_exactly_one_cause_and_each_cause_names_its_ports(tables, fields):
    config = broken(tables, fields)
    found = found_in(config)
    grouped = causes(found, config.ports())
    assert sorted(each for cause in grouped for each in cause.differences) == sorted({*found})
    for cause in grouped:
        assert {each.place.table for each in cause.differences} == {cause.differences[0].place.table}
        named = set(re.findall(r"Ethernet\d+", cause.line))
        assert named <= {*cause.ports} or not cause.ports
        if cause.ports:
            assert {cause.ports[0], cause.ports[-1]} <= named or len(cause.ports) == 1


GARBAGE = st.sampled_from([None, [], {}, "", True, ["a", {}], "x|y|z|3", "9" * 30, "-1", "Ethernet0|3-9999", "\0"])
KEYS = st.sampled_from(
    ["Ethernet0", "Ethernet0,Ethernet4", "a|b|Ethernet0|3", "global", "GLOBAL", "localhost", "", "|"]
)
MORE_TABLES = [
    *TABLES,
    *[
        "PORT",
        "CABLE_LENGTH",
        "SCHEDULER",
        "BUFFER_PROFILE",
        "BUFFER_POOL",
        "TC_TO_DSCP_MAP",
        "ARS_PROFILE",
        "PBH_RULE",
    ],
    *["DEVICE_METADATA", "DEVICE_NEIGHBOR", "LOSSLESS_TRAFFIC_PATTERN", "SWITCH_TRIMMING", "PORTCHANNEL_MEMBER"],
]
FIELDS = st.sampled_from(["name", "mtu", "pir", "percentage", "admin_status", "scheduler", "profile", "3", "26", ""])


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MORE_TABLES), KEYS, FIELDS, GARBAGE), max_size=8))
def test_garbage_in_any_field_is_grouped_as_well(planted):
    tables = with_the_hardware_s_own(config_tables(dict.fromkeys((1, 2), 100_000), PortNames(), 40))
    for table, key, field, value in planted:
        tables.setdefault(table, {}).setdefault(key, {})[field] = value
    found = found_in(ConfigDb(tables))
    grouped = causes(found, list(tables["PORT"]))
    assert sum(len(cause.differences) for cause in grouped) == len({*found})
    assert not any("\n" in cause.line for cause in grouped)


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table_has_as_many_lines_for_one_port_as_for_sixty_four(table):
    few, many = (broken([table], [], dict.fromkeys(range(1, count + 1), 100_000)) for count in (1, 64))
    assert len(causes(found_in(many), many.ports())) == len(causes(found_in(few), few.ports())) > 0


def test_refusals_come_first_then_losses_then_marking_then_the_rest_and_notes_last():
    config = broken(["PFC_WD"], [("PORT", "Ethernet4", "fec"), ("WRED_PROFILE", "HEDDLE_100000M", "ecn")])
    config.tables["PORT_QOS_MAP"]["Ethernet8"]["pfc_enable"] = "4"
    ranks = [(not cause.refused, cause.effect) for cause in causes(found_in(config), config.ports())]
    assert ranks == sorted(ranks)
    assert {(False, Effect.UNMARKED), (True, Effect.DROPS), (True, Effect.OTHER), (True, Effect.NOTE)} <= {*ranks}


def lines(differences, ports):
    return [cause.line for cause in causes(differences, ports)]


def test_ports_that_are_no_neighbours_are_listed_and_too_many_are_counted():
    ports = [f"Ethernet{4 * number}" for number in range(64)]
    some = [Difference(Place("PORT", port, "mtu"), "1500", "at least 4160", "why") for port in ports[::-1]]
    assert lines(some[:2] + some[-3:], ports) == [
        "PORT|Ethernet0..Ethernet8, Ethernet248..Ethernet252 mtu (5 ports): 1500, the plan assumes at least 4160: why"
    ]
    assert lines(some[::2], ports) == [
        "PORT|Ethernet4, Ethernet12, Ethernet20, Ethernet28, Ethernet36, Ethernet44 and 26 more mtu (32 ports): "
        "1500, the plan assumes at least 4160: why"
    ]


def test_queues_that_several_ports_share_are_one_line_and_others_a_line_each():
    keys = ["Ethernet0|3", "Ethernet0|4", "Ethernet4|3", "Ethernet4|4", "Ethernet8|3"]
    found = [Difference(Place("QUEUE", key, "scheduler"), "x", "y", "why") for key in keys]
    assert lines(found, ["Ethernet0", "Ethernet4", "Ethernet8"]) == [
        "QUEUE|Ethernet0..Ethernet4|3-4 scheduler (2 ports): x, the plan assumes y: why",
        "QUEUE|Ethernet8|3 scheduler: x, the plan assumes y: why",
    ]


def test_dscps_with_several_classes_are_one_line_that_lists_them():
    classes = {"0": "1", "1": "1", "2": "1", "5": "2"}
    found = [Difference(Place("DSCP_TO_TC_MAP", "A", dscp), tc, "0", "why") for dscp, tc in classes.items()]
    assert lines(found, []) == ["DSCP_TO_TC_MAP|A 0-2,5: 1 (0-2), 2 (5), the plan assumes 0: why"]


def test_a_refusal_and_a_difference_of_the_same_field_are_one_line():
    place = Place("SCHEDULER", "A", "type")
    refused = Difference(place, "FAIR", "DWRR|STRICT", "m.yang", refused=True)
    (line,) = lines([refused, Difference(place, "FAIR", "STRICT", "why", ports=("Ethernet0",))], ["Ethernet0"])
    assert line == (
        "SCHEDULER|A type: FAIR, SONiC accepts DWRR|STRICT: m.yang, the plan assumes STRICT: why (1 port: Ethernet0)"
    )


def test_the_name_of_a_port_in_a_reason_does_not_split_a_cause():
    found = [
        Difference(Place("BUFFER_PG", f"{port}|3-4"), f"{port}|3-4", "one row", f"{port}|3 covers it too")
        for port in ("Ethernet1", "Ethernet10")
    ]
    assert lines(found, ["Ethernet1", "Ethernet10"]) == [
        "BUFFER_PG|Ethernet1..Ethernet10|3-4 (2 ports): PORT|3-4, the plan assumes one row: PORT|3 covers it too"
    ]
