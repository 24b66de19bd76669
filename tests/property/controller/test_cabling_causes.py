"""Causes of wrong cabling: none of a sound fabric, no more than exchanges are needed, and planted ones are found."""

import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.cabling.diagnosis import diagnose
from heddle.controller.cabling.ends import Ends
from heddle.controller.cabling.heard import Neighbour
from heddle.controller.cabling.observed import Observed
from heddle.controller.cabling.undoing import undo_blocks, undo_exchanges, undo_nodes
from heddle.controller.model.fabric import PortRef
from tests.oracles.fewest_plug_moves import exchanges_from, fewest_moves
from tests.support.examples import examples
from tests.support.fabrics.planted_cabling import BAD_DAY, PlantedCabling
from tests.support.fabrics.small_fabrics import clos3, rails, spine_leaf

SMALL_DAY = {
    "nodes": 1, "shifted": 1, "blocks": 1, "reversed": 1, "pairs": 1, "exchanged": 5, "exchanged far": 2, "missing": 5,
    "moved": 2,
}  # fmt: skip
LAB = spine_leaf(16, 24, 192)


def port(name):
    switch, _, number = name.partition(":")
    return PortRef(switch, int(number))


def hearings(cables):
    """What all ports hear of cables between names of ports."""
    found = {}
    for first, second in map(sorted, cables):
        for end, far in ((first, second), (second, first)):
            found[port(end)] = Neighbour(switch=port(far).switch, port=port(far).number)
    return found


def cables_of(fabric):
    return frozenset(frozenset((str(cable.lower), str(cable.upper))) for cable in fabric.cables)


@pytest.mark.parametrize("fabric", [spine_leaf(1, 5, 0), spine_leaf(2, 2, 0)], ids=["five cables", "four cables"])
def test_every_cabling_of_few_ports_has_no_more_causes_than_the_fewest_exchanges(fabric):
    right = cables_of(fabric)
    kinds = set()
    for cables, exchanges in exchanges_from(right).items():
        found = diagnose(fabric, hearings(cables))
        assert len(found.causes) <= exchanges
        assert {cause.kind for cause in found.causes} != {"exchanged"} or len(found.causes) == exchanges
        assert found.moves == fewest_moves(right, cables) == len(right - cables)
        assert found.wrong == {cable.id for cable in fabric.cables} - {
            cable.id for cable in fabric.cables if frozenset((str(cable.lower), str(cable.upper))) in cables
        }
        kinds |= {cause.kind for cause in found.causes}
    assert "exchanged" in kinds


@given(st.data())
def test_the_moves_are_the_fewest_also_with_missing_cables_and_cables_too_many(data):
    fabric = spine_leaf(2, 3, 0)
    right = cables_of(fabric)
    spare = [f"{switch}:{number}" for switch in ("leaf1", "leaf2", "spine1") for number in (8, 9)]
    ends = data.draw(st.permutations([*sorted(end for cable in right for end in cable), *spare]))
    count = data.draw(st.integers(0, len(ends) // 2))
    kept = data.draw(st.sets(st.sampled_from(sorted(right, key=sorted))))
    used = {end for cable in kept for end in cable}
    free = [end for end in ends if end not in used]
    cables = frozenset(kept) | {frozenset(free[at : at + 2]) for at in range(0, len(free) - 1, 2)[:count]}
    up = {port(end) for cable in cables for end in cable}
    found = diagnose(fabric, hearings(cables), up)
    assert found.moves == fewest_moves(right, cables)
    touched = {end for cable in cables for end in cable}
    lacking = {cable.id: {str(cable.lower), str(cable.upper)} for cable in fabric.cables}
    assert found.missing == {name for name, both in lacking.items() if touched.isdisjoint(both)}
    assert found.wrong == {
        name for name, both in lacking.items() if frozenset(both) not in cables and name not in found.missing
    }
    assert found.unknown == frozenset()


@given(st.randoms(use_true_random=False), st.booleans())
def test_a_sound_fabric_has_no_cause_whatever_part_of_lldp_is_lost(rng, knows_carrier):
    fabric = rng.choice((spine_leaf(3, 4, 8), clos3(3, 2, 2, 4)))
    cabling = PlantedCabling(fabric, rng.randrange(1 << 30))
    silent = rng.sample([switch.id for switch in fabric.switches], rng.randrange(3))
    heard, up = cabling.hearings(rng.random(), silent)
    found = diagnose(fabric, heard, up if knows_carrier else None)
    assert (found.causes, found.wrong, found.missing, found.moves) == ((), frozenset(), frozenset(), 0)
    assert len(found.unknown) == sum(
        cable.lower not in heard and cable.upper not in heard for cable in fabric.cables
    ) + sum(nic.port not in heard for nic in fabric.nics)


def in_disorder(rng, fabric):
    """A fabric whose plugs were moved, also on top of each other, and some pulled."""
    cabling = PlantedCabling(fabric, rng.randrange(1 << 30))
    ends = sorted(cabling.expected, key=str)
    for _ in range(rng.randrange(6)):
        size = rng.choice((2, 2, 3, 8))
        first = rng.randrange(len(ends) - size)
        chosen = rng.sample(ends, size) if rng.random() < 0.5 else ends[first : first + size]
        cabling.move(dict(zip(chosen, [*chosen[1:], chosen[0]], strict=True)))
    for end in rng.sample(ends, rng.randrange(4)):
        if end in cabling.met:
            del cabling.met[cabling.met.pop(end)]
    return cabling


@hypothesis_settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_only_cables_that_are_not_as_built_are_accused_and_each_of_them_has_a_cause(rng):
    fabric = rng.choice((spine_leaf(6, 8, 32), clos3(3, 2, 2, 4), rails()))
    cabling = in_disorder(rng, fabric)
    right = {cable.id for cable in fabric.cables if cabling.met.get(cable.lower) == cable.upper}
    right |= {nic.up_link for nic in fabric.nics if cabling.met.get(nic.id) == nic.port}
    found = diagnose(fabric, *cabling.hearings(rng.choice((0.0, 0.1, 0.5))))
    assert right.isdisjoint(found.wrong | found.missing)
    assert found.wrong | found.missing == {cable for cause in found.causes for cable in cause.cables}
    sets = (found.wrong, found.missing, found.unknown)
    assert len(frozenset().union(*sets)) == sum(map(len, sets))


def test_a_plug_that_one_cause_moves_and_another_moves_back_is_of_no_wrong_cable():
    cabling = PlantedCabling(rails(), 1)
    joined = [
        ("h1-n0", "leaf2:1"), ("h1-n1", "leaf1:1"), ("h2-n0", "leaf2:2"), ("h2-n1", "spine1:3"),
        ("leaf1:2", "spine1:2"), ("leaf1:3", "leaf1:4"), ("leaf2:3", "spine1:1"), ("leaf2:4", "spine1:4"),
    ]  # fmt: skip
    ends = {str(end): end for end in cabling.expected}
    cabling.met = {ends[one]: ends[other] for each in joined for one, other in (each, each[::-1])}
    found = diagnose(cabling.fabric, *cabling.hearings(0.0))
    assert any("leaf2:2" in cause.text for cause in found.causes)
    assert "leaf1:2>spine1:2" not in found.wrong
    assert found.wrong == {cable for cause in found.causes for cable in cause.cables}


@hypothesis_settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_after_all_is_undone_no_plug_is_in_a_wrong_port(rng):
    fabric = spine_leaf(6, 8, 32)
    cabling = in_disorder(rng, fabric)
    heard, up = cabling.hearings(0.0)
    numbered = Ends(fabric)
    observed = Observed(numbered, heard, up)
    causes = [*undo_nodes(observed), *undo_blocks(observed), *undo_exchanges(observed)]
    assert observed.wrong_ends() == []
    assert bool(causes) == any(
        far != cabling.expected[end] for end, far in cabling.met.items() if isinstance(end, PortRef)
    )


@pytest.mark.parametrize("seed", range(4))
def test_planted_faults_are_found_as_planted_also_with_a_part_of_lldp_lost(seed):
    cabling = PlantedCabling(LAB, seed).plant(SMALL_DAY)
    for lost, least in ((0.0, len(cabling.planted)), (0.05, 0.95 * len(cabling.planted))):
        found = diagnose(LAB, *cabling.hearings(lost))
        assert cabling.found(found) >= least
        assert len(found.causes) <= 1.2 * len(cabling.planted)


def test_the_order_in_which_ports_are_heard_changes_nothing():
    heard, up = PlantedCabling(LAB, 9).plant(SMALL_DAY).hearings(0.1)
    shuffled = list(heard.items())
    random.Random(1).shuffle(shuffled)
    assert diagnose(LAB, dict(shuffled), up) == diagnose(LAB, heard, up)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_a_bad_day_of_a_large_fabric_is_named_as_planted(seed):
    for fabric in (spine_leaf(64, 128, 8_192), clos3(32, 16, 16, 256)):
        cabling = PlantedCabling(fabric, seed).plant(BAD_DAY)
        for lost in (0.0, 0.05):
            found = diagnose(fabric, *cabling.hearings(lost))
            assert cabling.found(found) >= 0.95 * len(cabling.planted)
            assert len(found.causes) <= 1.2 * len(cabling.planted)
