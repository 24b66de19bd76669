"""One fault each: its sentence, and which cables are wrong, missing or unknown by it."""

import pytest

from heddle.controller.cabling.diagnosis import diagnose
from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.fabric import PortRef
from tests.support.fabrics.planted_cabling import PlantedCabling
from tests.support.fabrics.small_fabrics import rails, spine_leaf

FABRIC = spine_leaf(4, 6, 12)
LEAF2 = [*(f"leaf2:{number}" for number in range(1, 7)), *(f"spine{number}:2" for number in range(1, 5))]


def port(text):
    switch, _, number = text.partition(":")
    return PortRef(switch, int(number))


def neighbour(text):
    if ":" in text:
        return Neighbour(switch=port(text).switch, port=port(text).number)
    return Neighbour(switch="", port=None, nic=text) if text.startswith("h") else Neighbour(switch=text, port=None)


def diagnosis(hears=(), silent=(), dark=(), fabric=FABRIC):
    """Diagnose a sound fabric but for what some ports hear, and those that hear nothing or have no carrier."""
    heard, up = PlantedCabling(fabric, 0).hearings()
    for text, far in dict(hears).items():
        heard[port(text)] = neighbour(far)
        up.add(port(text))
    for text in silent:
        del heard[port(text)]
    return diagnose(fabric, heard, up - set(map(port, dark)))


def both(*pairs):
    return {end: far for pair in pairs for end, far in (pair, pair[::-1])}


CASES = {
    "a NIC's plug and another's": (
        {"hears": {"leaf1:5": "h4-n0", "leaf2:6": "h1-n0"}},
        "exchanged", "leaf1:5 and leaf2:6 are exchanged, or h1-n0 and h4-n0 at the other ends",
        {"h1-n0>leaf1:5", "h4-n0>leaf2:6"},
    ),
    "two plugs of one switch": (
        {"hears": both(("leaf3:1", "spine2:3"), ("leaf3:2", "spine1:3"))},
        "exchanged", "leaf3:1 and leaf3:2 are exchanged", {"leaf3:1>spine1:3", "leaf3:2>spine2:3"},
    ),
    "two plugs of two leaves": (
        {"hears": both(("leaf3:1", "spine2:4"), ("leaf4:2", "spine1:3"))},
        "exchanged", "leaf3:1 and leaf4:2 are exchanged, or spine1:3 and spine2:4 at the other ends",
        {"leaf3:1>spine1:3", "leaf4:2>spine2:4"},
    ),
    "a plug in a spare port": (
        {"hears": both(("leaf3:9", "spine2:3")), "silent": ["leaf3:2"], "dark": ["leaf3:2"]},
        "moved", "the plug in leaf3:9 belongs in leaf3:2", {"leaf3:2>spine2:3"},
    ),
    "fibres of two cables": (
        {"hears": {"leaf1:1": "spine1:1", "spine1:1": "leaf2:1", "leaf2:1": "spine1:2", "spine1:2": "leaf1:1"}},
        "crossed", "fibres are crossed: leaf1:1 hears spine1:1, spine1:1 hears leaf2:1, leaf2:1 hears spine1:2 and "
        "spine1:2 hears leaf1:1", {"leaf1:1>spine1:1", "leaf2:1>spine1:2"},
    ),
    "a loop in one port": (
        {"hears": {"leaf1:1": "leaf1:1"}, "silent": ["spine1:1"]},
        "crossed", "fibres are crossed: leaf1:1 hears itself", {"leaf1:1>spine1:1"},
    ),
    "a switch that the fabric lacks": (
        {"hears": {"leaf2:1": "sw-x:7"}, "silent": ["spine1:2"]},
        "stranger", "sw-x, which the fabric lacks, is heard at leaf2:1 (expected: spine1:2)", {"leaf2:1>spine1:2"},
    ),
    "a host that the fabric lacks": (
        {"hears": {"leaf2:5": "hx"}},
        "stranger", "hx, which the fabric lacks, is heard at leaf2:5 (expected: h3-n0)", {"h3-n0>leaf2:5"},
    ),
    "an unknown port of another switch": (
        {"hears": {"leaf2:1": "spine3"}, "silent": ["spine1:2"]},
        "stranger", "spine3, a port of it that is not known, is heard at leaf2:1 (expected: spine1:2)",
        {"leaf2:1>spine1:2"},
    ),
    "a switch in the place of another": (
        {"hears": {f"spine{n}:2": f"leaf99:{n}" for n in range(1, 5)}, "silent": LEAF2[:6]},
        "nodes", "leaf99 is in the place of leaf2", {f"leaf2:{n}>spine{n}:2" for n in range(1, 5)},
    ),
    "three spines that took each other's place": (
        {"hears": both(*((f"leaf{n}:{s}", f"spine{s % 3 + 1}:{n}") for n in range(1, 7) for s in (1, 2, 3)))},
        "nodes", "spine1 is in the place of spine3, spine3 is in the place of spine2 and spine2 is in the place of "
        "spine1",
        {f"leaf{n}:{s}>spine{s}:{n}" for n in range(1, 7) for s in (1, 2, 3)},
    ),
    "a cable between spare ports": (
        {"hears": both(("leaf1:20", "leaf2:20"))},
        "extra", "leaf1:20 and leaf2:20 are joined by a cable that the fabric lacks", set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_one_cause_and_accuses_its_own_cables_alone(case):
    planted, kind, text, wrong = CASES[case]
    found = diagnosis(**planted)
    assert [(cause.kind.value, cause.text) for cause in found.causes] == [(kind, text)]
    assert found.causes[0].ports
    assert (found.wrong, found.missing) == (frozenset(wrong), frozenset())


CLAIMS = {
    "a NIC that two ports hear": ({"leaf2:5": "h1-n0"}, (), "h1-n0 is heard at leaf1:5 and leaf2:5", {"h3-n0>leaf2:5"}),
    "a stale neighbour": ({"leaf2:1": "spine1:1"}, ("spine1:2",), "spine1:1 is heard at leaf1:1 and leaf2:1",
                          {"leaf2:1>spine1:2"}),
    "a host that claims to be a spine": ({"leaf2:5": "spine1:1"}, (), "spine1:1 is heard at leaf1:1 and leaf2:5",
                                         {"h3-n0>leaf2:5"}),
    "a stale neighbour whose far end hears the port": (
        {"leaf2:1": "spine1:1"}, (), "spine1:1 is heard at leaf1:1 and leaf2:1", set()),
}  # fmt: skip


@pytest.mark.parametrize("case", CLAIMS)
def test_a_port_that_two_hear_is_named_and_nothing_is_accused(case):
    hears, silent, text, unknown = CLAIMS[case]
    found = diagnosis(hears, silent)
    assert [(cause.kind, cause.text) for cause in found.causes] == [
        ("claimed", f"{text}: only one of them can be right")
    ]
    assert (found.wrong, found.missing, found.unknown) == (frozenset(), frozenset(), unknown)


def test_a_switch_without_any_carrier_is_one_cause():
    found = diagnosis(silent=LEAF2, dark=LEAF2)
    assert [cause.text for cause in found.causes] == ["leaf2: no carrier on any of its 6 cables"]
    assert (len(found.missing), found.wrong, found.unknown) == (6, frozenset(), frozenset())


def test_a_silent_switch_with_carrier_is_unknown():
    found = diagnosis(silent=LEAF2)
    assert (found.causes, len(found.unknown)) == ((), 6)


def test_a_port_without_carrier_hears_nothing_and_one_dark_end_is_enough():
    found = diagnosis({"leaf1:1": "spine3:3"}, ["spine1:1"], ["leaf1:1"])
    assert [cause.text for cause in found.causes] == ["leaf1:1 and spine1:1: no cable seen"]
    assert found.missing == {"leaf1:1>spine1:1"}


def test_a_plug_in_a_free_port_is_found_where_only_the_carriers_of_used_ports_are_known():
    heard, up = PlantedCabling(FABRIC, 0).hearings()
    heard[port("leaf2:9")] = heard.pop(port("leaf2:5"))
    found = diagnose(FABRIC, heard, up - {port("leaf2:5")})
    assert [cause.text for cause in found.causes] == ["the plug in leaf2:9 belongs in leaf2:5"]


def test_without_carriers_nothing_is_missing():
    heard, _ = PlantedCabling(FABRIC, 0).hearings()
    del heard[port("leaf1:1")], heard[port("spine1:1")]
    found = diagnose(FABRIC, heard)
    assert not found.causes
    assert found.unknown == {"leaf1:1>spine1:1"}


def test_two_exchanges_on_leaves_are_not_called_an_exchange_of_two_small_spines():
    found = diagnosis(
        both(*((f"leaf{leaf}:{port}", f"spine{3 - port}:{leaf}") for leaf in (2, 3) for port in (1, 2))),
        fabric=spine_leaf(2, 3, 3),
    )
    assert [cause.text for cause in found.causes] == [
        "leaf2:1 and leaf2:2 are exchanged", "leaf3:1 and leaf3:2 are exchanged"
    ]  # fmt: skip


WIDE = spine_leaf(8, 4, 0)
RUNS = {
    "one port too far": (
        {f"leaf3:{n}": f"leaf3:{n % 6 + 1}" for n in range(1, 7)}, (),
        "shifted", "the plugs of leaf3:1 to leaf3:6 are shifted: the one in leaf3:6 belongs in leaf3:5",
    ),
    "two ports too near, three times": (
        {f"leaf3:{n}": f"leaf3:{(n - 4) % 5 + 2}" for n in range(2, 7)}, (),
        "shifted", "the plugs of leaf3:2 to leaf3:6 are shifted: the one in leaf3:2 belongs in leaf3:4",
    ),
    "one port too far, and one of them silent": (
        {f"leaf3:{n}": f"leaf3:{n % 8 + 1}" for n in range(1, 9)}, ("leaf3:4", "spine3:3"),
        "shifted", "the plugs of leaf3:1 to leaf3:8 are shifted: the one in leaf3:8 belongs in leaf3:7",
    ),
    "a run beside another": (
        {f"leaf3:{n}": f"leaf3:{n + 4 if n < 4 else n - 4}" for n in (1, 2, 3, 5, 6, 7)}, (),
        "blocks", "leaf3:1 to leaf3:3 and leaf3:5 to leaf3:7 are exchanged",
    ),
    "a run of another leaf": (
        both(*((f"leaf1:{n}", f"leaf2:{n}") for n in range(3, 7))), (),
        "blocks", "leaf1:3 to leaf1:6 and leaf2:3 to leaf2:6 are exchanged",
    ),
    "a run of another leaf, turned": (
        both(*((f"leaf1:{n}", f"leaf2:{9 - n}") for n in range(3, 7))), (),
        "reversed", "leaf1:3 to leaf1:6 and leaf2:6 to leaf2:3 are exchanged, in reverse order",
    ),
    "turned": (
        {f"leaf3:{n}": f"leaf3:{9 - n}" for n in range(1, 9)}, (),
        "reversed", "the plugs of leaf3:1 to leaf3:8 are in reverse order",
    ),
    "turned, with a middle": (
        {f"leaf3:{n}": f"leaf3:{8 - n}" for n in range(1, 8)}, (),
        "reversed", "the plugs of leaf3:1 to leaf3:7 are in reverse order",
    ),
    "in pairs": (
        {f"leaf3:{n}": f"leaf3:{n + 1 if n % 2 else n - 1}" for n in range(1, 7)}, (),
        "pairs", "the plugs of leaf3:1 to leaf3:6 are exchanged in pairs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNS)
def test_a_run_of_ports_is_one_cause(case):
    places, silent, kind, text = RUNS[case]
    cabling = PlantedCabling(WIDE, 0)
    cabling.move({port(end): port(place) for end, place in places.items()})
    heard, up = cabling.hearings()
    for end in silent:
        del heard[port(end)]
    found = diagnose(WIDE, heard, up)
    assert [(cause.kind.value, cause.text) for cause in found.causes] == [(kind, text)]
    assert set(map(str, found.causes[0].ports)) >= set(places)
    assert len(found.causes[0].cables) >= len(found.wrong)


def test_a_right_plug_within_a_run_ends_it():
    cabling = PlantedCabling(WIDE, 0)
    cabling.move({port(f"leaf3:{n}"): port(f"leaf3:{n + 4 if n < 5 else n - 4}") for n in (1, 3, 4, 5, 7, 8)})
    found = diagnose(WIDE, *cabling.hearings())
    assert [cause.text for cause in found.causes] == [
        f"leaf3:{n} and leaf3:{n + 4} are exchanged" for n in (1, 3, 4)
    ]  # fmt: skip


def test_a_stranger_at_many_ports_is_one_cause_that_names_the_first_of_them():
    found = diagnosis({f"leaf{n}:5": "sw-x" for n in range(1, 7)})
    (cause,) = found.causes
    assert cause.text.startswith("sw-x, which the fabric lacks, is heard at leaf1:5 (expected: h1-n0), leaf2:5 ")
    assert cause.text.endswith("leaf4:5 (expected: h7-n0) and 2 more")
    assert (len(cause.cables), len(cause.ports)) == (6, 6)


def test_port_numbers_out_of_all_range_cost_no_time():
    hears = both(*((f"leaf3:{10**15 - n}", f"spine{n}:3") for n in range(1, 5)), ("leaf3:1", "spine4:2"))
    found = diagnosis(hears, ["leaf3:2", "leaf3:3", "leaf3:4", "leaf2:4"])
    assert found.wrong == {"leaf2:4>spine4:2", *(f"leaf3:{n}>spine{n}:3" for n in range(1, 5))}


def test_hosts_that_took_each_others_place_are_one_cause_at_their_leaf_ports():
    found = diagnosis({"leaf1:3": "h2-n0", "leaf2:3": "h2-n1", "leaf1:4": "h1-n0", "leaf2:4": "h1-n1"}, fabric=rails())
    (cause,) = found.causes
    assert cause.text == "h1 and h2 are exchanged: each is in the other's place, or has its name"
    assert sorted(map(str, cause.ports)) == ["leaf1:3", "leaf1:4", "leaf2:3", "leaf2:4"]
    assert cause.nodes == ("h1", "h2")


def test_of_an_exchange_beside_a_missing_cable_both_are_named():
    found = diagnosis(
        both(("leaf3:1", "spine2:3"), ("leaf3:2", "spine1:3")), ["leaf4:1", "spine1:4"], ["leaf4:1", "spine1:4"]
    )
    assert [cause.kind for cause in found.causes] == ["exchanged", "missing"]
    assert found.moves == 2


def test_a_fault_of_an_exchanged_switch_is_found_behind_the_exchange():
    cabling = PlantedCabling(FABRIC, 0)
    cabling.move({port(f"leaf1:{n}"): port(f"leaf2:{n}") for n in range(1, 7)}
                 | {port(f"leaf2:{n}"): port(f"leaf1:{n}") for n in range(1, 7)})  # fmt: skip
    cabling.move({port("leaf1:1"): port("leaf1:3"), port("leaf1:3"): port("leaf1:1")})
    found = diagnose(FABRIC, *cabling.hearings())
    assert [cause.kind for cause in found.causes] == ["nodes", "exchanged"]
    assert found.causes[1].text == "leaf2:1 and leaf2:3 are exchanged"
