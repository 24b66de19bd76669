"""Any bytes either fail the check or decode successfully, in time proportional to their number.

HEDDLE_FUZZ_CASES=500000 runs a longer search with other seeds each time: HEDDLE_FUZZ_SEED=n.
"""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.southbound.codec import decode, readback
from heddle.controller.southbound.codec.check import MalformedMessageError, check
from tests.fuzz.openflow_seeds import SEEDS

CASES = int(os.environ.get("HEDDLE_FUZZ_CASES", "6000"))
SEED = int(os.environ.get("HEDDLE_FUZZ_SEED", "1"))
LENGTHS = (0, 1, 4, 7, 8, 16, 0x7FFF, 0xFFFF)
MULTIPART = {1: lambda part: list(readback.each_flow_entry(part)), 7: readback.groups, 13: decode.ports}
SINGLE = {
    0: decode.hello_offers_our_version,
    1: decode.error,
    6: decode.features,
    11: decode.flow_removed,
    12: decode.port_status,
    25: decode.role,
}


def accepted(message):
    """Check and decode as a session does; return whether the check accepted it."""
    try:
        check(message)
    except MalformedMessageError:
        return False
    kind = message[1]
    reader = MULTIPART.get(int.from_bytes(message[8:10], "big")) if kind == 19 else SINGLE.get(kind)
    if reader is not None:
        reader(message)
    return True


def mutated(chance, seed):
    """Change a few bytes or a length, cut or repeat, and mostly keep the header's length true."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(data))
        kind = chance.randrange(5)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.randrange(256)
        elif kind == 2:
            at = min(at & ~1, len(data) - 2)
            data[at : at + 2] = chance.choice(LENGTHS).to_bytes(2, "big")
        elif kind == 3 and len(data) > 9:
            del data[max(8, at) :]
        else:
            data[at:at] = data[at : at + chance.randrange(1, 33)]
    if chance.random() < 0.9:
        data[2:4] = min(len(data), 0xFFFF).to_bytes(2, "big")
    return bytes(data)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"type {seed[1]} {seed[8:10].hex()}")
def test_every_seed_is_well_formed(seed):
    assert accepted(seed)


@pytest.mark.timeout(60 + CASES // 1000)
def test_mutated_messages_are_refused_or_decoded():
    chance = random.Random(SEED)
    passed = sum(accepted(mutated(chance, chance.choice(SEEDS))) for _ in range(CASES))
    assert 0 < passed < CASES  # else the mutations are too wild, or too tame, to show anything


@given(st.integers(0, 30), st.binary(max_size=200))
def test_random_bodies_are_refused_or_decoded(kind, body):
    accepted(bytes((4, kind)) + (8 + len(body)).to_bytes(2, "big") + bytes(4) + body)


@given(st.sampled_from([0, 1, 2, 4, 6, 7, 9, 10, 12, 13]), st.binary(max_size=200))
def test_random_multipart_bodies_are_refused_or_decoded(kind, body):
    accepted(b"\4\x13" + (16 + len(body)).to_bytes(2, "big") + bytes(4) + bytes((0, kind)) + bytes(6) + body)


def test_the_longest_message_of_the_smallest_fields_is_checked_in_one_go():
    oxms = b"\x80\0\x54\1\0" * 13000
    match = b"\0\1" + (4 + len(oxms)).to_bytes(2, "big") + oxms
    match += bytes(-len(match) % 8)
    entry = (48 + len(match)).to_bytes(2, "big") + bytes(46) + match
    assert accepted(b"\4\x13" + (16 + len(entry)).to_bytes(2, "big") + bytes(4) + b"\0\1" + bytes(6) + entry)
