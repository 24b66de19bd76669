"""The counter file of a NIC."""

import json
import shutil
import time
from pathlib import Path

from heddle.mininet_topos.nic.snapshot import Snapshot


def await_sequence(path: Path, sequence: int) -> dict:
    for _ in range(2000):
        if path.exists() and (found := json.loads(path.read_text()))["sequence"] == sequence:
            return found
        time.sleep(0.005)
    raise AssertionError("the file was never written")


def test_the_file_has_identity_time_and_counters(tmp_path):
    snapshot = Snapshot(str(tmp_path / "n1.json"), 100, nic="n1", host="h1")
    snapshot.write(5, {"np_cnp_sent": 7}, lambda: {"requesters": []})
    found = await_sequence(tmp_path / "n1.json", 1)
    assert (found["nic"], found["host"], found["counters"]) == ("n1", "h1", {"np_cnp_sent": 7})
    assert found["requesters"] == []
    assert found["boot_id"] > 0
    assert snapshot.due_ns == 105


def test_a_newer_state_replaces_the_older_under_the_same_boot_id(tmp_path):
    snapshot = Snapshot(str(tmp_path / "n1.json"), 100)
    snapshot.write(0, {"a": 1}, dict)
    first = await_sequence(tmp_path / "n1.json", 1)
    snapshot.write(100, {"a": 2}, dict)
    second = await_sequence(tmp_path / "n1.json", 2)
    assert second["boot_id"] == first["boot_id"]
    assert second["counters"] == {"a": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["n1.json"]


def test_unchanged_counters_are_written_again_only_after_the_keep_alive_time(tmp_path):
    snapshot = Snapshot(str(tmp_path / "n1.json"), 100)
    snapshot.write(0, {"a": 1}, dict)
    await_sequence(tmp_path / "n1.json", 1)
    snapshot.write(100, {"a": 1}, dict)
    snapshot.write(400_000_000, {"a": 1}, dict)
    assert await_sequence(tmp_path / "n1.json", 2)["counters"] == {"a": 1}


def test_without_a_path_nothing_is_ever_due(tmp_path):
    assert Snapshot("", 100).due_ns == float("inf")


def test_removing_the_directory_ends_the_writing_silently(tmp_path):
    folder = tmp_path / "nic"
    folder.mkdir()
    snapshot = Snapshot(str(folder / "n1.json"), 100)
    shutil.rmtree(folder)
    snapshot.write(0, {}, dict)
    for _ in range(2000):
        if snapshot.due_ns == float("inf"):
            break
        time.sleep(0.005)
    assert snapshot.due_ns == float("inf")
