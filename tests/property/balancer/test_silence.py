"""A back end is closed only if it answers none of its connections while others answer theirs; most always stay open."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.balancer.silence import MAX_PAUSE, PAUSE, Conduct, Reading, observed

NAMES = "abcdef"
counts = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 300))


@st.composite
def histories(draw):
    """Readings of a service: some back ends answer, some never do, some join and leave, some change."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    mute = draw(st.sets(st.sampled_from(names)))
    history = []
    for _ in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 9)) == 0:
            mute = draw(st.sets(st.sampled_from(names)))
        present = names if draw(st.integers(0, 9)) else draw(st.sets(st.sampled_from(names)))
        history.append({name: _drawn(draw, name in mute) for name in sorted(present)})
    return history


def _drawn(draw, is_mute):
    opened = draw(counts)
    return Reading(opened, 0 if is_mute else draw(st.integers(opened * 3 // 4, opened + 1)))


def played(history):
    """Yield each step's readings, and the conduct before and after it."""
    state = {}
    for readings in history:
        before, state = state, observed(state, readings)
        yield readings, before, state


def is_closed(state, name):
    return name in state and state[name].pause > 0


@given(histories())
def test_at_most_a_third_is_closed_and_one_that_answers_stays(history):
    for readings, before, after in played(history):
        assert set(after) == set(readings)
        closed = {name for name in after if is_closed(after, name)}
        new = {name for name in closed if not is_closed(before, name)}
        if new:
            assert len(closed) <= max(1, len(after) // 3)
            assert len(closed) < len(after)
        assert not any(readings[name].answered for name in closed)


class Expected:
    """The rule for one back end, from whole lists: no code is shared."""

    def __init__(self):
        self.rows, self.pause, self.closings = [], 0, 0

    def take(self, reading):
        if self.pause:
            self.pause = 0 if reading.answered else self.pause - 1
            return
        self.rows.append((reading.opened, reading.answered))
        if reading.answered:
            self.closings = 0

    def span(self):
        last = self.rows[-11:]
        return next((age for age, (_, answered) in enumerate(reversed(last)) if answered), len(last))

    def unanswered(self):
        return sum(opened for opened, _ in self.rows[-self.span() :][:-1]) if self.span() else 0

    def within(self, span):
        rows = self.rows[-11:][-span:] if span else []
        answered = sum(answered for _, answered in rows)
        return (sum(opened for opened, _ in rows[:-1]), answered) if answered else (0, 0)

    def close(self):
        self.rows, self.pause = [], min(10 * 2**self.closings, 100)
        self.closings += 1


def close_expected(ends):
    suspects = []
    for name, end in ends.items():
        others = [other.within(end.span()) for key, other in ends.items() if key != name and not other.pause]
        opened, answered = map(sum, zip((0, 0), *others, strict=True))
        if not end.pause and end.unanswered() >= 20 and answered >= 10 and 4 * answered >= 3 * opened:
            suspects.append(name)
    for name in sorted(suspects, key=lambda each: (-ends[each].unanswered(), each)):
        if sum(end.pause > 0 for end in ends.values()) < max(1, len(ends) // 3):
            ends[name].close()


@given(histories())
def test_it_closes_what_the_rule_says_and_for_as_long(history):
    ends = {}
    for readings, _, after in played(history):
        ends = {name: ends.get(name, Expected()) for name in readings}
        for name, end in ends.items():
            end.take(readings[name])
        close_expected(ends)
        assert {name: each.pause for name, each in after.items()} == {name: end.pause for name, end in ends.items()}


def service(**opened):
    """Return readings: `a=5` answers its five connections, `A=5` none of them."""
    return {name.lower(): Reading(count, count if name.islower() else 0) for name, count in opened.items()}


def after(*steps):
    state = {}
    for step in steps:
        state = observed(state, step)
    return state


def test_a_frozen_back_end_is_closed_one_reading_after_its_unanswered_connections():
    assert not is_closed(after(service(a=20, B=20)), "b")
    assert is_closed(after(service(a=20, B=20), service(a=0, B=0)), "b")
    assert not is_closed(after(service(a=20, B=19), service(a=5, B=5)), "b")
    assert not is_closed(after(service(a=20, b=20), service(a=5, B=5)), "b")


def test_none_is_closed_while_no_other_one_answers():
    for steps in ([service(A=90, B=90)] * 30, [service(A=90)] * 30):
        assert not any(each.pause for each in after(*steps).values())


def test_one_answer_keeps_a_back_end_that_a_client_floods():
    flooded = {"a": Reading(500, 500), "b": Reading(500, 1)}
    assert not any(each.pause for each in after(*[flooded] * 30).values())


def test_a_flood_over_all_of_them_closes_none():
    flooded = {"a": Reading(500, 40), "b": Reading(500, 0), "c": Reading(500, 44)}
    assert not any(each.pause for each in after(*[flooded] * 30).values())


def test_each_closing_in_a_row_lasts_longer_and_an_answer_opens_at_once():
    state, pauses = {}, []
    for _ in range(2000):
        was = is_closed(state, "b")
        state = observed(state, service(a=30, B=0 if was else 30))
        if is_closed(state, "b") and not was:
            pauses.append(state["b"].pause)
    assert pauses[:5] == [PAUSE, 2 * PAUSE, 4 * PAUSE, 8 * PAUSE, MAX_PAUSE]
    state = {**state, "b": Conduct(closings=3, pause=7)}
    state = observed(state, {"a": Reading(30, 30), "b": Reading(0, 1)})
    assert not is_closed(state, "b")
    assert observed(state, service(a=1, b=1))["b"].closings == 0
