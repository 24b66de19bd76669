"""Heartbeats on the wire: what comes back is what was said, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.control.pair.heartbeat import Heartbeat, decode, encode

NAMES = st.text(min_size=1, max_size=20).filter(lambda name: len(name.encode()) <= 63)


@st.composite
def beats(draw: st.DrawFn) -> Heartbeat:
    sender, receiver = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    shares = st.frozensets(st.sampled_from((sender, receiver)))
    return Heartbeat(
        sender=sender,
        receiver=receiver,
        boot=draw(st.integers(0, (1 << 64) - 1)),
        sequence=draw(st.integers(0, (1 << 64) - 1)),
        hears=draw(st.booleans()),
        well=draw(st.booleans()),
        holds=draw(shares),
        offers=draw(shares),
        wants=draw(shares),
        knows=draw(shares),
    )


@given(beat=beats(), key=st.binary(max_size=40))
def test_a_heartbeat_survives_the_wire(beat, key):
    assert decode(encode(beat, key), key) == beat


@given(beat=beats(), key=st.binary(min_size=1, max_size=40), at=st.integers(0), bit=st.integers(0, 7))
def test_a_heartbeat_that_was_changed_is_none(beat, key, at, bit):
    data = bytearray(encode(beat, key))
    data[at % len(data)] ^= 1 << bit
    assert decode(bytes(data), key) is None


@given(beat=beats(), cut=st.integers(1, 40))
def test_a_heartbeat_that_is_cut_or_longer_is_none(beat, cut):
    data = encode(beat)
    assert decode(data[:-cut]) is None
    assert decode(data + bytes(cut)) is None


@given(data=st.binary(max_size=200))
def test_noise_is_none(data):
    assert decode(data) is None
    assert decode(b"HDLB\x01" + data) is None or len(data) > 40


@pytest.mark.parametrize(("sealed", "opened"), [(b"one", b"two"), (b"", b"two"), (b"one", b"")])
def test_another_key_opens_nothing(sealed, opened):
    beat = Heartbeat("a", "b", 1, 1, True, True, frozenset("a"), frozenset(), frozenset(), frozenset())
    assert decode(encode(beat, sealed), opened) is None
