"""Recordings: written messages are read back, up to the first damaged frame."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.samples.recording import MAGIC, Recorded, RecordingError, Torn, frame, read
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES

MESSAGES = st.lists(
    st.builds(
        Recorded, st.integers(0, 2**64 - 1), st.text(st.characters(codec="ascii"), max_size=40), st.binary(max_size=50)
    ),
    max_size=6,
)


def written(messages):
    return MAGIC + b"".join(map(frame, messages))


@given(MESSAGES)
def test_what_is_written_is_read(messages):
    assert list(read(io.BytesIO(written(messages)))) == messages


@given(MESSAGES, st.data())
def test_a_torn_recording_is_read_up_to_the_tear(messages, data):
    whole = written(messages)
    cut = data.draw(st.integers(len(MAGIC), len(whole)))
    *found, last = [None, *read(io.BytesIO(whole[:cut]))]
    kept = [message for message in (*found, last) if isinstance(message, Recorded)]
    assert kept == messages[: len(kept)]
    assert isinstance(last, Torn) == (len(written(kept)) < cut)


@given(MESSAGES, st.data())
def test_a_damaged_byte_ends_the_reading_and_adds_no_message(messages, data):
    whole = bytearray(written(messages))
    at = data.draw(st.integers(len(MAGIC), len(whole)))
    if at < len(whole):
        whole[at] ^= 1 << data.draw(st.integers(0, 7))
    kept = [message for message in read(io.BytesIO(bytes(whole))) if isinstance(message, Recorded)]
    assert kept == messages[: len(kept)]


@given(st.binary(max_size=60).filter(lambda junk: not junk.startswith(MAGIC)))
def test_other_files_are_refused(junk):
    with pytest.raises(RecordingError):
        list(read(io.BytesIO(junk)))


def test_a_frame_that_claims_to_be_huge_is_a_tear():
    assert list(read(io.BytesIO(MAGIC + b"\xff" * 8 + bytes(100)))) == [Torn(len(MAGIC))]


def test_a_message_over_the_limits_is_not_written():
    with pytest.raises(ValueError, match="exceeds"):
        frame(Recorded(0, "x", bytes(MAX_PAYLOAD_BYTES + 2)))
