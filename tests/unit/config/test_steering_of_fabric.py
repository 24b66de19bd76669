"""`steering` in the fabric file: rules in switches by default, or hashes."""

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.config.write import fabric_document, fabric_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.steering import layout_of

FILE = "version: 1\n{}generate: {{kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, links_per_spine: 2}}\n"


def test_rules_steer_where_the_file_names_nothing_else():
    assert parse_fabric(FILE.format(""), "f").steered_by is SteeredBy.OPENFLOW


def test_a_written_fabric_keeps_its_steering():
    fabric = parse_fabric(FILE.format("steering: hash\n"), "f")
    assert fabric.steered_by is SteeredBy.HASH
    assert parse_fabric("\n".join(fabric_text(fabric)), "again") == fabric


def test_an_unknown_steering_is_refused_by_its_key():
    with pytest.raises(InputError, match="steering"):
        parse_fabric(FILE.format("steering: magic\n"), "f")


def test_parallel_cables_count_upwards_and_downwards():
    fabric = parse_fabric(FILE.format(""), "f")
    assert (fabric.paths_up, fabric.max_paths) == (4, 8)


def test_a_reserve_widens_the_room_of_source_ports_and_is_written_again():
    plain, fabric = (parse_fabric(FILE.format(text), "f") for text in ("", "reserve: {leaf_uplinks: 40}\n"))
    assert [field.room for field in layout_of(plain).fields] == [8, 1, 4, 1]
    assert [field.room for field in layout_of(fabric).fields] == [64, 1, 4, 1]
    again = parse_fabric("\n".join(fabric_text(fabric)), "again")
    assert (again, layout_of(again)) == (fabric, layout_of(fabric))
    assert fabric_document(fabric)["reserve"] == {"leaf_uplinks": 40}


@pytest.mark.parametrize(
    ("reserve", "why"),
    [
        ("{leaf_uplinks: 16384}", "reserve: a path of this fabric takes 15 bits to name with its reserve"),
        ("{agg_uplinks: 4}", "reserve.agg_uplinks: the fabric has no switch with the role agg"),
        ("{leaf_uplinks: -1}", "reserve.leaf_uplinks"),
        ("{spines: 9}", "reserve.spines: unknown key"),
    ],
)
def test_a_reserve_that_cannot_be_is_refused_by_its_key(reserve, why):
    with pytest.raises(InputError) as refused:
        parse_fabric(FILE.format(f"reserve: {reserve}\n"), "f")
    assert why in str(refused.value)


def test_more_paths_than_a_source_port_can_name_are_refused_unless_switches_hash():
    text = "{}generate: {{kind: clos3, pods: 1, spines: 8450, aggs_per_pod: 130, leaves: 1, hosts_per_leaf: 1}}\n"
    with pytest.raises(
        InputError, match="links: a path of this fabric takes 15 bits to name, a UDP source port has 14"
    ):
        parse_fabric(text.format(""), "f")
    assert parse_fabric(text.format("steering: hash\n"), "f").paths_up == 130 * 65
