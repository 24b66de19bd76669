import pytest

from tests.unit.config.lab import DRAWN, fabric, refused

UNJOINED = """
switches: [{id: l1, role: leaf}, {id: l2, role: leaf}]
hosts:
  - {id: a, nics: [{id: a0, ip: 10.0.0.1, port: "l1:2", gbps: 100}]}
  - {id: b, nics: [{id: b0, ip: 10.0.0.2, port: "l2:2", gbps: 100}]}
"""


def test_leaves_without_a_spine_are_no_fabric():
    assert refused(UNJOINED)[0].startswith("fabric.yaml: switches: no spine: NICs are on several leaves")


def test_a_spine_that_joins_no_two_leaves_is_none():
    text = UNJOINED.replace("role: leaf}]", "role: leaf}, {id: s1, role: spine}]")
    assert "no spine" in refused(text + 'links: [{a: "l1:1", b: "s1:1", gbps: 100}]\n')[0]


def test_one_leaf_needs_no_spine():
    fabric("switches: [{id: l1, role: leaf}]\nhosts: [{id: a, nics: [{id: a0, ip: 10.0.0.1, port: 'l1:2', gbps: 1}]}]")


def test_networks_of_one_leaf_each_need_no_spine():
    fabric(UNJOINED.replace("gbps: 100}]}\n  - {id: b", "gbps: 100, network: storage}]}\n  - {id: b"))


def test_a_spine_that_failed_is_still_a_spine():
    assert fabric(DRAWN + "failed: [s1]").failed.down_switches == {"s1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("switches: [" + "0, " * 20_001 + "]", "switches: the file lists 20001 switches, at most 20000 are allowed"),
        (
            "hosts: [{nics: &n [" + "0, " * 1000 + "]}, " + "{nics: *n}, " * 1000 + "]",
            "hosts: the file lists 1001000 NICs, at most 1000000 are allowed",
        ),
    ],
)
def test_entries_are_counted_before_they_are_read(text, expected):
    assert refused(text) == [f"fabric.yaml: {expected}"]


@pytest.mark.parametrize("rate", ["0", "-1", ".nan", ".inf", "-.inf", "1.0e+30", "1" + "0" * 30, "true", "'100'"])
@pytest.mark.parametrize("key", ["a", "b"])
def test_a_link_without_capacity_is_refused_by_its_key(key, rate):
    place = {"a": "links[0].gbps", "b": "hosts[0].nics[0].gbps"}[key]
    before = {"a": 'b: "s1:1", gbps: 100', "b": 'port: "l1:2", gbps: 100'}[key]
    (line,) = refused(DRAWN.replace(before, before.replace("gbps: 100", f"gbps: {rate}")))
    assert line.startswith(f"fabric.yaml: {place}: ")
