"""Which cables are down, by the paths that NICs deny: planted cuts are found, and hosts that lie change little."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.config import parse_fabric
from heddle.controller.model.path_evidence import (
    FORGET_MS,
    HOLD_MS,
    MAX_DENIED_CABLES,
    MAX_DOUBLINGS,
    FlowPaths,
    PathEvidence,
    cables_by_sid,
    denied_cables,
)
from heddle.controller.model.srv6 import Sids
from tests.support.fabrics.path_sets import SPINES, four_by_four, links_over

FABRIC = four_by_four()
NICS = FABRIC.nics


def cable(leaf: int, spine: int) -> str:
    """Return the id of a cable, written from the documentation."""
    return f"leaf{leaf + 1}:{spine + 1}>spine{spine + 1}:{leaf + 1}"


def path(src: int, dst: int, spine: int) -> frozenset[str]:
    return frozenset({cable(src // 4, spine), cable(dst // 4, spine)})


def flow(src: int, dst: int, down: set[str], spines=range(SPINES)) -> FlowPaths:
    """Return what a NIC reports of a flow that sprays over spines while some cables are down."""
    paths = [path(src, dst, spine) for spine in spines]
    return FlowPaths(tuple(each for each in paths if each & down), tuple(each for each in paths if not each & down))


def reports(target: dict[int, int], down: set[str]) -> dict[str, list[FlowPaths]]:
    return {f"h{src}": [flow(src, dst, down)] for src, dst in target.items()}


def derangement(seed: int) -> dict[int, int]:
    chance, target = random.Random(seed), list(range(16))
    while any(src // 4 == dst // 4 for src, dst in enumerate(target)):
        chance.shuffle(target)
    return dict(enumerate(target))


@given(seed=st.integers(0, 2**32), leaf=st.integers(0, 3), spine=st.integers(0, 3))
def test_one_cut_is_found_once_all_hosts_have_reported(seed, leaf, spine):
    found = denied_cables(reports(derangement(seed), {cable(leaf, spine)}))
    assert set(found) == {cable(leaf, spine)}
    assert len(found[cable(leaf, spine)]) == 8


@given(seed=st.integers(0, 2**32), leaf=st.integers(0, 3), spine=st.integers(0, 3), count=st.integers(0, 16))
def test_what_some_of_the_hosts_report_names_the_cut_cable_or_none(seed, leaf, spine, count):
    target, down = derangement(seed), {cable(leaf, spine)}
    some = random.Random(seed).sample(sorted(target), count)
    assert set(denied_cables(reports({src: target[src] for src in some}, down))) <= down


@given(seed=st.integers(0, 2**32), liar=st.integers(0, 15))
def test_one_host_alone_makes_no_cable_down_whatever_it_denies(seed, liar):
    chance, target = random.Random(seed), derangement(seed)
    lies = []
    for _ in range(chance.randint(1, 9)):
        dst = chance.choice([nic for nic in range(16) if nic // 4 != liar // 4])
        denied = {cable(liar // 4, spine) for spine in chance.sample(range(SPINES), chance.randint(1, SPINES))}
        lies.append(flow(liar, dst, denied))
    assert denied_cables({**reports(target, set()), f"h{liar}": lies}) == {}


@pytest.mark.parametrize("dead", range(0, 16, 5))
def test_a_nic_that_is_gone_makes_no_cable_down(dead):
    """Its senders deny all paths to it but the last one."""
    senders = [nic for nic in range(16) if nic // 4 != dead // 4]
    found = {
        f"h{src}": [FlowPaths(tuple(path(src, dead, n) for n in (1, 2, 3)), (path(src, dead, 0),))] for src in senders
    }
    assert denied_cables(found) == {}


def test_two_cables_that_the_same_hosts_deny_are_distinguished_by_a_third_host():
    between_two_leaves = {f"h{src}": [flow(src, 4 + src, {cable(0, 2)})] for src in (0, 1)}
    assert denied_cables(between_two_leaves) == {}
    third = {"h2": [flow(2, 9, {cable(0, 2)})]}
    assert set(denied_cables(between_two_leaves | third)) == {cable(0, 2)}


def test_a_host_with_an_active_path_over_a_cable_is_no_witness_against_it():
    mixed = [flow(0, 4, {cable(0, 2)}), FlowPaths((), (path(0, 8, 2),))]
    assert denied_cables({"h0": mixed, "h1": [flow(1, 12, {cable(0, 2)})]}) == {}


@pytest.mark.parametrize("cut", list(combinations([(0, 0), (1, 1), (2, 2), (3, 3)], 2)))
def test_two_cuts_at_once_are_both_found(cut):
    down = {cable(*each) for each in cut}
    assert set(denied_cables(reports(derangement(1), down))) == down


def test_a_verdict_holds_longer_each_time_and_is_forgotten_in_the_end():
    evidence, now_ms, target, down = PathEvidence(), 0, derangement(1), {cable(0, 2)}
    held = []
    for _ in range(MAX_DOUBLINGS + 3):
        for host, flows in reports(target, down).items():
            evidence = evidence.with_report(host, flows, now_ms)
        assert set(evidence.down(now_ms)) == down
        for host in list(evidence.flows_of):
            evidence = evidence.with_report(host, (), now_ms)
        wake_ms = evidence.wake_ms(now_ms)
        assert wake_ms is not None
        held.append((wake_ms - now_ms) // HOLD_MS)
        now_ms = wake_ms
        evidence = evidence.at(now_ms)
        assert evidence.down(now_ms) == {}
        assert evidence.wake_ms(now_ms) is None
    assert held == [1, 2, 4, 8, 16, 32, 32, 32]
    assert evidence.at(now_ms + FORGET_MS).verdicts == {}


def test_a_verdict_holds_for_as_long_as_hosts_go_on_to_deny():
    target, down = derangement(1), {cable(0, 2)}
    evidence = PathEvidence()
    for now_ms in range(0, 5 * HOLD_MS, HOLD_MS // 2):
        for host, flows in reports(target, down).items():
            evidence = evidence.with_report(host, flows, now_ms)
        assert set(evidence.down(now_ms)) == down
    for host, flows in reports(target, set()).items():
        evidence = evidence.with_report(host, flows, now_ms)
    assert evidence.wake_ms(now_ms) == now_ms + HOLD_MS
    assert evidence.down(now_ms + HOLD_MS) == {}


def test_few_cables_are_down_by_evidence_at_a_time():
    fabric = {f"h{src}": [flow(src, dst, {cable(leaf, leaf) for leaf in range(4)} | {cable(0, 1), cable(1, 0)},
              spines=range(4))] for src, dst in derangement(3).items()}  # fmt: skip
    evidence = PathEvidence()
    for host, flows in fabric.items():
        evidence = evidence.with_report(host, flows, 0)
        assert len(evidence.down(0)) <= MAX_DENIED_CABLES


def test_an_address_names_the_cables_of_its_path():
    sids, src, dst = Sids(FABRIC), NICS[0], NICS[5]
    found = cables_by_sid(FABRIC, sids, src, dst)
    assert len(found) == SPINES
    for spine in range(SPINES):
        links = links_over(FABRIC, src.id, dst.id, spine)
        assert found[sids.destination(links, dst.id)] == path(0, 5, spine)


def test_in_three_tiers_an_address_names_four_cables():
    fabric = parse_fabric(
        "version: 1\nsteering: srv6\ngenerate: {kind: clos3, pods: 2, aggs_per_pod: 2, spines: 4, leaves: 2,"
        " hosts_per_leaf: 1, gbps: 1}\n", "three tiers",
    )  # fmt: skip
    found = cables_by_sid(fabric, Sids(fabric), fabric.nics[0], fabric.nics[-1])
    assert {len(cables) for cables in found.values()} == {4}
    assert len(set(found.values())) == len(found) == 4
