"""Replies and errors find the request that they belong to, and nothing else is taken for one."""

import struct

import pytest

from heddle.controller.southbound import pending
from heddle.controller.southbound.codec.check import MalformedMessageError
from heddle.controller.southbound.codec.decode import ErrorReply
from heddle.controller.southbound.codec.packets import UNAWAITED_XID
from heddle.controller.southbound.codec.wire import MAX_XID, MessageType, MultipartType
from heddle.controller.southbound.pending import PendingRequests, RequestRejectedError, SessionClosedError
from heddle.testing.switches.openflow_switch import message

MULTIPART, BARRIER = MessageType.MULTIPART_REPLY, MessageType.BARRIER_REPLY


def part(body=MultipartType.FLOW, more=False):
    return message(MULTIPART, struct.pack("!HH4x", body, more), xid=9)


@pytest.fixture
def requests():
    return PendingRequests()


def test_transaction_ids_begin_again_at_1_before_they_end(requests):
    assert requests.reserve(MAX_XID - 3) == 1
    assert requests.reserve(2) == MAX_XID - 2
    assert requests.reserve(2) == 1


async def test_a_reply_ends_its_request_once_and_one_that_none_awaits_ends_nothing(requests):
    awaited = requests.open(9, BARRIER)
    assert not requests.reply(BARRIER, 8, b"")
    assert not awaited.done()
    assert requests.reply(BARRIER, 9, b"reply")
    assert not requests.reply(BARRIER, 9, b"again")
    assert not requests.refuse(9, ErrorReply(type=1, code=1, data=b""))
    assert awaited.result() == [b"reply"]


async def test_a_request_that_is_forgotten_has_no_reply(requests):
    awaited = requests.open(9, BARRIER)
    requests.forget(9)
    assert not requests.reply(BARRIER, 9, b"")
    assert not awaited.done()


async def test_the_parts_of_a_reply_come_together_with_the_last(requests):
    awaited = requests.open(9, MULTIPART, MultipartType.FLOW)
    assert requests.reply(MULTIPART, 9, part(more=True))
    assert not awaited.done()
    assert requests.reply(MULTIPART, 9, part())
    assert awaited.result() == [part(more=True), part()]


@pytest.mark.parametrize(
    ("kind", "reply", "why"),
    [
        (BARRIER, message(BARRIER), "BARRIER_REPLY in reply to a request for MULTIPART_REPLY"),
        (MULTIPART, part(MultipartType.GROUP_DESC), "body type 7 in reply to a request for"),
    ],
)
async def test_a_reply_of_another_kind_is_malformed(requests, kind, reply, why):
    awaited = requests.open(9, MULTIPART, MultipartType.FLOW)
    with pytest.raises(MalformedMessageError, match=why):
        requests.reply(kind, 9, reply)
    assert not awaited.done()


async def test_parts_without_content_have_an_end_too(requests, monkeypatch):
    monkeypatch.setattr(pending, "MAX_MULTIPART_BYTES", 10 * (pending.PART_OVERHEAD_BYTES + len(part())))
    requests.open(9, MULTIPART, MultipartType.FLOW)
    for _ in range(10):
        requests.reply(MULTIPART, 9, part(more=True))
    with pytest.raises(MalformedMessageError, match="more than 2720 bytes"):
        requests.reply(MULTIPART, 9, part(more=True))


async def test_an_error_fails_the_request_that_it_names_and_one_that_no_one_awaits_is_counted(requests):
    awaited, other = requests.open(9, BARRIER), requests.open(10, BARRIER)
    error = ErrorReply(type=1, code=1, data=b"")
    assert not requests.refuse(8, error)
    assert requests.refuse(UNAWAITED_XID, error)
    assert requests.unawaited == 1
    assert requests.refuse(9, error)
    with pytest.raises(RequestRejectedError):
        await awaited
    assert not other.done()


async def test_the_end_of_a_session_fails_what_waits_and_leaves_what_has_a_reply(requests):
    done, waiting = requests.open(9, BARRIER), requests.open(10, BARRIER)
    requests.reply(BARRIER, 9, b"reply")
    requests.close("gone")
    assert done.result() == [b"reply"]
    with pytest.raises(SessionClosedError, match="gone"):
        await waiting
    assert not requests.reply(BARRIER, 10, b"")
