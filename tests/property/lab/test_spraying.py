"""Packets sprayed over paths that lose, repeat, reorder and fail all arrive, each once; no path stays out of use."""

from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.mininet_topos.nic.spray.paths import ACTIVE, PathSet
from tests.support.packets.queue_pair_ends import MS
from tests.support.packets.sprayed import FIRST_PORT, Network, Trial, paths, spray_receiver, spray_sender

FIRST_PSN = 0xFFFFF0
HEALED_MS = 3_000
outages = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1_500), st.integers(1, 1_500)), max_size=6)


def networks(seed: int, loss: float, repeat: float, delay_ms: int, down: list[tuple[int, int, int]]):
    """Return both directions; from `HEALED_MS` on, all paths are up and nothing is lost."""
    there, back = Network(seed, loss, repeat, delay_ms), Network(seed + 1, loss, repeat, delay_ms)

    def delivers(port: int, now_ms: int) -> bool:
        is_down = any(port - FIRST_PORT == path and begin <= now_ms < begin + length for path, begin, length in down)
        return now_ms >= HEALED_MS or not is_down

    there.delivers = back.delivers = delivers
    return there, back


@given(
    packets=st.integers(1, 200),
    count=st.integers(1, 4),
    window=st.integers(1, 200),
    seed=st.integers(0, 2**32),
    loss=st.sampled_from((0.0, 0.02, 0.2)),
    repeat=st.sampled_from((0.0, 0.2)),
    delay_ms=st.sampled_from((0, 5, 60)),
    down=outages,
)
@settings(max_examples=40)
def test_every_packet_arrives_once_whatever_paths_do(packets, count, window, seed, loss, repeat, delay_ms, down):
    there, back = networks(seed, loss, repeat, delay_ms, down)
    trial = Trial(spray_sender(packets, count, window=window), spray_receiver(), there, back)
    while trial.sender.requester.completed_ns is None:
        assert trial.now_ms < 60_000
        trial.step()
        if trial.now_ms == HEALED_MS:
            there.loss = back.loss = 0.0
        assert any(path.state == ACTIVE for path in trial.sender.paths.paths)
    assert Counter(trial.accepted) == Counter(FIRST_PSN + n & 0xFFFFFF for n in range(packets))
    assert trial.receiver.responder.delivered_bytes == packets * 256
    assert [path.in_flight for path in trial.sender.paths.paths] == [0] * count


@given(seed=st.integers(0, 2**32), count=st.integers(2, 4), down=outages)
@settings(max_examples=5)
def test_all_paths_are_active_again_after_all_are_repaired(seed, count, down):
    there, back = networks(seed, 0.0, 0.0, 3, down)
    trial = Trial(spray_sender(100_000, count), spray_receiver(), there, back)
    trial.run(HEALED_MS + 2_000)
    assert [path.state for path in trial.sender.paths.paths] == [ACTIVE] * count
    assert trial.sender.requester.acknowledged > 0


@given(packets=st.integers(1, 300), count=st.integers(1, 4), window=st.integers(1, 200), delay_ms=st.integers(0, 15))
@settings(max_examples=40)
def test_reordering_alone_resends_nothing_and_denies_no_path(packets, count, window, delay_ms):
    there, back = Network(1, 0.0, 0.0, delay_ms), Network(2, 0.0, 0.0, delay_ms)
    trial = Trial(spray_sender(packets, count, window=window), spray_receiver(), there, back)
    trial.run(60_000)
    requester = trial.sender.requester
    assert (requester.tx_packets, requester.retransmitted_packets) == (packets, 0)
    assert (requester.local_ack_timeout_err, len(trial.sender.paths.changes)) == (0, 0)


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), rounds=st.integers(1, 3))
def test_paths_take_turns_by_weight_and_their_counts_stay_near_it(weights, rounds):
    chosen, total = PathSet(paths(len(weights), dict(enumerate(weights)))), sum(weights)
    turns = [chosen.next().udp_source_port - FIRST_PORT for _ in range(rounds * total)]
    assert Counter(turns) == Counter({path: rounds * weight for path, weight in enumerate(weights) if weight})
    for path, weight in enumerate(weights):
        counts = accumulate(turn == path for turn in turns)
        assert all(abs(count - sent * weight / total) < len(weights) for sent, count in enumerate(counts, start=1))


sets = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), min_size=1, max_size=6, unique_by=lambda each: each[0])


@given(events=st.lists(st.one_of(st.integers(0, 7), sets), max_size=40))
def test_whatever_sets_follow_one_path_with_a_weight_is_active_and_denied_ones_are_probed(events):
    chosen, now_ns = PathSet(paths(8)), 0
    for event in events:
        now_ns += 70 * MS
        if isinstance(event, int):
            chosen.deny(chosen.paths[event % len(chosen.paths)], now_ns, "test")
            continue
        wanted = [{"udp_source_port": FIRST_PORT + path, "weight": weight} for path, weight in event]
        before = [path.weight for path in chosen.paths]
        if not any(weight for _, weight in event):
            with pytest.raises(ValueError, match="the weights of all paths are 0"):
                chosen.replace(wanted)
            assert [path.weight for path in chosen.paths] == before
            continue
        chosen.replace(wanted)
        listed, watched = chosen.paths[: len(event)], chosen.paths[len(event) :]
        assert [(path.udp_source_port - FIRST_PORT, path.weight) for path in listed] == event
        assert all(path.weight == 0 and path.state != ACTIVE for path in watched)
        turn = chosen.next()
        assert (turn.state, turn.weight > 0) == (ACTIVE, True)
        assert all(path.probe_due_ns < float("inf") for path in chosen.paths if path.state != ACTIVE)


def test_a_denied_path_that_a_set_leaves_out_is_probed_and_active_at_once_in_a_later_set():
    chosen = PathSet(paths(3))
    left_out = chosen.paths[1]
    chosen.deny(left_out, 0, "test")
    chosen.replace([paths(3)[0], paths(3)[2]])
    assert chosen.next_probe(200 * MS) == (left_out, 1)
    chosen.replace(paths(3))
    assert (left_out.state, left_out.weight) == (ACTIVE, 1)
    assert chosen.paths[1] is left_out


@given(count=st.integers(2, 8), events=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=60))
def test_one_path_stays_active_whatever_is_denied(count, events):
    chosen, now_ns = PathSet(paths(count)), 0
    for path, is_probed in events:
        now_ns += 70 * MS
        chosen.deny(chosen.paths[path % count], now_ns, "test")
        if is_probed and (probe := chosen.next_probe(now_ns)) is not None:
            chosen.probed(probe[0], now_ns)
            chosen.probe_returned(probe[1], now_ns)
        assert chosen.next().state == ACTIVE
        assert all(other.probe_due_ns < float("inf") for other in chosen.paths if other.state != ACTIVE)
