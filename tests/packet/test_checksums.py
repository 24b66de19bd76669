"""Checksums by kernels against sums in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.packet import Packet, Raw

from dataplane.packet import checksum, transport

words = st.integers(0, 0xFFFF)


def plain_sum(data: bytes) -> int:
    """RFC 1071, 4.1, in big numbers."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[at : at + 2], "big") for at in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def bytes_at(data: bytes, offset: int) -> np.ndarray:
    return np.frombuffer(b"\xa5" * offset + data + b"\xa5" * 9, dtype=np.uint8).copy()


@given(data=st.binary(max_size=300), offset=st.integers(0, 7))
def test_a_sum_is_that_of_its_bytes_wherever_they_lie(data: bytes, offset: int) -> None:
    assert checksum.folded(checksum.sum_of(bytes_at(data, offset), offset, len(data))) == plain_sum(data)


@given(st.integers(0, (1 << 62) - 1))
def test_a_fold_keeps_the_sum(total: int) -> None:
    assert checksum.folded(total) == plain_sum(total.to_bytes(8, "big"))


@given(header=st.lists(words, min_size=10, max_size=30).filter(lambda h: len(h) % 2 == 0), offset=st.integers(0, 7))
def test_a_header_is_sound_when_it_sums_up_to_ones(header: list[int], offset: int) -> None:
    data = bytearray(b"".join(word.to_bytes(2, "big") for word in header))
    memory = bytes_at(bytes(data), offset)
    assert checksum.header_is_sound(memory, offset, len(data)) == (plain_sum(bytes(data)) == 0xFFFF)
    data[10:12] = bytes(2)
    data[10:12] = (0xFFFF ^ plain_sum(bytes(data))).to_bytes(2, "big")
    assert checksum.header_is_sound(bytes_at(bytes(data), offset), offset, len(data))


@given(header=st.lists(words, min_size=9, max_size=9).filter(any), place=st.integers(0, 8), new=words)
def test_a_changed_word_changes_the_checksum_as_if_all_were_summed_anew(
    header: list[int], place: int, new: int
) -> None:
    after = [*header[:place], new, *header[place + 1 :]]
    if not any(after):
        return  # a header of zeros has two checksums (RFC 1624, 3); IPv4's begins with a 4
    old, expected = (0xFFFF ^ plain_sum(b"".join(w.to_bytes(2, "big") for w in each)) for each in (header, after))
    assert checksum.changed(old, header[place], new) == expected


@given(header=st.lists(words, min_size=8, max_size=8).filter(any), more=st.integers(0, 2 * 65535))
def test_words_that_were_zero_are_added(header: list[int], more: int) -> None:
    old = 0xFFFF ^ plain_sum(b"".join(word.to_bytes(2, "big") for word in header))
    filled = [*header, more >> 1, more - (more >> 1)]
    assert checksum.grown(old, more) == 0xFFFF ^ plain_sum(b"".join(word.to_bytes(2, "big") for word in filled))


heads = st.sampled_from([IP(src="10.0.0.1", dst="10.9.8.7"), IPv6(src="fd00::1", dst="fd00::2")])


@given(head=heads, payload=st.binary(max_size=100), kind=st.sampled_from(["udp", "tcp", "icmp"]), junk=words)
def test_a_checksum_that_was_left_out_is_completed(head: Packet, payload: bytes, kind: str, junk: int) -> None:
    is_v4 = isinstance(head, IP)
    layer = {"udp": UDP(), "tcp": TCP(), "icmp": ICMP() if is_v4 else ICMPv6EchoRequest()}[kind]
    expected = bytes(head / layer / Raw(payload))
    l4, addresses, count = (20, 12, 8) if is_v4 else (40, 8, 32)
    protocol = expected[9] if is_v4 else expected[6]
    memory = bytes_at(expected, 0)
    place = l4 + transport.checksum_at(protocol)
    memory[place : place + 2] = [junk >> 8, junk & 0xFF]
    transport.complete(memory, 0 + l4, len(expected) - l4, protocol, addresses, count)
    assert memory[: len(expected)].tobytes() == expected
