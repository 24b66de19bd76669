"""What differs between two fabrics: by ids, what of it running flows could notice, and what looks renamed."""

from dataclasses import replace

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric, Role, SteeredBy
from heddle.controller.model.fabric_change import Changed, FabricChange, changes_between
from tests.support.fabrics.grown_files import LEAF_MORE, PARALLEL, SLOWER, SPINE_MORE, SPINES_BEYOND, YARD


def fabric_of(text: str) -> Fabric:
    return parse_fabric(text, "yard.yaml")


def change_of(before: str, after: str) -> FabricChange:
    return changes_between(fabric_of(before), fabric_of(after))


def test_a_fabric_is_the_same_as_itself_in_any_order_of_its_parts():
    fabric = fabric_of(YARD)
    turned = replace(fabric, cables=fabric.cables[::-1], nics=fabric.nics[::-1], switches=fabric.switches[::-1])
    assert changes_between(fabric, turned).is_none
    assert changes_between(fabric, turned).harms == ()


def test_a_spine_more_within_the_room_adds_and_harms_nothing():
    found = change_of(YARD, SPINE_MORE)
    assert found.added.switches == ("spine3",)
    assert found.added.cables == tuple(f"leaf{leaf}:9>spine3:{leaf}" for leaf in (1, 2, 3))
    assert found.harms == ()


def test_a_third_cable_beside_two_harms_nothing_and_the_way_back_does():
    assert change_of(*PARALLEL).harms == ()
    assert change_of(*PARALLEL[::-1]).harms == ("1 cable gone",)


def test_a_slower_cable_harms_and_a_faster_one_does_not():
    found = change_of(YARD, SLOWER)
    assert found.rates == (Changed("leaf3:2>spine2:3", 40 * 10**9, 20 * 10**9),)
    assert found.harms == ("1 cable or NIC slower",)
    assert change_of(SLOWER, YARD).harms == ()


def test_uplinks_beyond_the_room_are_named():
    assert change_of(YARD, SPINES_BEYOND).harms == (
        "leaf1 has 5 uplinks, and the ports of running jobs have room for 4",
    )


def test_a_cable_at_a_port_before_others_takes_their_places():
    before, after = map(fabric_of, (YARD, SPINE_MORE))
    early = replace(
        after,
        cables=tuple(
            replace(each, lower=each.lower._replace(number=0)) if each.upper.switch == "spine3" else each
            for each in after.cables
        ),
    )
    assert changes_between(before, early).displaced[0] == (
        "leaf1:1>spine1:1 has place 2 among the cables of leaf1, was 1"
    )
    assert changes_between(replace(before, steered_by=SteeredBy.HASH), early).displaced == ()


def test_a_plug_moved_to_another_port_is_neither_gone_nor_new():
    fabric = fabric_of(YARD)
    (cable,) = (each for each in fabric.cables if each.id == "leaf1:1>spine1:1")
    elsewhere = replace(cable, upper=cable.upper._replace(number=30))
    cables = tuple(elsewhere if each is cable else each for each in fabric.cables)
    found = changes_between(fabric, replace(fabric, cables=cables))
    assert found.recabled == (Changed("leaf1:1", cable.id, elsewhere.id),)
    assert (found.added.cables, found.removed.cables) == ((), ())
    assert found.harms == ("1 cable plugged in elsewhere",)


def test_a_replaced_switch_harms_nothing_and_an_id_that_was_anothers_does():
    fabric = fabric_of(YARD)

    def with_ids(ids: dict[str, int]) -> Fabric:
        switches = (replace(each, datapath_id=ids.get(each.id, each.datapath_id)) for each in fabric.switches)
        return replace(fabric, switches=tuple(switches))

    found = changes_between(fabric, with_ids({"spine2": 0x99}))
    assert found.datapath_ids == (Changed("spine2", 2, 0x99),)
    assert found.harms == ()
    (text,) = changes_between(fabric, with_ids({"spine1": 2, "spine2": 1})).harms
    assert text.startswith("2 of 5 switches have the datapath id of another one (spine1 has 0x2, which was spine2's)")


@pytest.mark.parametrize(
    ("after", "texts"),
    [
        (
            YARD.replace("spines: 2", "spines: 3"),
            ["6 NICs at another port", "datapath id of another", "numbers ports anew"],
        ),
        (YARD.replace("hosts_per_leaf: 2", "hosts_per_leaf: 3"), ["4 NICs at another port"]),
        (YARD.replace("name: yard", "name: shed"), ["the fabric's name is shed, was yard"]),
        (YARD + "steering: hash\n", ["steering is hash, was openflow"]),
        (YARD.replace("leaves: 3", "leaves: 2"), ["1 switch gone", "2 cables gone", "2 NICs gone"]),
    ],
    ids=["spines edited", "hosts edited", "name", "steering", "a leaf gone"],
)
def test_what_renames_or_removes_says_so(after, texts):
    harms = "\n".join(change_of(YARD, after).harms)
    assert all(text in harms for text in texts), harms


def test_leaves_may_be_edited_in_two_tiers():
    assert change_of(YARD, LEAF_MORE).harms == ()


def test_a_switch_and_nics_under_other_names_look_renamed():
    fabric = fabric_of(YARD)
    renamed = replace(
        fabric,
        switches=tuple(replace(each, id="top2" if each.id == "spine2" else each.id) for each in fabric.switches),
        cables=tuple(
            replace(each, upper=each.upper._replace(switch="top2")) if each.upper.switch == "spine2" else each
            for each in fabric.cables
        ),
        nics=tuple(replace(each, id=each.id.replace("h1-", "a1-")) for each in fabric.nics),
    )
    harms = changes_between(fabric, renamed).harms
    assert "switch top2 has the datapath id of spine2, which is gone: it looks renamed" in harms
    assert "1 NICs look renamed: a1-n0 has the address of h1-n0, which is gone" in harms
    assert "3 cables plugged in elsewhere" in harms


def test_another_role_or_address_harms():
    fabric = fabric_of(YARD)
    other = replace(
        fabric,
        switches=tuple(
            replace(each, role=Role.CORE if each.role is Role.SPINE else each.role) for each in fabric.switches
        ),
        nics=tuple(replace(each, ip=each.ip + 4096) for each in fabric.nics),
    )
    assert changes_between(fabric, other).harms == ("2 switches of another role", "6 NICs of another address")
