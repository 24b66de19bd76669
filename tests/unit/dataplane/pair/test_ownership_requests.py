"""A member that returned requests its role: when, for how long, and what its partner offers."""

import pytest

from heddle.dataplane.control.pair.ownership import (
    Terms,
)
from tests.unit.dataplane.pair.member import NONE, A, B, Member


def returned(me="a", **more):
    """Return a member whose partner serves its role, and that has a copy of the connections."""
    member = Member(me=me, roles=A | B, more={"preempt": True, "hold_ticks": 4, **more})
    member.hear(holds=A | B)
    member.core.set_copied(True)
    return member


def wanted(member, count, **fields):
    """Return what it requests in each of the next ticks, while the partner serves."""
    found = []
    for _ in range(count):
        member.hear(**({"holds": A | B} | fields))
        found.append(member.sent().wants)
    return found


def test_a_returned_member_requests_its_role_after_the_hold_time():
    assert wanted(returned(), 5) == [NONE] * 3 + [A] * 2


def test_the_hold_time_is_three_hundred_ticks_where_none_is_given():
    member = Member(roles=A | B, more={"preempt": True})
    member.hear(holds=A | B)
    member.core.set_copied(True)
    assert wanted(member, 301) == [NONE] * 299 + [A] * 2


def test_a_role_is_requested_only_with_preemption_a_copy_and_a_data_process_that_forwards():
    assert wanted(returned(preempt=False), 6)[-1] == NONE
    assert Terms(me="a", partner="b", roles=A).preempt is False
    member = returned()
    member.core.set_copied(False)
    assert wanted(member, 6)[-1] == NONE
    member = returned()
    member.core.set_health(False)
    assert wanted(member, 6)[-1] == NONE


def test_what_is_held_already_is_not_requested_and_a_member_without_a_role_requests_none():
    member = returned()
    wanted(member, 4)
    member.hear(holds=A | B, offers=A)
    assert member.core.holds == A
    assert wanted(member, 1, holds=B) == [NONE]
    standby = Member(me="b", more={"preempt": True, "hold_ticks": 1})
    standby.core.set_copied(True)
    assert wanted(standby, 4, holds=A) == [NONE] * 4


@pytest.mark.parametrize("interrupt", ["silence", "refusal", "restart"])
def test_an_interruption_starts_the_hold_time_anew(interrupt):
    member = returned(hold_ticks=9)
    assert wanted(member, 9)[-1] == A
    member.core.set_health(False)  # or it would take what it wants
    if interrupt == "silence":
        member.ticks(6)
    elif interrupt == "refusal":
        member.ticks(2)
        assert member.core.partner_gone() != []
    boot = 6 if interrupt == "restart" else 5
    member.hear(holds=A | B, boot=boot)
    member.core.set_health(True)
    assert wanted(member, 10, boot=boot) == [NONE] * 8 + [A] * 2


def test_a_request_is_answered_by_an_offer_of_what_is_held_and_of_nothing_else():
    holder = Member(me="b", roles=A | B, more={"preempt": True}).holding()
    holder.hear(wants=A)
    assert holder.sent().offers == A
    holder.hear()
    assert holder.sent().offers == A  # for as long as any offer
    for more, fields in (({}, {}), ({"preempt": True}, {"well": False})):
        other = Member(me="b", roles=A | B, more=more).holding()
        other.hear(wants=A, **fields)
        assert other.sent().offers == NONE
