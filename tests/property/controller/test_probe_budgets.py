"""Probes that expire at a switch stay within its budget, however many agents send and whatever the hashes do."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.probe_sessions.budget import Budget, load_of, rates
from tests.support.examples import examples

SWITCHES = [f"s{number}" for number in range(5)]
QUESTIONS = st.lists(st.frozensets(st.sampled_from(SWITCHES), max_size=4), max_size=40)
ROUNDS = st.lists(st.tuples(st.dictionaries(st.integers(1, 6), QUESTIONS, max_size=5), st.floats(0, 1)), max_size=6)
CLOSE = 1e-6


@settings(max_examples=examples(60), deadline=None)
@given(QUESTIONS)
def test_the_load_is_each_question_once(questions):
    load = load_of(questions)
    assert abs(sum(load.values()) - sum(bool(each) for each in questions)) < CLOSE
    assert load.keys() == set().union(*questions)


@settings(max_examples=examples(60), deadline=None)
@given(ROUNDS, st.floats(1, 1_000), st.floats(1, 5_000))
def test_no_switch_is_expected_to_reply_faster_than_its_budget(rounds, switch_pps, agent_pps):
    budget, now_s, total = Budget(switch_pps), 0.0, Counter()
    for asked, idle_s in rounds:
        load = load_of(question for questions in asked.values() for question in questions)
        spread_s = budget.spread_s(load, now_s)
        numbers = {source: len(questions) for source, questions in asked.items() if questions}
        pace = rates(numbers, dict.fromkeys(numbers, agent_pps), spread_s)
        assert all(0 < pace[source] <= agent_pps for source in numbers)
        took_s = max((number / pace[source] for source, number in numbers.items()), default=0.0)
        assert took_s >= spread_s - CLOSE or not numbers
        now_s += took_s
        total.update(load)
        assert all(count <= switch_pps * now_s + CLOSE * len(SWITCHES) for count in total.values())
        now_s += idle_s


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.floats(1, 1_000))
def test_a_hash_that_leads_every_probe_over_one_switch_slows_the_search_to_the_rate_of_that_switch(batches, switch_pps):
    budget, now_s, replied = Budget(switch_pps), 0.0, 0
    for number in batches:
        load = load_of([frozenset(SWITCHES)] * number)
        now_s += budget.spread_s(load, now_s)
        assert replied <= switch_pps * now_s + CLOSE * number
        replied += number
        budget.correct(load, {SWITCHES[0]: number}, now_s)


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.integers(1, 9), st.integers(1, 99), min_size=1), st.floats(0.001, 10))
def test_agents_share_the_time_by_the_number_of_their_questions(numbers, spread_s):
    pace = rates(numbers, dict.fromkeys(numbers, 1e9), spread_s)
    assert all(abs(numbers[source] / pace[source] - spread_s) < CLOSE for source in numbers)
