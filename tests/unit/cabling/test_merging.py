"""What several sources say of a port: the newest change counts, what is repeated does not, silence says nothing."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.cabling.merging import HeardBy, Merged
from heddle.controller.model.cabling import Peer
from heddle.controller.model.fabric import PortRef

PORT = PortRef("leaf1", 1)
OLD, NEW, OTHER = Peer("spine1", 1), Peer("spine2", 1), Peer("spine3", 1)
FLOW, AGENT = HeardBy.OPENFLOW, HeardBy.AGENTS


def test_what_one_source_hears_counts():
    for source in HeardBy:
        merged = Merged()
        assert merged.update(source, {PORT: OLD}) == {PORT: OLD}
        assert merged.update(source, {PORT: OLD}) == {}
        assert merged.update(source, {PORT: NEW}) == {PORT: NEW}
        assert merged.update(source, {PORT: None}) == {PORT: None}


def test_the_newer_change_wins_whatever_its_source():
    merged = Merged()
    merged.update(FLOW, {PORT: OLD})
    merged.update(AGENT, {PORT: OLD})
    assert merged.update(AGENT, {PORT: NEW}) == {PORT: NEW}
    assert merged.update(FLOW, {PORT: OTHER}) == {PORT: OTHER}


def test_a_first_report_of_an_agent_is_not_newer_than_what_is_heard_now():
    merged = Merged()
    merged.update(FLOW, {PORT: NEW})
    assert merged.update(AGENT, {PORT: OLD}) == {}
    late = Merged()
    late.update(AGENT, {PORT: OLD})
    assert late.update(FLOW, {PORT: NEW}) == {PORT: NEW}


def test_silence_of_agents_leaves_what_openflow_hears_and_a_port_that_is_down_hears_nothing():
    merged = Merged()
    merged.update(FLOW, {PORT: OLD})
    merged.update(AGENT, {PORT: OLD})
    assert merged.update(AGENT, {PORT: None}) == {}
    merged.update(AGENT, {PORT: OLD})
    assert merged.update(FLOW, {PORT: None}) == {PORT: None}
    assert merged.update(AGENT, {PORT: NEW}) == {PORT: NEW}


def test_ports_past_the_limit_are_refused_and_counted_and_room_is_used_again():
    merged, second = Merged(max_ports=1), PortRef("leaf1", 2)
    merged.update(AGENT, {PORT: OLD})
    assert merged.update(AGENT, {second: NEW}) == {}
    assert merged.refused == 1
    merged.update(AGENT, {PORT: None})
    assert merged.update(AGENT, {second: NEW}) == {second: NEW}


CHANGES = st.lists(st.tuples(st.sampled_from(HeardBy), st.sampled_from((None, OLD, NEW, OTHER))), max_size=12)


@given(CHANGES)
def test_the_changes_returned_add_up_to_what_some_source_says_now(changes):
    merged, counts, last = Merged(), None, dict[HeardBy, Peer | None]()
    for source, peer in changes:
        counts = merged.update(source, {PORT: peer}).get(PORT, counts)
        last = {} if (source, peer) == (FLOW, None) else {**last, source: peer}
        said = {each for each in last.values() if each is not None}
        assert counts in said if said else counts is None
