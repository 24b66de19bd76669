"""Whatever is delayed, lost or stopped: at no time do two controllers hold the leader's lease by their own clocks."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heddle.controller.model.lease_clock import LeaseClock, granted

TTL_NS = 2_000
NUMBERS = st.integers(0, 2)
TIMES = st.integers(0, 1_500)


class Store:
    """The store's side, written independently: one holder, until its time is over."""

    def __init__(self):
        self.holder = None
        self.until = 0

    def request(self, who, now, *, first):
        if self.holder is not None and now >= self.until:
            self.holder = None
        if first and self.holder is None:
            self.holder = who
        if self.holder != who:
            return False
        self.until = now + TTL_NS
        return True


class Leases(RuleBasedStateMachine):
    """Three controllers, and requests that take any time to and from the store. Each term is a lease of its own."""

    def __init__(self):
        super().__init__()
        self.now = 0
        self.store = Store()
        self.terms = [0, 0, 0]
        self.clocks: list[LeaseClock | None] = [None, None, None]
        self.sent = []
        self.replies = []

    def name(self, number):
        return number, self.terms[number]

    @rule(passed=TIMES)
    def time_passes(self, passed):
        self.now += passed

    @rule(number=NUMBERS)
    def a_controller_sends_a_request(self, number):
        clock = self.clocks[number]
        if clock is not None and not clock.holds(self.now):
            self.clocks[number] = clock = None
            self.terms[number] += 1
        self.sent.append((self.name(number), self.now, clock is None))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def a_request_reaches_the_store(self, data):
        who, sent, first = self.sent.pop(data.draw(st.integers(0, len(self.sent) - 1)))
        if self.store.request(who, self.now, first=first):
            self.replies.append((who, sent, first))

    @precondition(lambda self: self.replies)
    @rule(data=st.data())
    def a_reply_reaches_its_controller(self, data):
        who, sent, first = self.replies.pop(data.draw(st.integers(0, len(self.replies) - 1)))
        number, term = who
        if term != self.terms[number]:
            return
        clock = self.clocks[number]
        if clock is not None:
            self.clocks[number] = clock.kept(sent, TTL_NS, self.now)
        elif first:
            self.clocks[number] = granted(sent, TTL_NS)

    @precondition(lambda self: self.sent)
    @rule()
    def a_request_is_lost(self):
        self.sent.pop()

    @invariant()
    def who_holds_it_by_its_own_clock_holds_it_in_the_store(self):
        for number, clock in enumerate(self.clocks):
            if clock is not None and clock.holds(self.now):
                assert self.store.holder == self.name(number)
                assert self.now < self.store.until


TestLeases = Leases.TestCase


def test_a_lease_that_has_ended_does_not_begin_again():
    ended = granted(0, TTL_NS).kept(sent_ns=TTL_NS - 1, ttl_ns=TTL_NS, now_ns=TTL_NS)
    assert not ended.holds(TTL_NS)


def test_a_reply_to_an_older_request_shortens_nothing():
    later = granted(0, TTL_NS).kept(sent_ns=500, ttl_ns=TTL_NS, now_ns=600)
    assert later.kept(sent_ns=100, ttl_ns=TTL_NS, now_ns=700).ends_ns == later.ends_ns
