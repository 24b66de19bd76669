"""Mutated messages: none raises, none takes long, and refused ones leave no trace.

protobuf's own parser reads every accepted message with the same values. HEDDLE_FUZZ_CASES=1000000 runs a longer
search, with other seeds each time: HEDDLE_FUZZ_SEED=n.
"""

import os
import random
import time

import pytest

from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.observer import Observer
from heddle.telemetry.samples.counters import NIC_COUNTERS
from heddle.telemetry.samples.decode import BatchDecoder
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.sample import Rejected, encode
from heddle.telemetry.samples.topic import Source, nics_topic, ports_topic
from heddle.telemetry.samples.values import samples_of
from heddle.v1 import heddle_pb2
from tests.fuzz.telemetry_seeds import HOST, SEEDS, SWITCH, TIME_NS

CASES = int(os.environ.get("HEDDLE_FUZZ_CASES", "6000"))
SEED = int(os.environ.get("HEDDLE_FUZZ_SEED", "1"))
SLOW_S = 0.05
KEPT = set(NIC_COUNTERS)
FOR_READERS = {"stale"}  # of a sample: written by the controller, not by agents
TOPICS = (ports_topic("lab", SWITCH), nics_topic("lab", HOST))
# Tags, kinds and lengths at the limits of the format.
WORDS = (0, 1, 7, 8, 9, 0x0A, 0x0B, 0x4A, 0x5A, 0x7F, 0x80, 0xFF)


def mutated(chance, seed):
    """Change a few bytes, cut, repeat, swap or lengthen."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(data)) if data else 0
        kind = chance.randrange(7)
        if kind == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and data:
            data[at] = chance.choice(WORDS)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + chance.randrange(1, 9)]
        elif kind == 4:
            data[at:at] = data[at : at + chance.randrange(1, 65)]
        elif kind == 5:
            data[at:at] = bytes([0xFF] * chance.randrange(1, 12))
        else:
            data += chance.choice(SEEDS)[: chance.randrange(1, 400)]
    return bytes(data)


def observer():
    ports = [Port(f"{SWITCH}:{n}", Source.SWITCH, SWITCH, 10**9) for n in range(1, 9)]
    return Observer("lab", PortTable([*ports, Port("h1-n0", Source.HOST, HOST, 10**9)]), DetectorSettings())


def cases(number):
    chance = random.Random(SEED)
    for _ in range(number):
        yield mutated(chance, chance.choice(SEEDS))


@pytest.mark.parametrize("seed", SEEDS, ids=len)
def test_every_seed_is_well_formed(seed):
    assert not isinstance(BatchDecoder().read(seed), Rejected)


@pytest.mark.timeout(120 + CASES // 500)
def test_refused_mutations_are_not_stored_and_none_takes_long():
    reader, seen = BatchDecoder(), observer()
    reader.read(SEEDS[0])
    refused = slow = 0
    for payload in cases(CASES):
        started = time.thread_time()
        batch = reader.read(payload)
        slow += time.thread_time() - started > SLOW_S
        if isinstance(batch, Rejected):
            refused += 1
            assert batch.text
            for topic in TOPICS:
                seen.take(topic, payload, TIME_NS)
    assert slow == 0
    assert 0 < refused < CASES  # otherwise the mutations change too little or too much
    assert not seen.window.heard.any()
    assert not seen.window.total.any()
    assert seen.samples == 0
    assert seen.complaints.counts == {"malformed": 2 * refused}


@pytest.mark.timeout(120 + CASES // 500)
def test_protobuf_reads_accepted_mutations_with_the_same_values():
    reader = BatchDecoder()
    for payload in cases(min(CASES, 200_000)):
        batch = reader.read(payload)
        if isinstance(batch, Rejected):
            continue
        read = heddle_pb2.PortSampleBatch.FromString(payload)
        ours = heddle_pb2.PortSampleBatch.FromString(encode(samples_of(batch)))
        assert ours == known_fields(read)


@pytest.mark.timeout(120 + CASES // 500)
def test_the_observer_works_after_accepted_mutations():
    seen = observer()
    before = seen.window.total.copy()
    for number, payload in enumerate(cases(min(CASES, 100_000))):
        seen.take(TOPICS[0], payload, TIME_NS)
        if number % 50 == 0:
            seen.scan(TIME_NS)
            assert (seen.window.total >= before).all()
            before = seen.window.total.copy()
    assert seen.samples


def known_fields(batch):
    """Return a batch as it is stored: known fields only, queues in order, NIC counters that have a column."""
    kept = heddle_pb2.PortSampleBatch()
    for sample in batch.samples:
        copy = kept.samples.add()
        copy.CopyFrom(sample)
        for field in sample.DESCRIPTOR.fields:
            if field.name in FOR_READERS:
                copy.ClearField(field.name)
        del copy.queues[:]
        for queue in sorted(sample.queues, key=lambda queue: queue.priority):
            copy.queues.add().CopyFrom(queue)
        for name in list(copy.nic_counters):
            if name not in KEPT:
                del copy.nic_counters[name]
    kept.DiscardUnknownFields()
    return kept
