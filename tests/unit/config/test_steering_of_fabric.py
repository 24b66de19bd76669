"""`steering` in the fabric file: rules in switches by default, or hashes."""

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import SteeredBy

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
