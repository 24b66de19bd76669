"""The counter page: layout, seqlock, and refused files."""

import struct
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.counter_page import (
    PORT_FIELDS,
    PRIORITIES,
    QUEUE_FIELDS,
    CounterPageError,
    CounterPageReader,
    CounterPageWriter,
    TornReadError,
    page_bytes,
)

NAMES = ("leaf1:1", "leaf1:2", "spine1:1")


def values(names=NAMES, first=0) -> tuple[Any, Any]:
    ports = np.arange(len(names) * len(PORT_FIELDS), dtype=np.uint64).reshape(len(names), -1) + np.uint64(first)
    count = len(names) * PRIORITIES * len(QUEUE_FIELDS)
    return ports, np.arange(count, dtype=np.uint64).reshape(len(names), PRIORITIES, -1) + np.uint64(first)


def test_what_is_written_is_read(tmp_path):
    writer = CounterPageWriter(tmp_path / "page", NAMES, boot_id=7)
    reader = CounterPageReader(tmp_path / "page")
    ports, queues = values(first=2**63)
    writer.write(ports, queues, 1_700_000_000_000_000_000)
    snapshot = reader.read()
    assert (snapshot.names, snapshot.boot_id, snapshot.sequence) == (NAMES, 7, 1)
    assert snapshot.timestamp_unix_ns == 1_700_000_000_000_000_000
    assert (snapshot.ports == ports).all()
    assert (snapshot.queues == queues).all()
    assert snapshot.port("leaf1:2")["rx_bytes"] == 2**63 + len(PORT_FIELDS) + 1
    assert snapshot.queue("spine1:1", 3)["packets"] == int(queues[2, 3, 0])


def test_the_layout_is_the_documented_one(tmp_path):
    writer = CounterPageWriter(tmp_path / "page", NAMES, boot_id=7)
    ports, queues = values()
    writer.write(ports, queues, 99)
    image = (tmp_path / "page").read_bytes()
    assert image[:8] == b"HEDDLECP"
    version, start = struct.unpack_from("<II", image, 8)
    assert struct.unpack_from("<QIIQQI", image, 16) == (7, 3, 8, 2, 99, 8 + 8 + 9)
    assert image[52 : 52 + 25] == b"leaf1:1\0leaf1:2\0spine1:1\0"
    assert (version, start, len(image)) == (2, 128, 128 + 8 * (3 * 5 + 3 * 8 * 12))
    assert struct.unpack_from("<3Q", image, start) == (0, 1, 2)
    assert len(image) == page_bytes(NAMES)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
                min_size=1, max_size=8, unique=True))  # fmt: skip
def test_any_names_are_read_back(tmp_path_factory, names):
    path = tmp_path_factory.mktemp("page") / "page"
    CounterPageWriter(path, names, boot_id=1).close()
    reader = CounterPageReader(path)
    assert reader.read().names == tuple(names)
    reader.close()


def test_a_copy_taken_while_the_writer_writes_is_never_handed_out(tmp_path):
    writer = CounterPageWriter(tmp_path / "page", NAMES, boot_id=1)
    reader = CounterPageReader(tmp_path / "page")
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            ports, queues = (np.full_like(array, number) for array in values())
            writer.write(ports, queues, number)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(300):
            snapshot = reader.read(tries=100_000)
            assert len({snapshot.timestamp_unix_ns, *snapshot.ports.flat, *snapshot.queues.flat}) == 1
    finally:
        done.set()
        thread.join()


def test_a_reader_waits_for_a_writer_that_is_preempted_in_the_middle_of_a_write(tmp_path):
    CounterPageWriter(tmp_path / "page", NAMES, boot_id=1)

    def set_sequence(number):
        with (tmp_path / "page").open("r+b") as file:
            file.seek(32)
            file.write(number.to_bytes(8, "little"))

    set_sequence(5)
    ends = threading.Timer(0.005, set_sequence, (6,))
    ends.start()
    assert CounterPageReader(tmp_path / "page").read().sequence == 3
    ends.join()


def test_a_writer_that_died_in_the_middle_is_an_error_after_some_tries(tmp_path):
    CounterPageWriter(tmp_path / "page", NAMES, boot_id=1)
    with (tmp_path / "page").open("r+b") as file:
        file.seek(32)
        file.write((5).to_bytes(8, "little"))
    with pytest.raises(TornReadError, match="3 attempts"):
        CounterPageReader(tmp_path / "page").read(tries=3)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda image: b"", "too short"),
        (lambda image: image[:40], "too short"),
        (lambda image: b"X" + image[1:], "not a counter page"),
        (lambda image: image[:8] + b"\x09" + image[9:], "version 9"),
        (lambda image: image[:24] + b"\xff\xff\xff\xff" + image[28:], "damaged"),
        (lambda image: image[:48] + b"\xff\xff\xff\x7f" + image[52:], "damaged"),
        (lambda image: image[:52] + b"\xff" + image[53:], "not UTF-8"),
        (lambda image: image + b"\0", "damaged"),
    ],
)
def test_a_damaged_page_is_refused_with_its_path(tmp_path, damage, reason):
    path = tmp_path / "page"
    CounterPageWriter(path, NAMES, boot_id=1).close()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CounterPageError, match=reason) as refused:
        CounterPageReader(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("names", [(), ("a", "a"), ("",), ("a\0b",), ("x" * 256,)])
def test_names_that_a_page_cannot_hold_are_refused(tmp_path, names):
    with pytest.raises(CounterPageError):
        CounterPageWriter(tmp_path / "page", names, boot_id=1)


def test_a_difference_is_of_counters_and_not_of_gauges(tmp_path):
    writer = CounterPageWriter(tmp_path / "page", NAMES, boot_id=1)
    reader = CounterPageReader(tmp_path / "page")
    writer.write(*values(), 1)
    before = reader.read()
    writer.write(*values(first=10), 2)
    after = reader.read()
    grown = after.since(before)
    assert set(grown.ports.flat) == {10}
    assert grown.queue("leaf1:2", 3)["packets"] == 10
    assert grown.queue("leaf1:2", 3)["depth_bytes"] == after.queue("leaf1:2", 3)["depth_bytes"]


def test_restarted_counters_have_no_difference(tmp_path):
    snapshots = []
    for boot_id in (1, 2):
        CounterPageWriter(tmp_path / "page", NAMES, boot_id=boot_id)
        snapshots.append(CounterPageReader(tmp_path / "page").read())
    with pytest.raises(CounterPageError, match="restarted"):
        snapshots[1].since(snapshots[0])


def test_an_unknown_port_is_a_key_error(tmp_path):
    CounterPageWriter(tmp_path / "page", NAMES, boot_id=1)
    with pytest.raises(KeyError, match="leaf9:1"):
        CounterPageReader(tmp_path / "page").read().port("leaf9:1")
