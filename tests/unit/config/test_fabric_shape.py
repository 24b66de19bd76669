import pytest

from tests.unit.config.lab import DRAWN, GENERATE, fabric, refused

SIZES = {"kind": "spine_leaf", "spines": 2, "leaves": 4, "hosts_per_leaf": 2}


def generate(**keys):
    pairs = {**SIZES, **keys}
    return "generate: {" + ", ".join(f"{k}: {v}" for k, v in pairs.items() if v is not None) + "}\n"


def test_an_unknown_key_is_refused_with_the_key_that_was_meant():
    text = GENERATE + 'links:\n- {a: "leaf1:9", b: "spine1:9", gpbs: 100}\n'
    assert refused(text) == ["fabric.yaml: links[0].gpbs: unknown key, did you mean gbps?"]


def test_an_unknown_key_unlike_any_other_is_refused_with_the_known_keys():
    assert refused(GENERATE + "switches: [{id: s9, role: spine, colour: red}]\n") == [
        "fabric.yaml: switches[0].colour: unknown key; the keys here are id, role, datapath_id, rule_budget"
    ]


def test_a_missing_key_is_named():
    assert refused(generate(leaves=None)) == ["fabric.yaml: generate.leaves: missing, it is required"]


@pytest.mark.parametrize(
    ("value", "found"),
    [("'4'", "'4'; leave out the quotes"), ("true", "true"), ("4.0", "4.0"), ("[4]", "a list"), ("{}", "a mapping")],
)
def test_a_count_is_a_whole_number_and_nothing_like_it(value, found):
    assert refused(generate(spines=value)) == [f"fabric.yaml: generate.spines: must be a whole number, is {found}"]


def test_a_count_of_zero_is_refused():
    assert refused(generate(spines=0)) == ["fabric.yaml: generate.spines: must be at least 1, is 0"]


def test_an_unknown_kind_is_refused_with_the_known_ones():
    assert refused(generate(kind="spine_laef")) == [
        "fabric.yaml: generate.kind: must be one of spine_leaf, rail_optimised, clos3, is 'spine_laef', "
        "did you mean spine_leaf?"
    ]


@pytest.mark.parametrize(
    ("gbps", "expected"),
    [
        ("0", "must be more than 0 Gbit/s, is 0; write the rate, such as 100 or 0.02"),
        ("-1.5", "must be more than 0 Gbit/s, is -1.5; write the rate, such as 100 or 0.02"),
        (".nan", "must be a finite number of Gbit/s, is nan"),
        (".inf", "must be a finite number of Gbit/s, is inf"),
        ("true", "must be a number of Gbit/s, is true"),
        ("'100'", "must be a number of Gbit/s, is '100'; leave out the quotes"),
        ("100Gbps", "must be a number of Gbit/s, is '100Gbps'; write the number without a unit"),
        ("1:40", "must be a number of Gbit/s, is '1:40'; write one number: with colons YAML means one of base 60"),
        ("1.0e-10", "must be at least 1 bit/s (0.000000001), is 1e-10"),
        ("4001", "at most 4,000 Gbit/s, is 4001"),
        ("1" + "0" * 400, "at most 4,000 Gbit/s, is over 10^399"),
    ],
)
def test_a_rate_that_is_no_positive_number_is_refused(gbps, expected):
    assert refused(generate(gbps=gbps)) == [f"fabric.yaml: generate.gbps: {expected}"]


@pytest.mark.parametrize(
    ("gbps", "bps"), [("0.02", 20_000_000), ("100", 10**11), ("2.3", 2_300_000_000), ("1.0e-9", 1)]
)
def test_a_rate_becomes_whole_bits_per_second(gbps, bps):
    assert {nic.capacity_bps for nic in fabric(generate(gbps=gbps)).nics} == {bps}


def test_uplinks_have_the_rate_of_the_nics_by_default():
    assert {cable.capacity_bps for cable in fabric(generate(gbps=25)).cables} == {25 * 10**9}
    assert {cable.capacity_bps for cable in fabric(generate(gbps=25, uplink_gbps=400)).cables} == {400 * 10**9}
    assert {nic.capacity_bps for nic in fabric(generate(gbps=25, uplink_gbps=400)).nics} == {25 * 10**9}


def test_rates_are_100_gbps_by_default():
    assert {nic.capacity_bps for nic in fabric().nics} == {10**11}


@pytest.mark.parametrize("version", ["2", "true", "'1'", "1.0"])
def test_another_version_is_refused(version):
    (line,) = refused(f"version: {version}\n" + GENERATE)
    assert line.startswith("fabric.yaml: version: must be 1, is ")


@pytest.mark.parametrize("text", ["name: lab\n", "switches: []\n", "hosts: []\n"])
def test_a_file_without_any_fabric_is_refused(text):
    assert refused(text) == [
        "fabric.yaml: no fabric: neither `generate` nor `switches` is there; docs/files.md shows both"
    ]


def test_an_empty_list_key_is_refused_with_the_remedy():
    assert refused(GENERATE + "failed:\n") == [
        "fabric.yaml: failed: must be a list, is nothing; leave the key out, or write []"
    ]


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 64, '"a\\n"', "ü", "a/b"])
def test_an_id_outside_the_pattern_is_refused(name):
    text = GENERATE + f"switches: [{{id: {name or chr(39) * 2}, role: spine}}]\n"
    assert "is no id: a letter or digit, then up to 62" in refused(text)[0]


def test_an_id_of_63_signs_is_an_id():
    assert fabric(GENERATE + f"switches: [{{id: {'a' * 63}, role: spine}}]\n").switches[-1].id == "a" * 63


@pytest.mark.parametrize(
    "port", ["leaf1", "leaf1:0", "leaf1:01", "leaf1:65280", "leaf1:-1", ":1", "leaf1:1:1", "leaf1:１"]
)
def test_an_invalid_switch_port_is_refused(port):
    text = GENERATE + f'links: [{{a: "{port}", b: "spine1:9", gbps: 1}}]\n'
    assert refused(text) == [
        f"fabric.yaml: links[0].a: '{port}' is no switch port: write \"switch:number\", number from 1 to 65279"
    ]


def nic(**keys):
    pairs = {"id": "x0", "ip": "10.9.0.1", "port": '"leaf1:60"', "gbps": 1, **keys}
    inner = ", ".join(f"{key}: {value}" for key, value in pairs.items() if value is not None)
    return GENERATE + f"hosts: [{{id: x, nics: [{{{inner}}}]}}]\n"


@pytest.mark.parametrize(
    "ip",
    [
        "10.0.0.256",
        "10.0.0",
        "10.0.0.1/8",
        "'::1'",
        "010.0.0.1",
        "0.0.0.1",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ],
)
def test_an_invalid_host_address_is_refused(ip):
    assert refused(nic(ip=ip))[0].startswith("fabric.yaml: hosts[0].nics[0].ip: ")


@pytest.mark.parametrize(
    "mac",
    ["'02:00:00:00:00'", "'02:00:00:00:00:0g'", "'01:00:5e:00:00:01'", "'00:00:00:00:00:00'", "'12:_3:00:00:00:01'"],
)
def test_an_invalid_mac_is_refused(mac):
    assert refused(nic(mac=mac))[0].startswith("fabric.yaml: hosts[0].nics[0].mac: ")


def test_an_unquoted_mac_that_pyyaml_reads_as_a_number_is_a_mac():
    assert fabric(nic(mac="12:00:00:00:00:01")).nics[-1].mac == 0x120000000001


def test_an_unknown_network_is_refused():
    assert "must be one of compute, storage, business, management" in refused(nic(network="comptue"))[0]


@pytest.mark.parametrize("key", ["id", "ip", "port", "gbps"])
def test_what_a_nic_requires_is_required(key):
    assert refused(nic(**{key: None})) == [f"fabric.yaml: hosts[0].nics[0].{key}: missing, it is required"]


def test_what_a_nic_lacks_is_reported_beside_what_is_wrong_elsewhere():
    assert refused(nic(port="leaf1", gbps=None) + "failed: 3\n") == [
        "fabric.yaml: hosts[0].nics[0].port: 'leaf1' is no switch port: write \"switch:number\", "
        "number from 1 to 65279",
        "fabric.yaml: hosts[0].nics[0].gbps: missing, it is required",
        "fabric.yaml: failed: must be a list, is 3",
    ]


def test_a_host_without_nics_is_refused():
    assert refused(GENERATE + "hosts: [{id: x, nics: []}]\n") == ["fabric.yaml: hosts[0].nics: must not be empty"]


def test_datapath_ids_may_be_written_in_hexadecimal():
    text = DRAWN.replace("{id: s1, role: spine}", "{id: s1, role: spine, datapath_id: 0x101, rule_budget: 4000}")
    spine = fabric(text).switch_by_id["s1"]
    assert (spine.datapath_id, spine.rule_budget) == (0x101, 4000)


@pytest.mark.parametrize("number", ["0", "-1", str(2**64), "'0x101'"])
def test_a_datapath_id_is_a_whole_number_of_64_bits(number):
    text = DRAWN.replace("{id: s1, role: spine}", f"{{id: s1, role: spine, datapath_id: {number}}}")
    assert refused(text)[0].startswith("fabric.yaml: switches[0].datapath_id: must be ")
