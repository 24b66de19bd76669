"""Whether a partner that is not heard may serve on: until that is ruled out, no segment is reset."""

from tests.unit.dataplane.pair.member import NONE, A, Member


def silent(**more):
    """Return a member that has taken over from a partner that served and fell silent."""
    member = Member(me="b", more=more)
    member.hear(holds=A)
    return member.holding()


def test_a_partner_that_fell_silent_may_serve_on_for_a_limited_time():
    member = silent(silent_ticks=20)
    allowed = 0
    while member.core.partner_may_serve:
        member.ticks(1)
        allowed += 1
    assert (member.core.holds, allowed) == (A, 20)


def test_a_partner_of_which_no_process_listens_serves_nothing():
    member = Member(me="b")
    member.hear(holds=A)
    member.ticks(2)
    member.core.partner_gone()
    assert (member.core.holds, member.core.partner_may_serve) == (A, False)


def test_a_silent_partner_whose_process_is_found_to_be_gone_serves_nothing():
    member = silent()
    assert member.core.partner_may_serve
    member.core.partner_gone()
    assert not member.core.partner_may_serve


def test_a_standby_that_fell_silent_may_have_taken_over():
    member = Member(me="a")
    member.hear(holds=NONE)
    assert member.holding().core.partner_may_serve


def test_a_partner_that_claims_what_is_held_here_serves_it_too():
    member = Member(me="a").holding()
    member.hear(holds=A)
    assert member.core.partner_may_serve


def test_a_partner_that_was_never_heard_serves_nothing():
    assert not Member(me="a").holding().core.partner_may_serve


def test_a_partner_that_is_heard_again_and_claims_nothing_serves_nothing():
    member = silent()
    member.hear(holds=NONE)
    assert not member.core.partner_may_serve
