"""Every malformed message is refused before it is decoded, with the reason and the offset."""

import struct

import pytest

from heddle.controller.southbound.codec.check import MalformedMessageError, check
from heddle.testing.switches.openflow_switch import HELLO, message
from tests.fakes.openflow.malformed_openflow import (
    MALFORMED,
    MATCH_ALL,
    apply,
    bucket,
    flow_stats,
    group_desc,
    multipart,
)


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


def reason_of(found):
    with pytest.raises(MalformedMessageError) as refusal:
        check(found)
    return refusal.value.reason


def test_an_error_without_data_passes_and_one_of_an_experimenter_needs_its_number():
    check(message(1, struct.pack("!HH", 1, 1)))
    check(message(1, struct.pack("!HHI", 0xFFFF, 1, 7)))
    assert reason_of(message(1, struct.pack("!HH", 0xFFFF, 1))) == "ERROR: experimenter error cut short at byte 8"


FLOW_REMOVED = struct.pack("!QHBBIIHHQQ", 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)


def test_a_removed_flow_ends_with_its_match():
    check(message(11, FLOW_REMOVED + MATCH_ALL))
    assert (
        reason_of(message(11, FLOW_REMOVED + MATCH_ALL + bytes(8))) == "FLOW_REMOVED: bytes after the match at byte 48"
    )


def test_a_meter_band_of_sixteen_bytes_passes():
    check(multipart(10, struct.pack("!HHI", 24, 0, 1) + struct.pack("!HHII4x", 1, 16, 9, 9)))


def test_a_field_that_is_cut_short_is_named_with_its_offset():
    cut = struct.pack("!HHHBB", 1, 7, 0x8000, 5 << 1, 2)
    assert reason_of(message(11, FLOW_REMOVED + cut)) == "OXM field: cut short at byte 52"


def test_a_message_shorter_than_its_header_is_named():
    assert reason_of(struct.pack("!BBH", 4, 0, 4)) == "a message of 4 bytes"


def test_statistics_of_buckets_and_bands_and_a_field_that_is_set_pass():
    check(multipart(6, struct.pack("!H38x", 40) + struct.pack("!H54x", 56)))
    check(multipart(9, struct.pack("!IH34x", 1, 40) + struct.pack("!IH50x", 2, 56)))
    check(flow_stats(instructions=apply(struct.pack("!HHHBBH6x", 25, 16, 0x8000, 5 << 1, 2, 0x0800))))


def test_a_length_that_is_not_that_of_the_message_is_named():
    wrong = message(HELLO) + bytes(8)
    assert reason_of(wrong) == "HELLO: length 8 of a message of 16 bytes"


def test_features_of_meters_are_one_record_of_sixteen_bytes():
    check(multipart(11, bytes(16)))
    assert reason_of(multipart(11, bytes(32))) == ("MULTIPART_REPLY: a body of 32 bytes, records have 16 at byte 16")
