"""How long a switch may take for a barrier: more behind many rules, and more after each time that it was cut."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.southbound.pace import Pace
from heddle.controller.southbound.settings import SouthboundSettings

SETTINGS = SouthboundSettings(barrier_timeout_s=3.0, max_barrier_timeout_s=1e9)
RULES = st.integers(0, 20_000)


def installed(pace: Pace, rules: int, true_rules_per_s: float, latency_s: float) -> int:
    """Send rules to a switch of that rate until a barrier is in time; return how often its session was cut.

    A switch that was cut has processed what it could: the rest is sent again.
    """
    cuts, left = 0, rules
    while True:
        limit_s, takes_s = pace.limit_s(left), latency_s + left / true_rules_per_s
        if takes_s <= limit_s:
            pace.replied(left, takes_s)
            return cuts
        pace.missed(left)
        cuts += 1
        left = max(0, left - int(max(0.0, limit_s - latency_s) * true_rules_per_s))


@given(few=RULES, more=RULES, rate=st.floats(1, 1e5), cuts=st.integers(0, 8))
def test_the_limit_grows_with_the_rules_outstanding(few, more, rate, cuts):
    pace = Pace(SETTINGS)
    pace.replied(1_000, 1_000 / rate)
    for _ in range(cuts):
        pace.missed(0)
    assert pace.limit_s(few + more) >= pace.limit_s(few) >= SETTINGS.barrier_timeout_s


@given(rules=RULES, cuts=st.integers(0, 10))
def test_the_limit_doubles_with_each_cut(rules, cuts):
    pace = Pace(SETTINGS)
    whole = pace.limit_s(rules)
    for _ in range(cuts):
        pace.missed(rules)
    assert pace.limit_s(rules) == whole * 2**cuts


@given(
    batches=st.lists(st.integers(0, 5_000), min_size=1, max_size=8), rate=st.floats(2, 1e5), latency=st.floats(0, 20)
)
def test_a_switch_of_any_rate_is_not_cut_in_a_loop(batches, rate, latency):
    pace = Pace(SETTINGS)
    cuts = [installed(pace, rules, rate, latency) for rules in batches]
    assert sum(cuts) <= 8 + 4 * len(batches)
    assert max(cuts) <= 8


@given(rules=st.integers(20, 5_000), rate=st.floats(50, 1e5), factor=st.floats(1, 2.9))
def test_a_switch_that_was_measured_may_become_slower_without_being_cut(rules, rate, factor):
    pace = Pace(SETTINGS)
    pace.replied(rules, rules / rate)
    assert pace.limit_s(rules) > factor * rules / rate


def test_the_limit_is_as_before_once_as_many_rules_are_acknowledged_as_were_missed():
    pace = Pace(SETTINGS)
    pace.missed(500)
    pace.replied(300, 1.0)
    assert pace.cuts == 1
    pace.replied(200, 1.0)
    assert pace.cuts == 0


def test_a_lower_rate_counts_at_once_and_a_higher_one_by_and_by():
    pace = Pace(SETTINGS)
    pace.replied(1_000, 1.0)
    pace.replied(1_000, 10.0)
    assert pace.rules_per_s == 100
    pace.replied(1_000, 1.0)
    assert 100 < pace.rules_per_s < 1_000


def test_the_limit_has_a_limit():
    pace = Pace(SouthboundSettings(max_barrier_timeout_s=60.0))
    for _ in range(100):
        pace.missed(10**6)
    assert pace.limit_s(10**6) == 60.0
