"""The balancer's traffic: valid segments, a connection of its own in each."""

import numpy as np
import pytest

from heddle.benchmarks.gateway.wire.balancer_packets import (
    ACK,
    DIRECT_PORT,
    FLAGS_AT,
    MIN_BYTES,
    NAT_PORT,
    SYN,
    segments,
)

NUMBERS = np.array([0, 1, 4095, 4096, 1_048_575, 1_048_576, 2_097_151])


def words(rows, first, last):
    return np.ascontiguousarray(rows[:, first:last]).view(">u2").sum(axis=1, dtype=np.int64)


@pytest.mark.parametrize(("length", "port", "flags"), [(MIN_BYTES, DIRECT_PORT, SYN), (1500, NAT_PORT, ACK)])
def test_checksums_are_those_of_the_headers(length, port, flags):
    rows = segments(length, NUMBERS, port, flags)
    assert rows.shape == (len(NUMBERS), 50 + length)
    assert (rows[:, FLAGS_AT] == flags).all()
    for total in (words(rows, 64, 84), words(rows, 76, 84) + 6 + (length - 34) + words(rows, 84, 50 + length)):
        assert (total % 0xFFFF == 0).all()  # all ones in ones' complement (RFC 1071)


def test_each_connection_has_an_address_and_a_port_of_its_own():
    rows = segments(MIN_BYTES, NUMBERS, DIRECT_PORT, SYN)
    clients = {(row[76:80].tobytes(), row[84:86].tobytes()) for row in rows}
    assert len(clients) == len(NUMBERS)
