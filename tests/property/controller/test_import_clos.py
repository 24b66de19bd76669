"""A random Clos fabric that is written in a foreign format reads back with the same roles, cables, NICs and ports."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.foreign import Imported, Options
from heddle.controller.config.foreign.read import import_text
from tests.support.examples import examples
from tests.support.fabrics import foreign_clos
from tests.support.fabrics.foreign_clos import Clos

NAMED = {
    "containerlab, switches of a kind": lambda clos, random: foreign_clos.containerlab(clos, random, "nokia_srlinux"),
    "containerlab, all of kind linux": lambda clos, random: foreign_clos.containerlab(clos, random, "linux"),
    "batfish": foreign_clos.batfish,
    "hedgehog": foreign_clos.hedgehog,
}


def tiers(found: Imported) -> dict[str, int]:
    """Return the tier of each switch: 0 leaf, 1 spine or agg, 2 core."""
    return {one.id: {"leaf": 0, "spine": 1, "agg": 1, "core": 2}[one.role.value] for one in found.fabric.switches}


def cables(found: Imported) -> Counter:
    return Counter((tuple(one.lower), tuple(one.upper)) for one in found.fabric.cables)


def expected_cables(clos: Clos) -> Counter:
    return Counter((tuple(lower), tuple(upper)) for lower, upper in clos.cables)


def dead_ends(found: Imported) -> int:
    return sum("NIC on a switch above" in line for line in found.left_out)


@pytest.mark.parametrize("written_as", NAMED)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(50), deadline=None)
def test_a_named_fabric_reads_back_with_its_roles_cables_and_ports(written_as, seed):
    random = Random(seed)
    clos = foreign_clos.drawn(random)
    found = import_text(NAMED[written_as](clos, random), "source", "source", Options())
    assert tiers(found) == clos.tier_of
    assert cables(found) == expected_cables(clos)
    nics = Counter((nic.host, tuple(nic.port)) for nic in found.fabric.nics)
    assert nics == Counter((host, tuple(end)) for host, end in clos.nics)
    assert dead_ends(found) == bool(clos.collectors)


@pytest.mark.parametrize("simai", [True, False])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(50), deadline=None)
def test_a_numbered_fabric_reads_back_with_its_roles_and_cables(simai, seed):
    random = Random(seed)
    clos = foreign_clos.drawn(random)
    text, number_of = foreign_clos.simulator(clos, random, simai=simai)
    found = import_text(text, "source", "source", Options())
    name = {node: f"switch{number}" for node, number in number_of.items()}
    assert tiers(found) == {name[node]: tier for node, tier in clos.tier_of.items()}
    pairs = Counter((one.lower.switch, one.upper.switch) for one in found.fabric.cables)
    assert pairs == Counter((name[lower.node], name[upper.node]) for lower, upper in clos.cables)
    leaves = Counter(nic.port.switch for nic in found.fabric.nics)
    assert leaves == Counter(name[end.node] for _, end in clos.nics)
