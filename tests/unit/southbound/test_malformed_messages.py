"""Every malformed message is refused before it is decoded, with the reason and the offset."""

import pytest

from heddle.controller.southbound.codec.check import MalformedMessageError, check
from tests.fakes.openflow.malformed_openflow import MALFORMED, apply, bucket, flow_stats, group_desc
from tests.fakes.openflow.openflow_switch import HELLO, message


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_is_refused_with_a_reason(name):
    with pytest.raises(MalformedMessageError) as refusal:
        check(MALFORMED[name])
    assert len(refusal.value.reason) > 10


FOREIGN = {
    "a Nicira register": b"\0\1\0\x0c\0\1\x00\x04\0\0\0\7" + bytes(4),
    "a later version's field": b"\0\1\0\x0a\x80\0\x54\x02\0\2" + bytes(6),
    "an experimenter's field": b"\0\1\0\x0e\xff\xff\x54\x06ONF\0\0\2" + bytes(2),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_match_that_is_foreign_but_well_formed_passes(name):
    check(flow_stats(match=FOREIGN[name]))


def test_a_vendors_action_passes():
    check(flow_stats(instructions=apply(b"\xff\xff\0\x10\0\0\x23\x20" + bytes(8))))


def test_a_vendors_action_in_a_bucket_passes():
    check(group_desc(bucket(b"\xff\xff\0\x10\0\0\x23\x20" + bytes(8))))


def test_a_hello_with_an_unknown_element_passes():
    check(message(HELLO, b"\0\x09\0\x05\1" + bytes(3) + b"\0\1\0\x08\0\0\0\x12"))


def test_a_hello_without_elements_passes():
    check(message(HELLO))
