"""From one NIC a leaf, pings name both of any two exchanged cables as one cause, and accuse no sound fabric."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.cabling.cause import CauseKind
from heddle.controller.cabling.sources.pinged import PingedFrom, diagnose_pings, parallel_cables
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.srv6_pings import Pings
from tests.oracles.usid_walk import walk
from tests.property.controller.test_srv6_paths import srv6_fabric, world
from tests.property.controller.test_srv6_pings import THREE, TWO, exchanged

DOUBLE = TWO | {"links_per_spine": 2}
SHAPES = {"two tiers": TWO, "double cables": DOUBLE, "three tiers": THREE}


def pinged(fabric, around):
    """Ping from the first NIC of each leaf in a world; return the diagnosis, and how many packets were sent."""
    found, sent = [], 0
    for nics in fabric.nics_of_leaf.values():
        nic = nics[0]

        def send(addresses, nic=nic):
            nonlocal sent
            sent += len(addresses)
            return [one for one in addresses if walk(around, nic.port.switch, ipv6_text(one))[1] == nic.id]

        found.append(PingedFrom(nic.id, *Pings(fabric, nic).check(send)))
    return diagnose_pings(fabric, found), sent


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_sound_fabric_has_no_cause_and_only_parallel_cables_stay_unknown(shape):
    fabric = srv6_fabric(shape)
    diagnosis, sent = pinged(fabric, world(fabric))
    assert (diagnosis.causes, diagnosis.wrong) == ((), frozenset())
    assert diagnosis.unknown == parallel_cables(fabric)
    if shape is not THREE:
        assert sent == len(fabric.cables)


def three_switches(fabric, data):
    """Draw two cables whose ends are on three switches at least."""
    one = data.draw(st.sampled_from(fabric.cables))
    ends = {one.lower.switch, one.upper.switch}
    return one, data.draw(
        st.sampled_from([each for each in fabric.cables if {each.lower.switch, each.upper.switch} != ends])
    )


@pytest.mark.parametrize("shape", [TWO, DOUBLE], ids=["two tiers", "double cables"])
@given(st.data())
def test_two_exchanged_cables_are_one_cause_that_names_both(shape, data):
    fabric = srv6_fabric(shape)
    one, other = three_switches(fabric, data)
    diagnosis, _ = pinged(fabric, exchanged(fabric, one.lower, other.lower))
    assert [(cause.kind, set(cause.cables)) for cause in diagnosis.causes] == [
        (CauseKind.EXCHANGED, {one.id, other.id})
    ]
    assert diagnosis.wrong == {one.id, other.id}


@pytest.mark.parametrize("shape", [THREE, THREE | {"pods": 3, "leaves": 3}], ids=["two pods", "three pods"])
@given(data=st.data())
def test_two_exchanged_cables_of_three_tiers_are_both_named_and_one_cause_within_a_tier(shape, data):
    fabric = srv6_fabric(shape)
    one, other = three_switches(fabric, data)
    diagnosis, _ = pinged(fabric, exchanged(fabric, one.lower, other.lower))
    assert {cable for cause in diagnosis.causes for cable in cause.cables} == {one.id, other.id}
    assert diagnosis.wrong == {one.id, other.id}
    if len({fabric.switch_by_id[each.upper.switch].role for each in (one, other)}) == 1:
        assert [cause.kind for cause in diagnosis.causes] == [CauseKind.EXCHANGED]


def test_a_cable_that_loses_pings_is_a_cause_and_not_unknown():
    fabric = srv6_fabric(TWO)
    tables, cables, nics = world(fabric)
    del tables["spine3"]["e002"]
    diagnosis, _ = pinged(fabric, (tables, cables, nics))
    lost = fabric.up_choices["leaf2"][2].id
    assert [(cause.kind, cause.cables) for cause in diagnosis.causes] == [(CauseKind.LOST, (lost,))]
    assert diagnosis.wrong == {lost}
    assert lost not in diagnosis.unknown


OTHERS = [(TWO, "un"), (THREE, "un"), (TWO, "cable"), (DOUBLE, "cable"), (THREE, "cable")]


@pytest.mark.parametrize(("shape", "style"), OTHERS, ids=["un", "un, three", "cable", "cable, double", "cable, three"])
@given(st.data())
def test_in_the_other_styles_both_of_two_exchanged_cables_are_named_and_a_sound_fabric_has_none(shape, style, data):
    fabric = srv6_fabric(shape, style)
    assert pinged(fabric, world(fabric))[0].causes == ()
    one, other = three_switches(fabric, data)
    diagnosis, _ = pinged(fabric, exchanged(fabric, one.lower, other.lower))
    assert {cable for cause in diagnosis.causes for cable in cause.cables} == {one.id, other.id}


@pytest.mark.parametrize("style", ["ua", "cable"])
def test_two_exchanged_cables_between_the_same_switches_are_not_distinguished(style):
    fabric = srv6_fabric(DOUBLE, style)
    one, other = fabric.up_choices["leaf1"][:2]
    assert one.upper.switch == other.upper.switch
    diagnosis, _ = pinged(fabric, exchanged(fabric, one.lower, other.lower))
    assert diagnosis.causes == ()
    assert {one.id, other.id} <= diagnosis.unknown
