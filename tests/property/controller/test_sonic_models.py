"""What SONiC's models accept: every export fits the facts, and `refusals` names exactly what they refuse."""

import copy
from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.sonic.config_db import ConfigDb
from heddle.controller.sonic.export import PortNames, config_tables, switch_ports
from heddle.controller.sonic.refusals import refusals
from tests.oracles.sonic_schema import TABLES, schema_violations
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3, rails, spine_leaf
from tests.support.fabrics.sonic_switch import with_the_hardware_s_own

RATES_MBPS = [10, 100, 1_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000]


def mixed_rates(fabric, rates_mbps):
    """Return a fabric whose cables and NICs have these rates in turn."""
    rates = cycle(rate * 10**6 for rate in rates_mbps)
    cables, nics = ([replace(each, capacity_bps=next(rates)) for each in of] for of in (fabric.cables, fabric.nics))
    return replace(fabric, cables=tuple(cables), nics=tuple(nics))


FABRICS = {
    "2 tiers": spine_leaf(2, 4, 8),
    "3 tiers": clos3(2, 2, 2, 4, bps=400 * 10**9),
    "rails": rails(bps=100 * 10**9),
    "mixed rates": mixed_rates(spine_leaf(4, 4, 16), RATES_MBPS),
}
SRV6_TABLES = {"SRV6_MY_LOCATORS", "SRV6_MY_SIDS"}
TABLES_OF_AN_EXPORT = set(TABLES) - {"SWITCH_TRIMMING", *SRV6_TABLES}


def refused(config):
    return {tuple(each.place) for each in refusals(ConfigDb(config))}


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_every_table_key_and_field_of_an_export_fits_the_facts_of_sonic_s_models(fabric):
    for speeds in switch_ports(fabric).values():
        tables = config_tables(speeds, PortNames(), 40)
        assert set(tables) == TABLES_OF_AN_EXPORT
        assert schema_violations(with_the_hardware_s_own(tables)) == set()
        assert refused(with_the_hardware_s_own(tables)) == set()


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_what_an_export_lacks_of_a_whole_config_db_is_the_lanes_of_its_ports(fabric):
    for speeds in switch_ports(fabric).values():
        tables = config_tables(speeds, PortNames(), 40)
        assert schema_violations(tables) == {("PORT", port, "lanes") for port in tables["PORT"]}
        assert refused(tables) == set()


def test_a_port_without_lanes_among_ports_with_them_is_refused():
    config = with_the_hardware_s_own(config_tables({1: 100_000, 2: 100_000}, PortNames(), 40))
    del config["PORT"]["Ethernet4"]["lanes"]
    assert refused(config) == schema_violations(config) == {("PORT", "Ethernet4", "lanes")}
    config["DEVICE_METADATA"] = {"localhost": {"switch_type": "chassis-packet"}}
    assert refused(config) == set()


NUMBERS = [0, 1, 7, 8, 9, 15, 16, 63, 64, 99, 100, 101, 255, 256, 5_001, 9_217, 60_001, 2**32, 2**64 - 1, 2**64, -8, -9]
TEXTS = ["", "absent", "HEDDLE", "Ethernet0", "global", "GLOBAL", "NULL", "True", "3,4", "3,8", "None", "x" * 33, "-x"]
PARTS = ["Ethernet0", "Ethernet9", "CPU", "global", "GLOBAL", "HEDDLE", "-x", "3", "2-4", "8", "16"]


def values(kind):
    """Values that a kind accepts, values at its edges, and others."""
    low, high = kind.get("range", (0, 0))
    edges = [str(number) for number in (low - 1, low, high, high + 1, *NUMBERS)]
    scalar = st.sampled_from([*kind.get("enum", ()), *kind.get("or", ()), *edges, *TEXTS])
    items = st.sampled_from([*kind.get("enum", ()), *kind.get("or", ()), str(high or 1), "absent"])
    return st.lists(items, max_size=3) if kind.get("list") else scalar


@st.composite
def changes(draw):
    """One change: a field that is set or removed, or a row with another key."""
    table = draw(st.sampled_from(sorted(TABLES)))
    model = TABLES[table]
    kinds = list(model["keys"].values())
    row = draw(st.integers(0, 30))
    match draw(st.sampled_from(["set", "set", "set", "remove", "key", "unknown"])):
        case "remove":
            return table, row, "", draw(st.integers(0, 9))
        case "key":
            parts = st.lists(st.sampled_from(PARTS), min_size=len(kinds) - 1, max_size=len(kinds) + 1)
            return table, row, "|".join(draw(parts)), None
        case "unknown":
            return table, row, "no_such_field", "1"
    if "entry" in model:
        name, kind = model["entry"].values()
        return table, row, draw(values(name)), draw(values(kind))
    field = draw(st.sampled_from(sorted(model["fields"])))
    return table, row, field, draw(values(model["fields"][field]))


def apply(config, change):
    table, number, field, value = change
    rows = config[table]
    key = sorted(rows)[number % len(rows)]
    if value is None:
        rows.setdefault(field, rows.pop(key))
    elif not isinstance(value, int):
        rows[key][field] = value
    elif rows[key]:
        del rows[key][sorted(rows[key])[value % len(rows[key])]]


@hypothesis_settings(max_examples=examples(200), deadline=None)
@given(st.lists(changes(), min_size=1, max_size=4))
def test_refusals_names_exactly_what_the_facts_refuse(drawn):
    config = with_the_hardware_s_own(config_tables({1: 10, 2: 100_000}, PortNames(), 40))
    config["SWITCH_TRIMMING"] = {"GLOBAL": {"size": "128", "dscp_value": "20", "queue_index": "0"}}
    config |= {
        "SRV6_MY_LOCATORS": {"HEDDLE": {"prefix": "fcbb:0:1::"}},
        "SRV6_MY_SIDS": {"HEDDLE|fcbb:0:e001::/48": {"action": "uA", "interface": "Ethernet0", "adj": "fe80::1"}},
    }
    for change in drawn:
        apply(config, change)
    if not any("lanes" in row for row in config["PORT"].values()):
        return  # tables to be loaded on top of a switch's own
    assert refused(config) == schema_violations(config)


def test_a_refusal_says_what_is_accepted_and_by_which_model():
    config = with_the_hardware_s_own(config_tables({1: 100_000}, PortNames(), 40))
    config["PORT"]["Ethernet0"]["mtu"] = "9500"
    assert [str(each) for each in refusals(ConfigDb(config))] == [
        "PORT|Ethernet0 mtu: 9500, SONiC accepts 68..9216: sonic-port.yang"
    ]


def test_older_spellings_are_not_refused():
    config = with_the_hardware_s_own(config_tables({1: 100_000, 2: 100_000}, PortNames(), 40))
    config["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"] = "[DSCP_TO_TC_MAP|HEDDLE]"
    config["QUEUE"]["Ethernet0,Ethernet4|5"] = {"scheduler": "[SCHEDULER|HEDDLE_SHARED]"}
    assert refused(config) == set()
    config["QUEUE"]["Ethernet0,Ethernet8|7"] = {"scheduler": "[WRED_PROFILE|HEDDLE_100000M]"}
    assert refused(config) == {
        ("QUEUE", "Ethernet0,Ethernet8|7", ""),
        ("QUEUE", "Ethernet0,Ethernet8|7", "scheduler"),
    }


def test_queues_of_a_chassis_whose_keys_name_host_and_asic_are_not_checked():
    config = with_the_hardware_s_own(config_tables({1: 100_000}, PortNames(), 40))
    config["DEVICE_METADATA"] = {"localhost": {"switch_type": "voq", "asic_name": "asic0"}}
    for table in ("QUEUE", "BUFFER_QUEUE"):
        config[table] = {f"lc1|asic0|{key}": copy.deepcopy(row) for key, row in config[table].items()}
    assert refused(config) == set()


def planted(table, key, **fields):
    config = with_the_hardware_s_own(config_tables({1: 100_000, 2: 100_000}, PortNames(), 40))
    config[table][key] |= fields
    return config


@pytest.mark.parametrize(
    ("table", "key", "fields"),
    [
        ("WRED_PROFILE", "HEDDLE_100000M", {"ecn_green_min_threshold": "20000"}),
        ("WRED_PROFILE", "HEDDLE_100000M", {"green_ect_max_threshold": "80000"}),
        ("SWITCH_HASH", "GLOBAL", {"ecmp_hash_ipv4_rdma": ["SRC_IP", "DST_IP"]}),
        ("PORT", "Ethernet4", {"dhcp_servers": ["10.7.0.1"]}),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_fields_of_branches_that_are_not_merged_are_refused(table, key, fields):
    config = planted(table, key, **fields)
    assert refused(config) == schema_violations(config) == {(table, key, field) for field in fields}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"pir": "9"}, {"pir"}),
        ({"pir": "9", "cir": "0"}, {"pir"}),
        ({"pir": "9", "cir": "10"}, {"pir"}),
        ({"pir": "9", "cir": "9"}, set()),
        ({"cir": "9"}, set()),
        ({"pir": "9", "pbs": "1"}, {"pir"}),
    ],
    ids=str,
)
def test_a_peak_rate_needs_a_committed_rate_that_is_not_above_it(fields, wrong):
    config = planted("SCHEDULER", "HEDDLE_STRICT", **fields)
    assert refused(config) == schema_violations(config) == {("SCHEDULER", "HEDDLE_STRICT", field) for field in wrong}


def test_a_refused_peak_rate_names_the_change_that_accepts_it():
    (found,) = refusals(ConfigDb(planted("SCHEDULER", "HEDDLE_STRICT", pir="9")))
    assert found.reason == "sonic-scheduler.yang before sonic-buildimage#29314 (September 2026)"


@pytest.mark.parametrize(
    ("model", "fields", "accepted"),
    [
        ("dynamic", {"percentage": "60"}, True),
        ("dynamic", {"percentage": "60", "size": "90000"}, False),
        ("dynamic", {"percentage": "256"}, False),
        ("traditional", {"percentage": "60"}, False),
        (None, {"percentage": "60"}, False),
    ],
    ids=str,
)
def test_a_pool_s_percentage_needs_the_dynamic_buffer_model_and_no_size(model, fields, accepted):
    config = planted("BUFFER_POOL", "egress_lossy_pool", **fields)
    if model:
        config["DEVICE_METADATA"] = {"localhost": {"buffer_model": model}}
    place = ("BUFFER_POOL", "egress_lossy_pool", "percentage")
    assert refused(config) == schema_violations(config) == (set() if accepted else {place})


def test_a_percentage_in_tables_to_be_loaded_on_top_of_a_switch_s_own_is_not_refused():
    config = config_tables({1: 100_000}, PortNames(), 40)
    config["BUFFER_POOL"]["egress_lossy_pool"]["percentage"] = "60"
    assert refused(config) == set()
