"""The lab's counter page and NIC files as sources."""

import json
import os

import numpy as np
import pytest

from heddle.telemetry.agent.source import SourceError, is_sound
from heddle.telemetry.agent.sources.emulated import EmulatedNics, EmulatedSwitches
from heddle.telemetry.counter_page import PORT_FIELDS, QUEUE_FIELDS, CounterPageWriter
from heddle.telemetry.samples.topic import Source

NAMES = ("leaf1:1", "leaf1:2", "spine1:1")


def write(writer, base, stamp):
    ports = np.arange(len(NAMES) * len(PORT_FIELDS), dtype=np.uint64).reshape(len(NAMES), -1) + np.uint64(base)
    queues = np.arange(len(NAMES) * 8 * len(QUEUE_FIELDS), dtype=np.uint64).reshape(len(NAMES), 8, -1)
    writer.write(ports, queues + np.uint64(base), stamp)
    return ports, queues + np.uint64(base)


@pytest.fixture
def page(tmp_path):
    return tmp_path / "counters"


async def read(source):
    return {device.device: device for device in await source.read(5)}


async def test_every_counter_of_the_page_is_in_the_sample_of_its_switch(page):
    writer = CounterPageWriter(page, NAMES, boot_id=77)
    ports, queues = write(writer, 1000, stamp=123)
    found = await read(EmulatedSwitches(page))
    assert sorted(found) == ["leaf1", "spine1"]
    samples = {one.port: one for device in found.values() for one in device.samples}
    assert all(device.kind is Source.SWITCH for device in found.values())
    for row, name in enumerate(NAMES):
        one = samples[name]
        assert is_sound(one)
        assert (one.timestamp_unix_ns, one.boot_id) == (123, 77)
        assert [getattr(one, field) for field in PORT_FIELDS] == ports[row].tolist()
        for priority, queue in enumerate(one.queues):
            assert queue.priority == priority
            on_page = dict(zip(QUEUE_FIELDS, queues[row, priority].tolist(), strict=True))
            del on_page["watchdog_trips"], on_page["watchdog_restores"]
            assert {field: getattr(queue, field) for field in on_page} == on_page


async def test_a_queue_whose_watchdog_has_tripped_and_not_restored_is_marked(page):
    writer = CounterPageWriter(page, NAMES, boot_id=1)
    queues = np.zeros((len(NAMES), 8, len(QUEUE_FIELDS)), dtype=np.uint64)
    queues[0, 3:5, QUEUE_FIELDS.index("watchdog_trips")] = 2
    queues[0, 3:5, QUEUE_FIELDS.index("watchdog_restores")] = 1, 2
    writer.write(np.zeros((len(NAMES), len(PORT_FIELDS)), dtype=np.uint64), queues, 1)
    samples = (await read(EmulatedSwitches(page)))["leaf1"].samples
    assert [queue.priority for one in samples for queue in one.queues if queue.watchdog_active] == [3]


async def test_one_switch_of_a_lab_can_have_an_agent_of_its_own(page):
    write(CounterPageWriter(page, NAMES, boot_id=1), 0, stamp=1)
    assert sorted(await read(EmulatedSwitches(page, only=["spine1"]))) == ["spine1"]


async def test_a_page_that_was_never_written_has_no_samples(page):
    CounterPageWriter(page, NAMES, boot_id=1)
    assert await read(EmulatedSwitches(page)) == {}


async def test_a_restarted_lab_is_read_with_its_new_boot_id(page):
    write(CounterPageWriter(page, NAMES, boot_id=1), 50, stamp=1)
    source = EmulatedSwitches(page)
    assert (await read(source))["leaf1"].samples[0].boot_id == 1
    page.unlink()
    with pytest.raises(SourceError, match="is the lab running"):
        await source.read(5)
    write(CounterPageWriter(page, NAMES, boot_id=2), 0, stamp=2)
    assert (await read(source))["leaf1"].samples[0].boot_id == 2
    write(CounterPageWriter(page, NAMES, boot_id=3), 0, stamp=3)  # replaced without a pause
    assert (await read(source))["leaf1"].samples[0].boot_id == 3
    await source.close()


async def test_an_invalid_page_is_reported_in_one_line(page):
    page.write_bytes(b"x" * 100)
    with pytest.raises(SourceError, match="not a counter page"):
        await EmulatedSwitches(page).read(5)


def nic_file(folder, nic="h1-n0", **changes):
    content = {
        "nic": nic,
        "host": "h1",
        "boot_id": 9,
        "timestamp_unix_ns": 44,
        "counters": {
            "tx_vport_rdma_unicast_bytes": 5000,
            "rx_vport_rdma_unicast_packets": 7,
            "out_of_buffer": 2,
            "np_cnp_sent": 3,
            "rx_prio3_pause": 11,
            "rx_prio3_pause_duration": 13,
            "tx_prio3_pause": 17,
            "tx_prio3_packets": 19,
            "tx_prio3_bytes": 23,
        },
        **changes,
    }
    path = folder / f"{nic}.json"
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return path


async def test_a_nics_file_becomes_a_sample_of_its_host(tmp_path):
    nic_file(tmp_path)
    device = (await read(EmulatedNics(tmp_path)))["h1"]
    (one,) = device.samples
    assert device.kind is Source.HOST
    assert (one.port, one.boot_id, one.timestamp_unix_ns) == ("h1-n0", 9, 44)
    assert (one.tx_bytes, one.rx_packets, one.drops) == (5000, 7, 2)
    assert one.nic_counters == {"np_cnp_sent": 3, "out_of_buffer": 2}
    (queue,) = one.queues
    assert (queue.priority, queue.pfc_rx_frames, queue.paused_ns, queue.pfc_tx_frames) == (3, 11, 13_000, 17)
    assert (queue.packets, queue.bytes) == (19, 23)


async def test_a_nic_whose_file_names_no_host_has_the_one_of_the_fabric(tmp_path):
    nic_file(tmp_path, host=None)
    assert sorted(await read(EmulatedNics(tmp_path, {"h1-n0": "other"}))) == ["other"]
    with pytest.raises(SourceError, match="give the fabric file"):
        await EmulatedNics(tmp_path).read(5)


@pytest.mark.parametrize(
    "changes",
    [
        {"counters": None},
        {"counters": 5},
        {"counters": {"a": "x"}},
        {"counters": {"a": [1]}},
        {"counters": {"a": float("inf")}},
        {"boot_id": {}},
    ],
)
async def test_a_file_with_other_contents_is_reported_by_name(tmp_path, changes):
    nic_file(tmp_path, **changes)
    with pytest.raises(SourceError, match=r"h1-n0\.json"):
        await EmulatedNics(tmp_path).read(5)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"5", b"\xff\xfe", b"[" * 100_000])
async def test_a_file_without_an_object_is_reported_by_name(tmp_path, text):
    (tmp_path / "h1-n0.json").write_bytes(text)
    with pytest.raises(SourceError, match=r"h1-n0\.json"):
        await EmulatedNics(tmp_path).read(5)


async def test_a_folder_without_nics_is_reported(tmp_path):
    with pytest.raises(SourceError, match="is the lab running"):
        await EmulatedNics(tmp_path / "none").read(5)


async def test_numbers_outside_uint64_are_clamped(tmp_path):
    nic_file(tmp_path, counters={"tx_bytes": 1 << 70, "rx_bytes": -5, "np_cnp_sent": 1 << 80})
    one = (await read(EmulatedNics(tmp_path)))["h1"].samples[0]
    assert (one.tx_bytes, one.rx_bytes, one.nic_counters["np_cnp_sent"]) == ((1 << 64) - 1, 0, (1 << 64) - 1)


async def test_a_file_that_is_half_replaced_is_read_whole(tmp_path):
    path = nic_file(tmp_path)
    (tmp_path / "h1-n0.json.new").write_text("{")
    os.replace(path, path)
    assert sorted(await read(EmulatedNics(tmp_path))) == ["h1"]


async def test_a_file_that_was_not_replaced_gives_no_sample(tmp_path):
    nic_file(tmp_path)
    nic_file(tmp_path, nic="h2-n0", host="h2")
    source = EmulatedNics(tmp_path)
    assert sorted(await read(source)) == ["h1", "h2"]
    assert await read(source) == {}
    nic_file(tmp_path / "..", nic="h2-n0", host="h2").replace(tmp_path / "h2-n0.json")
    assert sorted(await read(source)) == ["h2"]


async def test_a_nic_that_writes_more_often_is_read_about_once_per_period(tmp_path):
    path, second = nic_file(tmp_path), 1_000_000_000
    source = EmulatedNics(tmp_path, period_ns=second)
    stamps = []
    for tenth in range(21):
        nic_file(tmp_path / "..", timestamp_unix_ns=tenth + 1).replace(path)
        os.utime(path, ns=(0, 5 * second + tenth * second // 10))
        stamps += [device.samples[0].timestamp_unix_ns - 1 for device in (await read(source)).values()]
    assert stamps == [0, 8, 16]


async def test_an_older_nic_file_is_read_as_new(tmp_path):
    path = nic_file(tmp_path)
    source = EmulatedNics(tmp_path, period_ns=10**9)
    await read(source)
    os.utime(path, ns=(0, 5))
    assert sorted(await read(source)) == ["h1"]
