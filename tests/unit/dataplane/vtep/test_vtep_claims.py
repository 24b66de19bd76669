"""Endpoints claimed by interface aliases; options take precedence."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.vtep.claims import SIGN, claimed, endpoint_of

RED, BLUE = (100, 0x0200_0000_0001), (200, 0x0200_0000_0001)
RED_ALIAS, BLUE_ALIAS = f"{SIGN}100/02:00:00:00:00:01", f"{SIGN}200/02:00:00:00:00:01"


def link(name, alias=None):
    return {"ifname": name} | ({"ifalias": alias} if alias is not None else {})


def test_an_alias_names_an_endpoint_and_foreign_aliases_are_ignored():
    links = [link("lo"), link("tap1", RED_ALIAS), link("tap2", BLUE_ALIAS.upper().replace("HEDDLE", "heddle"))]
    assert claimed([*links, link("eth0", "uplink to r1")], {}) == ({RED: "tap1", BLUE: "tap2"}, [])


def test_a_second_claim_of_an_endpoint_is_reported_and_ignored():
    found, (line,) = claimed([link("b", RED_ALIAS), link("a", RED_ALIAS)], {})
    assert (found, line) == ({RED: "a"}, "b: its endpoint 100/02:00:00:00:00:01 is a's already")


def test_options_take_precedence():
    found, lines = claimed([link("tap1", RED_ALIAS), link("mine", BLUE_ALIAS)], {RED: "mine"})
    assert found == {RED: "mine"}
    assert [line.split(":")[0] for line in lines] == ["mine", "tap1"]


@given(st.text(max_size=30))
def test_a_malformed_claim_is_one_line(text):
    if endpoint_of(text) is None:
        found, lines = claimed([link("tap1", SIGN + text)], {})
        assert (found, len(lines), len(lines[0].splitlines())) == ({}, 1, 1)


@given(st.lists(st.sampled_from([RED_ALIAS, BLUE_ALIAS, "", "heddle:0/02:00:00:00:00:01", "heddle:x"]), max_size=6))
def test_no_interface_has_two_endpoints_and_no_endpoint_two_interfaces(aliases):
    links = [link(f"tap{number}", alias) for number, alias in enumerate(aliases)]
    for configured in ({}, {RED: "tap1"}, {BLUE: "tap0", RED: "other"}):
        found, _ = claimed(links, configured)
        assert len(set(found.values())) == len(found)
        assert configured.items() <= found.items()
