"""What a check concludes about fabrics with one fault each: the fault is named, at its leaf, and nothing else is."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.probe_sessions.pairs import pairs_of, steps_between
from heddle.probing.check.conclusions import Answer, LeafCheck, concluded
from heddle.probing.check.findings import FindingKind
from heddle.probing.check.places import Places
from heddle.probing.check.questions import SAMPLE, Variation, rounds
from tests.fakes.checked_fabric import CheckedFabric
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3, spine_leaf

DSCP = 26
FEW = 15
"""Examples of a property: each is a whole check, of some 30 ms."""
TWO_TIERS, THREE_TIERS = spine_leaf(4, 4, 8), clos3(2, 2, 2, 4)


def with_parallel_cables(fabric: Fabric) -> Fabric:
    """Return the fabric with a second cable beside each."""
    twins = [
        Cable(lower=PortRef(cable.lower.switch, cable.lower.number + 50),
              upper=PortRef(cable.upper.switch, cable.upper.number + 50), capacity_bps=cable.capacity_bps)
        for cable in fabric.cables
    ]  # fmt: skip
    return Fabric(
        name=fabric.name, switches=fabric.switches, cables=(*fabric.cables, *twins), nics=fabric.nics
    )  # fmt: skip


PARALLEL = with_parallel_cables(spine_leaf(2, 3, 6))


def checks_of(routers: CheckedFabric, seed: int = 0, places: Places | None = None) -> dict[str, LeafCheck]:
    pairs = pairs_of(routers.fabric, routers.fabric.nics)
    asked = rounds(pairs, DSCP, seed)
    found = concluded(pairs, asked, routers.heard(asked), routers.places if places is None else places)
    return {check.leaf: check for check in found}


def kinds(check: LeafCheck) -> set[FindingKind]:
    return {finding.kind for finding in check.findings}


@settings(max_examples=examples(FEW))
@given(st.sampled_from([TWO_TIERS, THREE_TIERS, PARALLEL]), st.integers(0, 10**6))
@example(THREE_TIERS, 252)  # in these one of several switches never chose one of its links, by accident
@example(PARALLEL, 169)
@example(PARALLEL, 437)
def test_a_sound_fabric_is_fit_and_every_link_of_its_paths_is_seen(fabric, seed):
    checks = checks_of(CheckedFabric(fabric), seed)
    assert set(checks) == set(fabric.leaves)
    for check in checks.values():
        assert check.is_fit
        assert check.findings == ()
        assert check.replied == check.sent
        assert (check.ports_matter, check.repeats_agree) == (Answer.YES, Answer.YES)
        assert (check.qpn_hashed, check.dscp_hashed) == (Answer.NO, Answer.NO)
        assert not any(reach.unseen for reach in check.reach)


@settings(max_examples=examples(FEW))
@given(st.sampled_from([TWO_TIERS, THREE_TIERS]), st.data())
def test_a_leaf_that_hashes_wrongly_is_named_and_no_other(fabric, data):
    leaf = data.draw(st.sampled_from(fabric.leaves))
    fault, kind = data.draw(
        st.sampled_from([
            ("addresses_only", FindingKind.ADDRESSES_ONLY), ("spraying", FindingKind.UNSTEADY),
            ("qpn_hashed", FindingKind.QPN), ("dscp_hashed", FindingKind.DSCP),
        ])
    )  # fmt: skip
    faults: dict[str, Any] = {fault: {leaf}}
    checks = checks_of(CheckedFabric(fabric, **faults), data.draw(st.integers(0, 10**6)))
    assert kinds(checks[leaf]) == {kind}
    assert all(check.is_fit for name, check in checks.items() if name != leaf)


def test_the_answers_name_what_a_hash_takes():
    assert checks_of(CheckedFabric(TWO_TIERS, addresses_only={"leaf1"}))["leaf1"].ports_matter is Answer.NO
    sprayed = checks_of(CheckedFabric(TWO_TIERS, spraying={"leaf1"}))["leaf1"]
    assert (sprayed.repeats_agree, sprayed.qpn_hashed, sprayed.dscp_hashed) == (Answer.NO, *[Answer.UNKNOWN] * 2)
    assert checks_of(CheckedFabric(TWO_TIERS, qpn_hashed={"leaf1"}))["leaf1"].qpn_hashed is Answer.YES
    assert checks_of(CheckedFabric(TWO_TIERS, dscp_hashed={"leaf1"}))["leaf1"].dscp_hashed is Answer.YES


@settings(max_examples=examples(FEW))
@given(st.sampled_from([TWO_TIERS, THREE_TIERS, PARALLEL]), st.data())
def test_a_silent_switch_makes_leaves_unknown_and_is_no_sign_of_a_wrong_hash(fabric, data):
    leaf = fabric.leaves[0]
    tops = [switch.id for switch in fabric.switches if switch.id not in fabric.leaves]
    assert_that_silence_is_found(fabric, data.draw(st.sampled_from(tops)), data.draw(st.integers(0, 10**6)))
    everything = checks_of(CheckedFabric(fabric, silent={switch.id for switch in fabric.switches}))[leaf]
    assert not everything.is_fit
    assert kinds(everything) == {FindingKind.SILENT}
    assert {everything.ports_matter, everything.repeats_agree, everything.qpn_hashed} == {Answer.UNKNOWN}


@pytest.mark.parametrize(
    ("fabric", "switch", "seed"),
    [(TWO_TIERS, "spine1", 67), (THREE_TIERS, "core1", 13), (THREE_TIERS, "core2", 77), (THREE_TIERS, "core2", 96)],
)
def test_a_silent_switch_is_found_that_fewer_probes_than_usual_happen_to_pass(fabric, switch, seed):
    assert_that_silence_is_found(fabric, switch, seed)


@pytest.mark.parametrize("switch", ["core1", "core2"])
def test_links_to_a_silent_switch_that_probes_crossed_are_no_polarisation(switch):
    assert_that_silence_is_found(THREE_TIERS, switch, seed=98)


def assert_that_silence_is_found(fabric: Fabric, switch: str, seed: int) -> None:
    checks = checks_of(CheckedFabric(fabric, silent={switch}), seed)
    assert FindingKind.SILENT in set.union(*map(kinds, checks.values()))
    for check in checks.values():
        assert not kinds(check) & {
            FindingKind.UNSTEADY,
            FindingKind.QPN,
            FindingKind.DSCP,
            FindingKind.POLARISED,
            FindingKind.ADDRESSES_ONLY,
        }
        assert check.repeats_agree is Answer.YES


@settings(max_examples=examples(FEW))
@given(st.integers(0, 10**6))
def test_equal_seeds_in_two_tiers_are_polarisation_which_limits_and_does_not_refuse(seed):
    for check in checks_of(CheckedFabric(THREE_TIERS, equal_seeds=True), seed).values():
        assert kinds(check) == {FindingKind.POLARISED}
        assert check.is_fit
        (finding,) = check.findings
        assert "agg" in finding.text


def test_replies_from_loopbacks_leave_parallel_cables_unknown_and_single_ones_named():
    spines = {"spine1", "spine2"}
    parallel = checks_of(CheckedFabric(PARALLEL, loopbacks=spines))["leaf1"]
    assert kinds(parallel) == {FindingKind.LOOPBACK, FindingKind.MERGED}
    assert {finding.text for finding in parallel.findings if finding.kind is FindingKind.MERGED} == {
        f"no reply distinguishes leaf1:{n}>spine{n}:1, leaf1:{n + 50}>spine{n}:51" for n in (1, 2)
    }
    single = checks_of(CheckedFabric(TWO_TIERS, loopbacks={"spine1"}))["leaf1"]
    assert kinds(single) == {FindingKind.LOOPBACK}
    assert not any(reach.unseen for reach in single.reach)
    assert not single.is_fit


def test_replies_that_name_the_route_back_are_found_with_single_and_with_parallel_cables():
    everywhere = {switch.id for switch in TWO_TIERS.switches}
    assert FindingKind.ROUTE_BACK in kinds(checks_of(CheckedFabric(TWO_TIERS, route_back=everywhere))["leaf1"])
    parallel = checks_of(CheckedFabric(PARALLEL, route_back={"spine1", "spine2"}))["leaf1"]
    assert FindingKind.MERGED in kinds(parallel)
    assert not parallel.is_fit


def test_unknown_addresses_refuse_and_leave_the_answers_about_the_hash():
    check = checks_of(CheckedFabric(TWO_TIERS), places=Places({}, {}))["leaf1"]
    assert kinds(check) == {FindingKind.UNNAMED}
    assert (check.ports_matter, check.repeats_agree, check.qpn_hashed) == (Answer.YES, Answer.YES, Answer.NO)


def test_a_switch_where_no_path_leads_is_astray():
    routers = CheckedFabric(TWO_TIERS)
    switch_at = {address: {"spine1": "leaf3"}.get(name, name) for address, name in routers.places.switch_at.items()}
    assert FindingKind.ASTRAY in kinds(checks_of(routers, places=routers.places._replace(switch_at=switch_at))["leaf1"])


def test_a_next_hop_that_is_out_of_use_is_named():
    broken = Fabric(
        name="f", switches=TWO_TIERS.switches, nics=TWO_TIERS.nics,
        cables=tuple(cable for cable in TWO_TIERS.cables if cable.id != "leaf1:2>spine2:1"),
    )  # fmt: skip
    pairs = pairs_of(TWO_TIERS, TWO_TIERS.nics)
    asked, routers = rounds(pairs, DSCP), CheckedFabric(broken)
    (check, *_) = concluded(pairs, asked, routers.heard(asked), routers.places)
    assert next((finding.kind, finding.text) for finding in check.findings) == (
        FindingKind.UNSEEN,
        "from leaf1 no port leads over leaf1:2>spine2:1",
    )


@pytest.mark.parametrize("fabric", [TWO_TIERS, THREE_TIERS, PARALLEL])
def test_every_round_asks_what_the_first_asked_and_no_more_than_a_check_needs(fabric):
    pairs = pairs_of(fabric, fabric.nics)
    asked = {each.variation: each for each in rounds(pairs, DSCP)}
    first = asked[Variation.FIRST].questions
    for variation, each in asked.items():
        assert all(set(questions) <= set(first[src_ip]) for src_ip, questions in each.questions.items())
        assert (each.qpn != 0, each.dscp) == (variation is Variation.QPN, DSCP * (variation is Variation.DSCP))
    for pair in pairs:
        ports = [one.port for one in first[pair.src_ip] if one.dst_ip == pair.dst_ip]
        assert len(set(ports)) * len(pair.steps) == len(ports)
        assert len(set(ports)) >= SAMPLE


@settings(max_examples=examples(FEW))
@given(st.sampled_from([TWO_TIERS, THREE_TIERS, PARALLEL]))
def test_steps_join_a_leaf_to_another_by_every_equal_cost_path(fabric):
    for leaf in fabric.leaves[1:]:
        steps = steps_between(fabric, fabric.leaves[0], leaf)
        assert {step.by for step in steps[0]} == {fabric.leaves[0]}
        assert {step.to for step in steps[-1]} == {leaf}
        for before, after in pairwise(steps):
            assert {step.to for step in before} == {step.by for step in after}
