"""Whatever an agent reports, only replies to its probes count, each probe once; an honest report counts whole."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.probe_sessions.assembly import Lie, heard
from heddle.probing.probe import Question
from tests.support.examples import examples

QUESTION = st.builds(Question, st.integers(1, 3), st.integers(50_000, 50_003), st.integers(1, 3))
REPLIES = st.lists(st.none() | st.tuples(QUESTION, st.integers(1, 4)), max_size=30)
ASKED = st.frozensets(QUESTION, max_size=12)


@settings(max_examples=examples(100), deadline=None)
@given(ASKED, REPLIES)
def test_only_questions_of_the_order_without_a_contradiction_count(asked, replies):
    found, lies = heard(asked, replies)
    said = {}
    for reply in replies:
        if reply is not None:
            said.setdefault(reply[0], set()).add(reply[1])
    assert found == {question: min(said[question]) for question in asked & said.keys() if len(said[question]) == 1}
    assert lies[Lie.MALFORMED] == replies.count(None)
    assert lies[Lie.UNASKED_QUESTION] == sum(reply is not None and reply[0] not in asked for reply in replies)


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(QUESTION, st.integers(1, 4)), ASKED)
def test_an_honest_report_counts_whole(replies, silent):
    found, lies = heard(frozenset(replies) | silent, list(replies.items()))
    assert found == replies
    assert not lies
