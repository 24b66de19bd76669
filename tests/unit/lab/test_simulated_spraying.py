"""Spraying queue pairs under full load, simulated: planned sets have their rates, and a cut costs few packets."""

import functools
import random

import pytest

from tests.support.fabrics.path_sets import LOAD, Spines, four_by_four, permutation, spines_of
from tests.support.packets.queue_pair_ends import MS
from tests.support.packets.simulated_spraying import LINE_BPS, MTU, NICS_PER_LEAF, Flow, SimulatedFabric

RATE_BPS = LOAD * LINE_BPS
FRAME_BYTES = 4170
BOUND_BPS = 16 * RATE_BPS * MTU / FRAME_BYTES
CUT = (0, 2)
CUT_MS, NEW_RATES_MS, END_MS = 1_000, 150, 2_400
TOUCHED_FLOWS = 8
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3)))


def simulated(mode: str, seed: int) -> tuple[SimulatedFabric, list[Spines]]:
    fabric = four_by_four()
    number_of, flows = {nic.id: number for number, nic in enumerate(fabric.nics)}, permutation(fabric, seed)
    spines, chance = spines_of(fabric, flows, mode, seed), random.Random(seed)
    described = [
        Flow(number_of[flow.src_nic], number_of[flow.dst_nic], *mine) for flow, mine in zip(flows, spines, strict=True)
    ]
    return SimulatedFabric(described, RATE_BPS, lambda: chance.randrange(MS)), spines


@functools.cache
def after_a_cut(seed: int) -> SimulatedFabric:
    """Return the fabric after a cut under full load, with new rates 150 ms later."""
    fabric, spines = simulated("planned 4", seed)

    def change_rates() -> None:
        for number, flow in enumerate(fabric.flows):
            if CUT[0] in (flow.src // NICS_PER_LEAF, flow.dst // NICS_PER_LEAF):
                fabric.modify(number, RATE_BPS * 3 / 4, *spines[number].without(CUT[1]))

    fabric.at(CUT_MS * MS, lambda: fabric.cut.add(CUT))
    fabric.at((CUT_MS + NEW_RATES_MS) * MS, change_rates)
    fabric.run(END_MS * MS)
    return fabric


@pytest.mark.parametrize(
    "mode",
    [pytest.param("planned 1", marks=pytest.mark.soak), pytest.param("planned 2", marks=pytest.mark.soak), "planned 4"],
)
def test_planned_sets_lose_and_resend_nothing_and_have_their_rates(mode):
    fabric, _ = simulated(mode, 1)
    fabric.run(1_000 * MS)
    assert fabric.dropped_by_queue == 0
    assert sum(sender.requester.retransmitted_packets for sender in fabric.senders) == 0
    delivered = [receiver.responder.delivered_bytes for receiver in fabric.receivers]
    assert min(delivered) >= 0.98 * max(delivered)
    assert fabric.goodput_bps(4) >= 0.98 * BOUND_BPS


def test_sets_drawn_at_random_fill_some_links_and_lose_packets():
    fabric, _ = simulated("random 2", 1)
    fabric.run(1_000 * MS)
    delivered = [receiver.responder.delivered_bytes for receiver in fabric.receivers]
    assert fabric.dropped_by_queue > 0
    assert min(delivered) < 0.8 * max(delivered)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_under_full_load_costs_fewer_than_fifty_packets(seed):
    fabric = after_a_cut(seed)
    assert 0 < fabric.lost_on_cut < 50
    assert sum(sender.requester.retransmitted_packets for sender in fabric.senders) < 50
    assert fabric.dropped_by_queue == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_cut_cable_is_denied_and_within_150_ms(seed):
    fabric = after_a_cut(seed)
    denied = {
        (number, change.udp_source_port & 0xFF, change.state)
        for number, sender in enumerate(fabric.senders)
        for change in sender.paths.changes
        if CUT_MS * MS < change.at_ns < (CUT_MS + NEW_RATES_MS) * MS
    }
    assert len(denied) == sum(len(sender.paths.changes) for sender in fabric.senders)
    assert len(denied) <= TOUCHED_FLOWS
    assert {(spine, state) for _, spine, state in denied} == {(CUT[1], "denied")}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_200_ms_after_a_cut_fall_below_the_new_bound(seed):
    fabric = after_a_cut(seed)
    new_bound_bps = BOUND_BPS * (16 - TOUCHED_FLOWS / 4) / 16
    assert min(fabric.goodput_bps(index) for index in range(1, END_MS // 200)) >= 0.95 * new_bound_bps
