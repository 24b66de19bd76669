"""Heartbeats survive encoding; malformed, changed or unsealed datagrams are rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.control.pair.heartbeat import Heartbeat, decode, encode

NAMES = st.text(min_size=1, max_size=20).filter(lambda name: len(name.encode()) <= 63)


@st.composite
def beats(draw: st.DrawFn) -> Heartbeat:
    sender, receiver = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    roles = st.frozensets(st.sampled_from((sender, receiver)))
    return Heartbeat(
        sender=sender,
        receiver=receiver,
        boot=draw(st.integers(0, (1 << 64) - 1)),
        sequence=draw(st.integers(0, (1 << 64) - 1)),
        hears=draw(st.booleans()),
        well=draw(st.booleans()),
        holds=draw(roles),
        offers=draw(roles),
        wants=draw(roles),
        knows=draw(roles),
    )


@given(heartbeat=beats(), key=st.binary(max_size=40))
def test_a_heartbeat_survives_the_wire(heartbeat, key):
    assert decode(encode(heartbeat, key), key) == heartbeat


@given(heartbeat=beats(), key=st.binary(min_size=1, max_size=40), at=st.integers(0), bit=st.integers(0, 7))
def test_a_changed_heartbeat_is_rejected(heartbeat, key, at, bit):
    data = bytearray(encode(heartbeat, key))
    data[at % len(data)] ^= 1 << bit
    assert decode(bytes(data), key) is None


@given(heartbeat=beats(), cut=st.integers(1, 40))
def test_a_truncated_or_extended_heartbeat_is_rejected(heartbeat, cut):
    data = encode(heartbeat)
    assert decode(data[:-cut]) is None
    assert decode(data + bytes(cut)) is None


@given(data=st.binary(max_size=200))
def test_noise_is_rejected(data):
    assert decode(data) is None
    assert decode(b"HDLB\x01" + data) is None or len(data) > 40


@pytest.mark.parametrize(("sealed", "opened"), [(b"one", b"two"), (b"", b"two"), (b"one", b"")])
def test_another_key_is_rejected(sealed, opened):
    heartbeat = Heartbeat("a", "b", 1, 1, True, True, frozenset("a"), frozenset(), frozenset(), frozenset())
    assert decode(encode(heartbeat, sealed), opened) is None
