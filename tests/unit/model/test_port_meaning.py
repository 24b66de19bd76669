"""What source ports mean, described: what differs between two fabrics, in words."""

from dataclasses import replace

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.port_meaning import FieldBits, PortMeaning, differences, meaning_of, too_many
from heddle.controller.model.steering import former_layout, layout_of
from heddle.controller.runtime.journal import values
from tests.support.fabrics.grown_files import (
    LEAF_MORE,
    PARALLEL,
    SPINE_MORE,
    SPINES_BEYOND,
    THREE_SLOWER,
    THREE_SPINES,
    YARD,
)
from tests.unit.rules.builders import clos3, spine_leaf


def fabric_of(text: str) -> Fabric:
    return parse_fabric(text, "yard.yaml")


def changes(before: Fabric, after: Fabric) -> tuple[str, ...]:
    return differences(meaning_of(before), meaning_of(after))


@pytest.mark.parametrize(
    "fabric", [fabric_of(YARD), fabric_of(PARALLEL[0]), clos3(2, 2, 2, 2, core_links=2)], ids=["yard", "parallel", "k"]
)
def test_a_description_is_the_same_after_it_was_kept(fabric):
    found = meaning_of(fabric)
    assert values.decode(PortMeaning, values.encode(found)) == found
    assert differences(found, found) == ()


def test_a_leaf_more_changes_nothing_for_ports():
    assert changes(fabric_of(YARD), fabric_of(LEAF_MORE)) == ()
    assert changes(fabric_of(LEAF_MORE), fabric_of(YARD)) == ()


def test_other_numbers_of_cables_are_named_by_switch():
    assert changes(fabric_of(YARD), fabric_of(SPINE_MORE)) == tuple(
        f"leaf{number} has 3 uplinks, ports were chosen for 2" for number in (1, 2, 3)
    )
    assert changes(fabric_of(SPINE_MORE), fabric_of(YARD))[0] == "leaf1 has 2 uplinks, ports were chosen for 3"


def test_a_cable_more_beside_others_is_named_at_both_ends():
    before, after = map(fabric_of, PARALLEL)
    assert changes(before, after) == (
        "leaf1 has 3 uplinks, ports were chosen for 2",
        "spine1 has 3 cables down to leaf1, ports were chosen for 2",
    )
    alone = spine_leaf(1, 2, links_per_spine=1)
    assert "spine1 has 2 cables down to leaf1, ports were chosen for 1" in changes(
        alone, spine_leaf(1, 2, links_per_spine=2)
    )


def test_other_rates_are_named_where_the_numbers_are_the_same():
    before, after = fabric_of(THREE_SPINES), fabric_of(THREE_SLOWER)
    former = former_layout(before)
    assert changes(replace(before, port_layout=former), replace(after, port_layout=former)) == (
        "leaf3 has 3 uplinks of 2 x 40 and 1 x 10 Gbit/s, ports were chosen for 3 x 40 Gbit/s",
    )
    assert changes(before, after) == (), "with fixed places rates mean nothing to ports"


def test_cables_beyond_the_room_are_named():
    layout = layout_of(fabric_of(YARD))
    assert too_many(fabric_of(SPINE_MORE), layout) == ()
    assert too_many(fabric_of(SPINES_BEYOND), layout)[0] == (
        "leaf1 has 5 uplinks, and the ports of running jobs have room for 4"
    )
    text = "spine1 has 3 cables down to leaf1, and the ports of running jobs have room for 2"
    assert text in too_many(spine_leaf(1, 2, links_per_spine=3), layout_of(spine_leaf(1, 2)))


def test_a_controller_that_divides_the_bits_otherwise_says_so():
    now = meaning_of(fabric_of(YARD))
    then = replace(now, fields=(FieldBits(shift=12, width=2), *now.fields[1:]))
    assert differences(then, now) == ("the bits of a port are divided otherwise",)
