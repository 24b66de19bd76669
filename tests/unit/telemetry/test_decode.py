"""The decoder beside protobuf's own parser, and on invalid messages."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.neighbours.heard import Heard, Sender
from heddle.telemetry.samples import sample as limits
from heddle.telemetry.samples.counters import LINK_COUNTERS, NIC_COUNTERS, PORT_COUNTERS, QUEUE_COUNTERS, QUEUE_GAUGES
from heddle.telemetry.samples.decode import BatchDecoder
from heddle.telemetry.samples.sample import PortSample, QueueSample, Refusal, Rejected, encode
from heddle.telemetry.samples.values import decode
from heddle.v1 import heddle_pb2

WORDS = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}(:[1-9][0-9]{0,4})?\Z")
QUEUES = st.lists(
    st.builds(
        QueueSample,
        priority=st.integers(0, 7),
        **{**dict.fromkeys(QUEUE_COUNTERS + QUEUE_GAUGES, WORDS), "watchdog_active": st.booleans()},
    ),
    max_size=8,
    unique_by=lambda queue: queue.priority,
).map(lambda queues: tuple(sorted(queues, key=lambda queue: queue.priority)))
TEXTS = st.text(max_size=12)
HEARD = st.builds(Heard, TEXTS, st.lists(st.builds(Sender, TEXTS, TEXTS, st.lists(TEXTS).map(tuple))).map(tuple))
SAMPLES = st.builds(
    PortSample,
    port=NAMES,
    heard=st.none() | HEARD,
    timestamp_unix_ns=st.integers(1, 2**64 - 1),
    sequence=WORDS,
    boot_id=WORDS,
    queues=QUEUES,
    nic_counters=st.dictionaries(st.sampled_from(NIC_COUNTERS), WORDS, max_size=4),
    carrier=st.sampled_from((None, False, True)),
    **dict.fromkeys(LINK_COUNTERS, st.none() | WORDS),
    **dict.fromkeys(("speed_bps", "lanes"), st.none() | st.integers(1, 2**64 - 1)),
    **dict.fromkeys(PORT_COUNTERS, WORDS),
)


@given(st.lists(SAMPLES, max_size=5, unique_by=lambda sample: sample.port))
def test_what_is_encoded_is_decoded(samples):
    assert decode(encode(samples)) == tuple(samples)


def test_a_link_is_encoded_as_the_contract_numbers_its_fields():
    one = PortSample(
        port="a:1", timestamp_unix_ns=1, rx_crc_errors=2, fec_corrected_codewords=0, fec_uncorrectable_codewords=300,
        flaps=4, speed_bps=5, lanes=8,
    )  # fmt: skip
    assert (
        encode([one]).hex(" ") == "0a 1a 0a 03 61 3a 31 10 01 90 03 02 98 03 00 a0 03 ac 02 a8 03 04 b0 03 05 b8 03 08"
    )
    assert decode(encode([one])) == (one,)


def test_a_rate_of_zero_and_no_lanes_are_unknown():
    unknown = PortSample(port="a:1", timestamp_unix_ns=1)
    assert decode(encode([PortSample(port="a:1", timestamp_unix_ns=1, speed_bps=0, lanes=0)])) == (unknown,)


def batch(**fields):
    message = heddle_pb2.PortSampleBatch()
    message.samples.add(**{"port": "leaf1:1", "timestamp_unix_ns": 1, **fields})
    return message.SerializeToString()


def batch_of(sample):
    """Return a message with the bytes of one sample."""
    return b"\x0a" + bytes((len(sample),)) + sample


WRONG = {
    "name": batch(port=""),
    "space": batch(port="leaf 1:1"),
    "long name": batch(port="l" * 64),
    "port 0": batch(port="leaf1:0"),
    "port of six digits": batch(port="leaf1:123456"),
    "two colons": batch(port="leaf1:1:1"),
    "letters beyond ascii": batch(port="lëaf1:1"),
    "no time": batch(timestamp_unix_ns=0),
    "priority 8": batch(queues=[heddle_pb2.QueueSample(priority=8)]),
    "priority twice": batch(queues=[heddle_pb2.QueueSample(priority=3)] * 2),
    "port twice": batch() * 2,
    "what a port hears twice": batch_of(b"\x0a\x07leaf1:1\x10\x01\xd2\x05\x00\xd2\x05\x00"),
    "what a port hears as a number": batch_of(b"\x0a\x07leaf1:1\x10\x01\xd0\x05\x01"),
    "torn": batch(tx_bytes=5)[:-1],
    "length past the end": b"\x0a\x7f" + batch()[2:],
    "varint of eleven bytes": b"\x0a\x0c\x10" + b"\xff" * 10 + b"\x01",
    "varint past 64 bits": b"\x0a\x0b\x10" + b"\xff" * 9 + b"\x02",
    "wrong kind": b"\x08\x01",
    "field 0": b"\x00\x01",
    "group": b"\x7b\x7c",
    "text": b"not a message at all",
    "JSON": b'{"samples": []}',
    "counter name": batch(nic_counters={"a b": 1}),
    "too many counters": batch(nic_counters={f"c{i}": i for i in range(257)}),
    "too many ports": b"".join(batch(port=f"leaf1:{n + 1}") for n in range(limits.MAX_PORTS + 1)),
}


@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG)
def test_an_invalid_message_is_a_value_with_a_reason(payload):
    refused = decode(payload)
    assert isinstance(refused, Rejected)
    assert refused.kind is Refusal.MALFORMED
    assert refused.text


def test_an_oversized_message_is_not_decoded():
    refused = decode(bytes(limits.MAX_PAYLOAD_BYTES + 1))
    assert isinstance(refused, Rejected)
    assert refused.kind is Refusal.OVERSIZED


def test_the_largest_batch_of_the_contract_is_read():
    top = 2**64 - 1
    values = {**dict.fromkeys(QUEUE_COUNTERS + QUEUE_GAUGES, top), "watchdog_active": True}
    full = tuple(QueueSample(priority=p, **values) for p in range(8))
    samples = tuple(
        PortSample(port=f"{'l' * 63}:{10000 + n}", timestamp_unix_ns=top, sequence=top, queues=full, boot_id=top)
        for n in range(limits.MAX_PORTS)
    )
    payload = encode(samples)
    assert len(payload) <= limits.MAX_PAYLOAD_BYTES
    assert decode(payload) == samples


def test_an_empty_message_is_a_batch_of_nothing():
    assert decode(b"") == ()


def test_fields_that_the_contract_may_get_later_are_skipped():
    later = b"\xa2\x06\x03new" + b"\xa8\x06\x05" + b"\xa1\x06" + bytes(8) + b"\xa5\x06" + bytes(4)
    payload = batch(tx_bytes=9)
    assert decode(later + payload + later) == decode(payload)


def test_counters_of_a_nic_that_are_not_kept_are_counted():
    read = BatchDecoder().read(batch(nic_counters={"np_cnp_sent": 4, "rx_vport_lost": 5}))
    assert not isinstance(read, Rejected)
    assert read.unknown_counters == 1


def test_the_last_of_a_repeated_field_counts_as_in_protobuf():
    payload = b"\x0a\x0f\x0a\x07leaf1:1\x10\x01\x20\x01\x20\x02"
    read = decode(payload)
    assert not isinstance(read, Rejected)
    assert read[0].tx_bytes == heddle_pb2.PortSampleBatch.FromString(payload).samples[0].tx_bytes == 2


@pytest.mark.parametrize("field", ["d0808080800020", "4a808080808000"])
def test_a_tag_or_length_in_more_than_five_bytes_is_refused_as_protobuf_does(field):
    payload = bytes([0x0A, len(bytes.fromhex(field))]) + bytes.fromhex(field)
    with pytest.raises(DecodeError):
        heddle_pb2.PortSampleBatch.FromString(payload)
    refused = BatchDecoder().read(payload)
    assert isinstance(refused, Rejected)
    assert "number or a kind" in refused.text
