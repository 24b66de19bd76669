"""What waits while the broker is away: bounded, and of each port the newest."""

from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.agent.outbox import Outbox
from tests.unit.telemetry.builders import sample


def names(batch):
    return batch[0], [(one.port, one.sequence) for one in batch[1]]


def test_a_newer_sample_takes_the_place_of_the_one_that_waits():
    outbox = Outbox()
    outbox.offer("t", [sample("leaf1:1", sequence=1), sample("leaf1:2", sequence=1)])
    outbox.offer("t", [sample("leaf1:1", sequence=2)])
    assert outbox.replaced == 1
    assert names(outbox.take()) == ("t", [("leaf1:1", 2), ("leaf1:2", 1)])
    assert outbox.take() is None


def test_a_port_that_finds_no_room_is_refused_and_counted():
    outbox = Outbox(most_ports=2)
    outbox.offer("t", [sample(f"leaf1:{n}") for n in (1, 2, 3)])
    assert len(outbox) == 2
    assert outbox.refused == 1


def test_topics_take_turns_when_one_has_more_than_a_message_holds():
    outbox = Outbox()
    outbox.offer("many", [sample(f"leaf1:{n}") for n in (1, 2, 3)])
    outbox.offer("few", [sample("leaf2:1")])
    assert [names(outbox.take(most=2))[0] for _ in range(3)] == ["many", "few", "many"]
    assert len(outbox) == 0


def test_what_could_not_be_sent_waits_again_unless_there_is_newer():
    outbox = Outbox()
    outbox.offer("t", [sample("leaf1:1", sequence=1), sample("leaf1:2", sequence=1)])
    taken = outbox.take()
    assert taken is not None
    outbox.offer("t", [sample("leaf1:2", sequence=2)])
    outbox.put_back(*taken)
    assert names(outbox.take()) == ("t", [("leaf1:2", 2), ("leaf1:1", 1)])
    assert outbox.replaced == 1


def test_nothing_offered_is_nothing_waiting():
    outbox = Outbox()
    outbox.offer("t", [])
    assert outbox.take() is None


@settings(max_examples=50)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("ab"), st.lists(st.integers(1, 6), max_size=4, unique=True)),
            st.integers(1, 3),
        ),
        max_size=40,
    )
)
def test_of_each_port_the_newest_comes_out_once_and_memory_is_bounded(steps):
    outbox, sequence, offered, taken = Outbox(most_ports=8), 0, {}, []
    counted = 0

    def take(most):
        batch = outbox.take(most)
        if batch is not None:
            assert 1 <= len(batch[1]) <= most
            for one in batch[1]:
                assert offered.pop((batch[0], one.port)) == one.sequence
                taken.append(one)

    for step in steps:
        if isinstance(step, int):
            take(step)
            continue
        topic, ports = step
        sequence += 1
        counted += len(ports)
        refused = outbox.refused
        for port in ports:
            outbox.offer(topic, [sample(f"leaf1:{port}", sequence=sequence)])
            if outbox.refused == refused:
                offered[topic, f"leaf1:{port}"] = sequence
            refused = outbox.refused
        assert len(outbox) == len(offered) <= 8
    while len(outbox):
        take(3)
    assert not offered
    assert counted == len(taken) + outbox.replaced + outbox.refused
