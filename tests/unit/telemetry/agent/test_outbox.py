"""The outbox while the broker is unreachable: bounded, with the newest sample of each port."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.telemetry.agent.outbox import Outbox
from tests.support.examples import examples
from tests.unit.telemetry.builders import sample


def names(batch):
    return batch[0], [(one.port, one.sequence) for one in batch[1]]


def test_a_newer_sample_replaces_the_pending_one():
    outbox = Outbox()
    outbox.offer("t", [sample("leaf1:1", sequence=1), sample("leaf1:2", sequence=1)])
    outbox.offer("t", [sample("leaf1:1", sequence=2)])
    assert outbox.replaced == 1
    assert names(outbox.take()) == ("t", [("leaf1:1", 2), ("leaf1:2", 1)])
    assert outbox.take() is None


def test_a_port_over_the_limit_is_refused_and_counted():
    outbox = Outbox(max_ports=2)
    outbox.offer("t", [sample(f"leaf1:{n}") for n in (1, 2, 3)])
    assert len(outbox) == 2
    assert outbox.refused == 1


def test_topics_take_turns_when_one_has_more_than_a_message_holds():
    outbox = Outbox()
    outbox.offer("many", [sample(f"leaf1:{n}") for n in (1, 2, 3)])
    outbox.offer("few", [sample("leaf2:1")])
    assert [names(outbox.take(limit=2))[0] for _ in range(3)] == ["many", "few", "many"]
    assert len(outbox) == 0


def test_unsent_samples_are_queued_again_unless_a_newer_one_is_pending():
    outbox = Outbox()
    outbox.offer("t", [sample("leaf1:1", sequence=1), sample("leaf1:2", sequence=1)])
    taken = outbox.take()
    assert taken is not None
    outbox.offer("t", [sample("leaf1:2", sequence=2)])
    outbox.put_back(*taken)
    assert names(outbox.take()) == ("t", [("leaf1:2", 2), ("leaf1:1", 1)])
    assert outbox.replaced == 1


def test_an_empty_outbox_returns_none():
    outbox = Outbox()
    outbox.offer("t", [])
    assert outbox.take() is None


@settings(max_examples=examples(50))
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
    outbox, sequence, offered, taken = Outbox(max_ports=8), 0, {}, []
    counted = 0

    def take(limit):
        batch = outbox.take(limit)
        if batch is not None:
            assert 1 <= len(batch[1]) <= limit
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
