from collections import Counter

import pytest

from heddle.controller.config.foreign import Options, import_fabric
from tests.unit.config.foreign_files import HTSIM, imported, published, refused, roles

THREE = HTSIM.replace("Tiers 2", "Tiers 3").replace("Podsize 16", "Podsize 8").replace(
    "Radix_Down 8", "Radix_Down 4"
) + ("Radix_Up 4\n\nTier 2\nDownlink_speed_Gbps 200\nRadix_Down 4\nBundle 2\n")


def test_two_tiers_are_written_as_sizes():
    found = imported(HTSIM)
    assert found.format == "htsim"
    assert Counter(roles(found).values()) == {"leaf": 4, "spine": 2}
    assert found.generate is not None
    assert found.generate.links_per_spine == 2
    assert {nic.capacity_bps for nic in found.fabric.nics} == {100 * 10**9}
    assert {cable.capacity_bps for cable in found.fabric.cables} == {200 * 10**9}


def test_three_tiers_with_bundles_are_drawn():
    found = imported(THREE)
    assert found.generate is None
    assert Counter(roles(found).values()) == {"leaf": 4, "agg": 4, "core": 4}
    assert len(found.fabric.nics) == 16
    assert len(found.fabric.cables) == 4 * 4 + 4 * 4


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("Radix_Down 8", "Radix_Down 7", "source:12: 16 leaf uplinks of a pod cannot be divided evenly"),
        ("Radix_Down 8", "Radix_Down 4", "source:12: 4 switches x bundle 2 is not the radix_up"),
        ("Radix_Down 8", "Radix_Down 0", "source:12: the tier that begins here has no radix_down"),
        ("Radix_Down 8", "Radix_Donw 8", "source:14: unknown key 'radix_donw'"),
        ("Radix_Down 8", "Radix_Down many", "source:14: 'Radix_Down many' is not a key and a number"),
        ("Radix_Down 8", "Radix_Down nan", "source:14: radix_down must be a whole number"),
        ("Radix_Down 8", "Radix_Down inf", "source:14: radix_down must be a whole number"),
        ("Tier 1", "Tier 2", "source:12: tier 2 here"),
        ("Tiers 2", "Tiers 3", "source: 2 tiers are described, 3 are announced"),
        ("Nodes 16", "Nodes 1000000000", "source: 1,000,000,000 nodes, at most 1,000,000"),
        ("Nodes 16", "Nodes 0", "source: nodes is missing or 0"),
        ("Downlink_speed_Gbps 100", "Downlink_speed_Gbps 5000", "source:6: a rate of 5000 Gbit/s"),
    ],
)
def test_a_wrong_line_is_named(before, after, expected):
    assert refused(HTSIM.replace(before, after), "htsim").startswith(expected)


@pytest.mark.parametrize(
    ("name", "nics", "switches"),
    [
        ("fat_tree_1024_4os.topo", 1024, {"leaf": 128, "agg": 32, "core": 16}),
        ("fat_tree_8192_1os.topo", 8192, {"leaf": 512, "agg": 512, "core": 256}),
        ("leaf_spine_8192_100g_4_to_1.topo", 8192, {"leaf": 128, "spine": 16}),
        ("leaf_spine_tiny.topo", 32, {"leaf": 4, "spine": 2}),
    ],
)
def test_the_published_topologies_have_their_sizes(name, nics, switches):
    found = import_fabric(published("uet-htsim", name), Options())
    assert len(found.fabric.nics) == nics
    assert Counter(roles(found).values()) == switches
