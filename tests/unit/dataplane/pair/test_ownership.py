"""The rules of ownership, one member and one heartbeat at a time; `tests/property/gateway` has both and a network."""

import pytest

from heddle.dataplane.control.pair.heartbeat import Heartbeat
from heddle.dataplane.control.pair.ownership import (
    DEAF_HEARTBEATS,
    GIVEN_MARGIN_TICKS,
    GONE_TICKS,
    OFFER_TICKS,
    VACANT_TICKS,
    Announce,
    Ownership,
    SendHeartbeat,
    Serve,
    Terms,
)
from tests.unit.dataplane.pair.member import NONE, A, B, Member, announced, beat_of, kinds


@pytest.mark.parametrize(
    ("me", "partner", "roles"), [("a", "a", A), ("a", "b", frozenset({"c"})), ("a", "b", A | {"c"})]
)
def test_a_pair_is_two_members_with_roles_of_their_names(me, partner, roles):
    with pytest.raises(
        ValueError, match=r"^a pair has two different members, and each role is named after one of them$"
    ):
        Ownership(Terms(me=me, partner=partner, roles=roles), boot=1)


def test_the_limits_that_the_rules_name_are_these():
    assert (VACANT_TICKS, DEAF_HEARTBEATS, OFFER_TICKS, GONE_TICKS) == (3, 3, 20, 2)


def test_a_new_member_holds_nothing_and_says_so():
    member = Member()
    assert (member.core.hears_partner, member.core.partner_holds, member.core.holds) == (False, NONE, NONE)
    assert (member.core.takeovers, member.core.conflicts, member.core.ignored) == (0, 0, 0)
    assert member.sent() == Heartbeat(
        sender="a",
        receiver="b",
        boot=7,
        sequence=1,
        hears=False,
        well=True,
        holds=NONE,
        offers=NONE,
        wants=NONE,
        knows=NONE,
    )
    assert member.sent().sequence == 2


def test_all_roles_are_taken_in_the_sixth_tick_without_a_heartbeat():
    member = Member(me="b", roles=A | B)
    assert [kinds(effects) for effects in member.ticks(5)] == [[SendHeartbeat]] * 5
    effects = member.core.tick()
    assert effects[:2] == [Serve(A | B), Announce()]
    beat = beat_of(effects)
    assert (kinds(effects)[2:], beat.holds, beat.knows) == ([SendHeartbeat], A | B, A | B)
    assert member.core.takeovers == 1


def test_a_heartbeat_starts_the_count_anew():
    member = Member(me="b")
    member.ticks(5)
    member.hear(holds=A)
    member.ticks(5)
    assert (member.core.hears_partner, member.core.partner_holds, member.core.holds) == (True, A, NONE)
    member.core.tick()
    assert (member.core.hears_partner, member.core.partner_holds, member.core.holds) == (False, NONE, A)


def test_how_many_ticks_may_be_missed_is_a_parameter():
    member = Member(me="b", more={"missed": 2})
    member.ticks(2)
    assert member.core.holds == NONE
    member.core.tick()
    assert member.core.holds == A


def test_a_takeover_is_announced_again_at_the_ticks_named():
    member = Member()
    member.hear(holds=A, offers=A)
    assert member.core.holds == A
    member.hear()
    assert announced(member, 70) == [2, 6, 20, 60]


def test_what_is_no_longer_held_is_not_announced_again():
    member = Member(me="b").holding()
    member.hear(holds=A)
    assert member.core.holds == NONE
    assert announced(member, 5) == []


def test_a_refused_heartbeat_counts_from_the_second_tick_of_silence_on():
    member = Member(me="b")
    assert member.core.partner_gone() == []  # nothing was ever heard
    member.hear(holds=A)
    for _ in range(GONE_TICKS - 1):
        member.core.tick()
        assert member.core.partner_gone() == []
    member.core.tick()
    effects = member.core.partner_gone()
    assert effects[:2] == [Serve(A), Announce()]
    assert kinds(effects) == [Serve, Announce, SendHeartbeat]
    assert member.core.hears_partner is False
    assert member.core.partner_gone() == []


def test_a_refused_heartbeat_announces_again_what_both_held():
    member = Member().holding()
    member.hear(holds=A)
    assert announced(member, 3) == [1]  # the second tick after the takeover
    assert kinds(member.core.partner_gone()) == [Announce, SendHeartbeat]
    assert announced(member, 3) == [2]


def test_silence_announces_again_what_both_held():
    member = Member(more={"announce_ticks": ()}).holding()
    member.hear(holds=A)
    assert announced(member, 12) == [6]


def test_a_partner_that_yields_makes_the_holder_announce_again():
    member = Member(more={"announce_ticks": (2,)}).holding()
    member.hear(holds=A)
    member.ticks(4)
    assert kinds(member.hear()) == [Announce]
    assert announced(member, 4) == [2]
    assert member.hear() == []


@pytest.mark.parametrize(
    ("me", "mine", "theirs", "ticks"),
    [
        ("a", True, True, 0),
        ("a", False, False, 0),
        ("a", True, False, 0),
        ("a", False, True, VACANT_TICKS),
        ("b", True, True, VACANT_TICKS),
        ("b", False, False, VACANT_TICKS),
        ("b", True, False, 0),
        ("b", False, True, VACANT_TICKS),
    ],
)
def test_a_free_role_goes_to_who_knows_its_connections_then_to_its_owner_and_last_to_the_other(me, mine, theirs, ticks):
    member = Member(me=me)
    if mine:
        member.core.set_copied(True)
        member.hear(holds=A)  # what the partner serves is copied here
        member.core.set_copied(False)
    member.hear(knows=A if theirs else NONE)
    for _ in range(ticks):
        assert member.core.holds == NONE
        member.core.tick()
    assert member.core.holds == A


def test_what_was_free_for_a_while_counts_anew_once_it_was_held():
    member = Member(me="b")
    member.hear(knows=A)
    member.ticks(VACANT_TICKS - 1)
    member.hear(holds=A)
    member.hear(knows=A)
    member.ticks(VACANT_TICKS - 1)
    assert member.core.holds == NONE
    member.core.tick()
    assert member.core.holds == A


def test_a_free_role_of_a_partner_that_does_not_forward_is_taken_at_once():
    member = Member(me="b")
    assert kinds(member.hear(well=False, knows=A)) == [Serve, Announce, SendHeartbeat]


@pytest.mark.parametrize("fields", [{"offers": A}, {"well": False}])
def test_what_a_partner_offers_or_cannot_serve_is_taken_at_once(fields):
    member = Member(me="b")
    member.hear(holds=A)
    assert member.core.holds == NONE
    member.hear(holds=A, **fields)
    assert (member.core.holds, member.core.takeovers, member.core.conflicts) == (A, 1, 0)


def test_the_owner_keeps_what_both_hold_and_the_other_yields():
    owner, other = Member().holding(), Member(me="b").holding()
    assert owner.hear(holds=A) == []
    effects = other.hear(holds=A)
    assert effects[0] == Serve(NONE)
    assert kinds(effects) == [Serve, SendHeartbeat]
    assert (owner.core.holds, owner.core.conflicts, other.core.holds, other.core.conflicts) == (A, 0, NONE, 1)
    assert other.core.takeovers == 1  # to yield is none


def together(copy_ticks=50):
    """Return a member that is to yield what both hold, and has just heard its partner again."""
    member = Member(me="b", more={"copy_ticks": copy_ticks}).holding()
    member.hear(holds=A)
    return member


def pass_ticks(member, ages):
    """Pass a tick for each age of the partner's copy; return in which, from 1 on, the role is yielded."""
    for number, age in enumerate(ages, 1):
        member.core.set_given(age)
        member.hear(holds=A)
        member.core.tick()
        if not member.core.holds:
            return number
    return None


def test_a_member_serves_on_until_the_partner_has_its_connections():
    assert pass_ticks(together(), [None] * 30) is None
    assert pass_ticks(together(), [None] * 10 + [0] * 5) == 11


def test_a_copy_of_before_the_partner_was_heard_again_does_not_count():
    assert pass_ticks(together(), range(7, 37)) is None
    assert pass_ticks(together(), [7, 8, 9, 5, 4, 3]) == 6
    assert pass_ticks(together(), [0] * 9) == GIVEN_MARGIN_TICKS


def test_without_a_copy_a_member_yields_after_a_limit():
    assert pass_ticks(together(copy_ticks=20), [None] * 30) == 20


def test_an_interruption_makes_an_older_copy_count_no_more():
    member = together()
    pass_ticks(member, [None] * 10)
    member.core.set_given(4)
    member.ticks(6)
    assert (member.core.hears_partner, member.core.holds) == (False, A)
    member.hear(holds=A)
    assert pass_ticks(member, [7, 8, 9, 10]) is None


def test_the_limit_is_six_hundred_ticks_where_none_is_given():
    assert Terms(me="a", partner="b", roles=A).copy_ticks == 600


def test_takeovers_and_conflicts_are_counted():
    member = Member(me="b")
    for count in (1, 2):
        member.ticks(6)
        member.hear(holds=A)
        assert (member.core.takeovers, member.core.conflicts) == (count, count)


def test_the_owner_yields_to_a_partner_that_reports_three_times_in_a_row_that_it_does_not_hear():
    owner = Member().holding()
    for _ in range(DEAF_HEARTBEATS - 1):
        owner.hear(holds=A, hears=False)
    owner.hear(holds=A)
    for _ in range(DEAF_HEARTBEATS - 1):
        owner.hear(holds=A, hears=False)
        assert owner.core.holds == A
    owner.hear(holds=A, hears=False)
    assert (owner.core.holds, owner.core.conflicts) == (NONE, 1)


def test_the_other_keeps_for_as_long_what_a_partner_holds_that_does_not_hear_it():
    other = Member(me="b").holding()
    for _ in range(DEAF_HEARTBEATS - 1):
        other.hear(holds=A, hears=False)
        assert other.core.holds == A
    other.hear(holds=A, hears=False)
    assert other.core.holds == NONE


@pytest.mark.parametrize("fields", [{"offers": A}, {"well": False}])
def test_nothing_yields_to_a_partner_that_offers_or_does_not_forward(fields):
    member = Member(me="b").holding()
    member.hear(holds=A, **fields)
    assert (member.core.holds, member.core.conflicts) == (A, 0)


def test_a_role_that_the_partner_does_not_hold_is_kept():
    member = Member(me="b", roles=A | B).holding()
    member.hear(holds=A)
    assert (member.core.holds, member.core.conflicts) == (B, 1)


def test_an_offer_is_sent_at_once_and_in_twenty_ticks_and_then_withdrawn():
    member = Member().holding()
    member.hear()
    sent = beat_of(member.core.hand_over(A))
    assert (sent.offers, sent.holds) == (A, A)
    offered = [beat_of(effects).offers for effects in member.ticks(OFFER_TICKS + 1)]
    assert offered == [A] * (OFFER_TICKS - 1) + [NONE] * 2


def test_what_is_not_held_is_not_offered():
    assert beat_of(Member().core.hand_over(A)).offers == NONE


def test_an_offer_that_the_partner_takes_is_released_without_a_conflict():
    member = Member().holding()
    member.hear()
    member.core.hand_over(A)
    effects = member.hear(holds=A)
    assert effects[0] == Serve(NONE)
    assert (kinds(effects), member.core.conflicts) == ([Serve, SendHeartbeat], 0)
    member.hear(offers=A, holds=A)  # back, and the offer of before is forgotten
    sent = member.sent()
    assert (sent.holds, sent.offers) == (A, NONE)


def test_a_member_that_does_not_forward_offers_what_it_holds_and_takes_nothing():
    member = Member(roles=A | B).holding()
    member.hear()
    sent = beat_of(member.core.set_health(False))
    assert (sent.well, sent.offers, sent.holds) == (False, A | B, A | B)
    assert member.core.set_health(False) == []
    member.hear(holds=A | B)
    assert (member.core.holds, member.core.conflicts) == (NONE, 0)
    member.hear(holds=A | B, offers=A | B)
    member.ticks(20)
    assert member.core.holds == NONE
    effects = member.core.set_health(True)
    assert effects[0] == Serve(A | B)
    assert kinds(effects) == [Serve, Announce, SendHeartbeat]
    assert beat_of(effects).well is True


def test_connections_are_known_while_they_are_served_or_copied():
    member = Member(me="b")
    member.hear(holds=A)
    assert member.sent().knows == NONE
    member.core.set_copied(True)
    assert member.sent().knows == A
    member.hear()  # a role that is free is as the copy has it
    assert member.sent().knows == A
    member.core.set_copied(False)
    member.hear(holds=A)
    assert member.sent().knows == NONE


def test_a_copy_that_is_incomplete_makes_nothing_known():
    member = Member(me="b")
    member.hear(holds=A)
    member.core.set_copied(False)
    member.hear()
    assert member.sent().knows == NONE


def test_the_first_heartbeat_is_heard_whatever_its_numbers():
    member = Member()
    member.hear(boot=0, sequence=0)
    assert (member.core.hears_partner, member.core.ignored) == (True, 0)


def test_a_role_that_was_yielded_is_known_until_the_partner_serves_without_a_copy_here():
    member = Member(me="b").holding()
    member.hear()
    assert member.sent().knows == A
    member.hear(holds=A)
    assert member.sent().knows == NONE


def test_a_member_hears_what_is_newer_and_counts_what_is_not_for_it():
    member = Member()
    member.hear(sequence=5)
    for fields in ({"sequence": 5}, {"sequence": 4}, {"boot": 4, "sequence": 9}, {"sender": "c"}, {"receiver": "c"}):
        assert member.hear(**({"sequence": 6} | fields), holds=A) == []
    assert (member.core.ignored, member.core.partner_holds) == (5, NONE)
    member.hear(sequence=6, holds=A)
    member.hear(boot=6, sequence=1)
    assert (member.core.ignored, member.core.partner_holds) == (5, NONE)


def test_a_partner_that_was_gone_may_return_with_an_older_clock_but_not_with_an_old_heartbeat():
    member = Member(me="b")
    member.hear(sequence=5, holds=A)
    member.ticks(6)
    member.hear(sequence=5)
    member.hear(sequence=4)
    assert (member.core.ignored, member.core.hears_partner) == (2, False)
    member.hear(boot=3, sequence=1)
    assert (member.core.ignored, member.core.hears_partner) == (2, True)


def test_a_holder_announces_its_addresses_again_once_a_partner_that_was_suspended_is_heard_again():
    member = Member(me="b").holding()
    member.ticks(70)
    assert member.hear(hears=False) == [Announce()]
    assert announced(member, 70) == [2, 6, 20, 60]


def test_a_holder_announces_nothing_for_a_partner_that_it_hears_on():
    member = Member(me="b").holding()
    member.ticks(70)
    member.hear()
    assert Announce() not in member.hear()
