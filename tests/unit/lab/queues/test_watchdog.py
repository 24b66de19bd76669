"""The PFC watchdog: when it trips and restores, and that its discards leave every counter exact."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.queues.attach import QUEUE_WORDS
from heddle.mininet_topos.queues.discards import Discards
from heddle.mininet_topos.queues.watchdog import Watchdog

DETECTION, RESTORATION = 20, 30

Moment = tuple[int, bool, bool]
"""The time since the last step, whether the queue is paused during it, and whether it sent a packet."""
MOMENTS = st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.integers(0, 7).map(lambda n: n == 0)), max_size=60)


def expected(moments: list[Moment]) -> list[bool]:
    """Return after each moment whether the queue is stormed, from the sequence of all times so far."""
    found, stormed, paused_for, unpaused_for = [], False, 0, 0
    for index, (length, paused, sent) in enumerate(moments):
        was_paused = index > 0 and moments[index - 1][1]
        paused_for = 0 if not paused or sent or not was_paused else paused_for + length
        unpaused_for = 0 if paused else unpaused_for + length
        stormed = unpaused_for < RESTORATION if stormed else paused and paused_for >= DETECTION
        found.append(stormed)
    return found


@given(MOMENTS)
def test_it_trips_after_a_detection_time_of_pause_without_a_packet_and_restores_after_one_without_pause(moments):
    watchdog, now, since, sent, found = Watchdog(np.array([DETECTION]), RESTORATION), 0, -1, 0, []
    for length, paused, sends in moments:
        now, sent = now + length, sent + sends
        since = -1 if not paused else now if since < 0 else since  # a pause is seen when it begins
        watchdog.step(np.array([since]), np.array([sent]), now)
        found.append(bool(watchdog.stormed[0]))
    assert found == expected(moments)
    changes = [after for before, after in zip([False, *found], found, strict=False) if before != after]
    assert (watchdog.trips.sum(), watchdog.restores.sum()) == (changes.count(True), changes.count(False))


class ModelSwitch:
    """One switch of three ports and the counters that its programs keep; frames are (ingress port, size)."""

    def __init__(self) -> None:
        self.table = np.zeros((3, 8), [(word, "<i8") for word in QUEUE_WORDS])
        self.queue: dict[int, list[tuple[int, int]]] = {port: [] for port in range(3)}
        self.crossed: dict[tuple[int, int], int] = {}
        self.discarding: set[int] = set()
        self.discards = Discards(self.table)
        self.offered = self.sent = self.cable_lost = 0

    def arrive(self, ingress: int, egress: int, size: int) -> None:
        row = self.table[egress, 3]
        self.offered += 1
        if egress in self.discarding:
            row["dropped_packets"] += 1
            return
        row["enqueued_packets"] += 1
        row["enqueued_bytes"] += size
        self.table[ingress, 3]["arrived_bytes"] += size
        self.crossed[ingress, egress] = self.crossed.get((ingress, egress), 0) + size
        self.queue[egress].append((ingress, size))

    def depart(self, egress: int) -> None:
        if self.queue[egress]:
            ingress, size = self.queue[egress].pop(0)
            self.table[egress, 3]["sent_packets"] += 1
            self.table[egress, 3]["dequeued_bytes"] += size
            self.table[ingress, 3]["departed_bytes"] += size
            self.crossed[ingress, egress] -= size
            self.sent += 1

    def toggle_storm(self, egress: int) -> None:
        if egress in self.discarding:
            self.discards.settle(egress, 3, self.held(egress))
            self.discarding.remove(egress)
            self.discards.end(egress, 3)
        else:
            self.discards.begin(egress, 3)
            self.discarding.add(egress)
            self.queue[egress].clear()
            self.discards.settle(egress, 3, self.held(egress))

    def pull_cable(self, egress: int) -> None:
        """Lose a queue's frames, whose bytes are written off from its depth and their ingress ports."""
        lost_bytes = sum(size for _, size in self.queue[egress])
        self.cable_lost += len(self.queue[egress])
        self.queue[egress].clear()
        self.discards.forget(egress, 3, self.held(egress), lost_bytes)

    def held(self, egress: int) -> dict[int, int]:
        return {ingress: count for (ingress, queue), count in self.crossed.items() if queue == egress}

    def check(self) -> None:
        rows = self.table[:, 3]
        depth = rows["enqueued_bytes"] - rows["dequeued_bytes"] - rows["written_off_bytes"]
        inside = rows["arrived_bytes"] - rows["departed_bytes"] - rows["arrived_written_off_bytes"]
        frames = [frame for queue in self.queue.values() for frame in queue]
        assert depth.tolist() == [sum(size for _, size in self.queue[port]) for port in range(3)]
        assert inside.tolist() == [sum(size for ingress, size in frames if ingress == port) for port in range(3)]
        dropped = int(rows["dropped_packets"].sum() + self.discards.packets.sum())
        assert self.offered == self.sent + dropped + len(frames) + self.cable_lost
        assert self.discards.watchdog_packets().sum() == dropped


PORTS = st.integers(0, 2)
ACTIONS = st.one_of(
    st.tuples(st.just("arrive"), PORTS, PORTS, st.integers(64, 4200)),
    st.tuples(st.sampled_from(["depart", "depart", "toggle_storm", "pull_cable"]), PORTS),
)


@given(st.lists(ACTIONS, max_size=60))
def test_depths_occupancies_and_drops_stay_exact_whatever_the_watchdog_discards(actions):
    switch = ModelSwitch()
    for name, *arguments in actions:
        getattr(switch, name)(*arguments)
        switch.check()
