import logging
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.log_event import LogEvent
from heddle.controller.runtime.telemetry import LinkRecord
from heddle.controller.store import history as module
from heddle.controller.store.database import Database, Retention
from heddle.controller.store.history import SqliteHistory
from heddle.controller.store.reading import read_events, read_rollups
from heddle.controller.store.seconds import Bucket
from tests.unit.store.snapshots import snapshot, totals

START_S = 1_790_000_000 - 1_790_000_000 % 3_600


def event(number=0, text="a text", at_s=START_S):
    stamp = at_s * 1_000_000_000 + number
    return LogEvent(timestamp_unix_ns=stamp, severity="info", kind="note", subject="leaf1", text=text)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.sqlite"


def of_ports(start_s, rows):
    return Bucket(start_s, np.array(rows), np.zeros((0, 10), dtype=np.int64))


def opened(path, now_s=START_S, **retention):
    return SqliteHistory(path, Retention(**retention), unix_s=lambda: now_s)


def test_events_are_read_back_from_a_time_on_newest_kept_oldest_first(path):
    history = opened(path)
    history.record(tuple(event(number) for number in range(5)))
    history.close()
    assert [found.timestamp_unix_ns % 10 for found in read_events(path, event(1).timestamp_unix_ns, 3)] == [2, 3, 4]


def test_the_states_of_links_are_those_of_the_newest_record_before_a_time_also_once_older_ones_are_dropped(path):
    down = LinkRecord(START_S * 10**9, ("leaf1:1>spine1:1", "n1>leaf1:3"), ("leaf2:1>spine1:2",))
    healed = LinkRecord((START_S + 10) * 10**9, (), ())
    history = opened(path)
    for record in (healed, down):
        history.record_links(record)
    history.close()
    assert history.links(down.unix_ns - 1) is None
    assert history.links(down.unix_ns) == history.links(healed.unix_ns - 1) == down
    database = Database(path, Retention(events_s=100))
    for trimmed_s, kept in ((5, down), (10, None)):
        database.trim(START_S + 100 + trimmed_s)
        assert (history.links(down.unix_ns), history.links(healed.unix_ns)) == (kept, healed)
    database.close()


def test_growth_is_kept_per_second_minute_and_hour(path):
    history = opened(path)
    for second, total in ((0, 100), (1, 150), (60, 160), (3_600, 170)):
        history.sample(snapshot(START_S + second, totals(tx_bytes=total, marked=total // 10)))
    history.close()
    for level, wanted in (
        (1, [(START_S + 1, 50), (START_S + 60, 10), (START_S + 3_600, 10)]),
        (60, [(START_S, 50), (START_S + 60, 10), (START_S + 3_600, 10)]),
        (3_600, [(START_S, 60), (START_S + 3_600, 10)]),
    ):
        ports, queues = read_rollups(path, "leaf1:1", level)
        assert [(start, tx) for start, tx, *_ in ports] == wanted
        assert [(start, priority) for start, priority, *_ in queues] == [(start, 3) for start, _ in wanted]


def test_what_was_counted_before_the_first_snapshot_is_no_growth(path):
    history = opened(path)
    history.sample(snapshot(START_S, totals(tx_bytes=10**12)))
    history.close()
    assert read_rollups(path, "leaf1:1", 1) == ([], [])


def test_a_port_without_growth_has_no_row(path):
    history = opened(path)
    history.sample(snapshot(START_S, totals()))
    history.sample(snapshot(START_S + 1, totals(tx_bytes=1)))
    history.close()
    assert read_rollups(path, "leaf1:2", 1) == ([], [])


def test_the_largest_depth_is_kept_and_a_stale_one_is_ignored(path):
    history = opened(path)
    depth = np.zeros((2, 8), dtype=np.uint64)
    depth[:, 3] = (5_000, 7_000)
    history.sample(snapshot(START_S, totals()))
    history.sample(snapshot(START_S + 0.5, totals(), depth=depth, stale=np.array([False, True])))
    history.close()
    assert [row[-1] for row in read_rollups(path, "leaf1:1", 1)[1]] == [5_000]
    assert read_rollups(path, "leaf1:2", 1)[1] == []


def test_a_restart_goes_on_in_the_same_buckets(path):
    for total in (10, 20):
        history = opened(path)
        history.sample(snapshot(START_S, totals(tx_bytes=5)))
        history.sample(snapshot(START_S + 1, totals(tx_bytes=5 + total)))
        history.close()
    assert [row[1] for row in read_rollups(path, "leaf1:1", 60)[0]] == [30]


def test_a_clock_that_was_set_back_adds_to_the_earlier_buckets(path):
    database = Database(path, Retention())
    for offset in (0, 70, 5, 71, 200, 5):
        database.write(("leaf1:1",), [of_ports(START_S + offset, [(0, 1, 0, 0, 0, 0)])], ())
    database.close()
    for level, wanted in ((1, [(0, 1), (5, 2), (70, 1), (71, 1), (200, 1)]), (60, [(0, 3), (60, 2), (180, 1)]),
                          (3_600, [(0, 6)])):  # fmt: skip
        assert [(row[0] - START_S, row[1]) for row in read_rollups(path, "leaf1:1", level)[0]] == wanted


def test_seconds_that_are_dropped_early_are_in_their_minute(path):
    database = Database(path, Retention(max_bytes=1 << 19))
    names = tuple(f"leaf1:{number}" for number in range(1_000))
    for second in range(30):
        database.write(names, [of_ports(START_S + second, [(row, 1, 2, 3, 4, 5) for row in range(1_000)])], ())
        database.shrink()
    database.close()
    assert len(read_rollups(path, "leaf1:7", 1)[0]) < 30
    assert [row[1] for row in read_rollups(path, "leaf1:7", 60)[0]] == [30]


def test_a_file_without_the_rolled_mark_is_complete(path):
    database = Database(path, Retention())
    database.write(("leaf1:1",), [of_ports(START_S, [(0, 1, 0, 0, 0, 0)])], ())
    database.close()
    with sqlite3.connect(path) as file:
        file.execute("DROP TABLE rolled")
    file.close()
    Database(path, Retention()).close()
    assert [row[1] for row in read_rollups(path, "leaf1:1", 60)[0]] == [1]


def test_rows_past_the_retention_of_their_level_are_deleted(path):
    database = Database(path, Retention(seconds_s=10, minutes_s=600, hours_s=86_400, events_s=60))
    seconds = [of_ports(START_S + offset, [(0, 1, 0, 0, 0, 0)]) for offset in (0, 3_595)]
    database.write(("leaf1:1",), seconds, [event(), event(at_s=START_S + 3_595)])
    database.trim(START_S + 3_600)
    database.close()
    assert [row[0] - START_S for row in read_rollups(path, "leaf1:1", 1)[0]] == [3_595]
    assert [row[0] - START_S for row in read_rollups(path, "leaf1:1", 60)[0]] == [3_540]
    assert [row[0] - START_S for row in read_rollups(path, "leaf1:1", 3_600)[0]] == [0]
    assert read_events(path, 0, 9) == (event(at_s=START_S + 3_595),)


def test_a_file_never_passes_its_limit_and_loses_its_oldest_seconds_first(path):
    limit = 1 << 19
    database = Database(path, Retention(max_bytes=limit))
    names = tuple(f"leaf1:{number}" for number in range(100))
    for second in range(300):
        rows = [(row, 1, 2, 3, 4, 5) for row in range(100)]
        database.write(names, [of_ports(START_S + second, rows)], [event(second)])
        database.shrink()
        assert database.used_bytes() <= limit
    database.close()
    assert path.stat().st_size <= limit
    kept = [row[0] - START_S for row in read_rollups(path, "leaf1:1", 1)[0]]
    assert kept[-1] == 299
    assert kept[0] > 0
    assert len(read_rollups(path, "leaf1:1", 60)[0]) == 5
    assert len(read_events(path, 0, 1_000)) == 300


def test_a_damaged_file_is_moved_aside_with_one_line(path, caplog):
    database = Database(path, Retention())
    rows = [(row, 1, 2, 3, 4, 5) for row in range(500)]
    database.write(tuple(map(str, range(500))), [of_ports(START_S, rows)], [event(text="x" * 500)] * 200)
    database.close()
    sound = path.read_bytes()
    path.write_bytes(sound[:8_192] + b"\xff" * 40_000 + sound[48_192:])
    with caplog.at_level(logging.WARNING):
        history = opened(path)
        history.record((event(text="anew"),))
        history.close()
    assert [found.text for found in read_events(path, 0, 9)] == ["anew"]
    assert path.with_name("history.sqlite.damaged").exists()
    assert len([record for record in caplog.records if "damaged" in record.message]) == 1


def test_a_history_of_another_version_is_moved_aside_and_the_line_names_the_version(path, caplog):
    Database(path, Retention()).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA user_version = 99")
    Database(path, Retention()).close()
    assert [record.getMessage() for record in caplog.records] == [
        f"history: {path} cannot be used (it is of version 99, not 1); it is kept as history.sqlite.damaged, "
        "a new history begins"
    ]


def test_a_file_that_was_never_a_history_is_refused_untouched(path):
    path.write_text("a list of things\n" * 100)
    with pytest.raises(PrerequisiteError, match="no history of heddle"):
        SqliteHistory(path)
    assert path.read_text() == "a list of things\n" * 100
    path.unlink()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE theirs (a)")
    content = path.read_bytes()
    with pytest.raises(PrerequisiteError, match="another program"):
        SqliteHistory(path)
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == {path.name: content}


def test_a_history_of_before_is_continued(path):
    Database(path, Retention()).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA application_id = 0")
    history = opened(path)
    history.record((event(text="anew"),))
    history.close()
    assert [found.text for found in read_events(path, 0, 9)] == ["anew"]


def test_a_file_deleted_while_it_is_written_is_noticed_and_begun_anew(path, caplog):
    history = opened(path)
    for each in path.parent.iterdir():
        each.unlink()
    history.record((event(text="anew"),))
    with caplog.at_level(logging.WARNING):
        history.close()
    assert [found.text for found in read_events(path, 0, 9)] == ["anew"]
    assert "was deleted" in caplog.text


def test_a_file_that_cannot_be_made_is_refused_with_its_name(tmp_path):
    with pytest.raises(PrerequisiteError, match=r"missing/h.sqlite cannot be written .* name another file"):
        SqliteHistory(tmp_path / "missing" / "h.sqlite")


def test_snapshots_beyond_the_bound_lose_resolution_and_nothing_else(path):
    waiting = module._Waiting()
    skipped = sum(waiting.put_snapshot(snapshot(START_S + number, totals())) for number in range(10))
    assert (skipped, len(waiting.snapshots)) == (6, 4)
    assert waiting.snapshots[-1].now_ns == (START_S + 9) * 1_000_000_000


def test_events_beyond_the_bound_are_counted():
    waiting = module._Waiting()
    assert waiting.put_events((event(),) * (module.MAX_EVENTS + 7)) == 7
    assert len(waiting.take_events()) == module.MAX_EVENTS


def test_a_disk_that_fails_costs_history_and_one_line(path, caplog, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    history = opened(path)
    monkeypatch.setattr(Database, "write", full)
    with caplog.at_level(logging.WARNING):
        history.record((event(),))
        history.close()
    assert history.counts()["failed_batches"] == 1
    assert [record.message for record in caplog.records if "is full" in record.message] != []


def test_a_crash_loses_at_most_what_was_not_committed(path):
    program = (
        "import os, sys, time; from pathlib import Path\n"
        "from tests.unit.store.test_history import event, opened\n"
        "history = opened(Path(sys.argv[1]))\n"
        "history.record((event(text='before'),))\n"
        "while not history.counts()['written_batches']: time.sleep(0.01)\n"
        "history.record((event(1, text='after'),)); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], timeout=60).returncode == 9
    found = [found.text for found in read_events(path, 0, 9)]
    assert found[0] == "before"
    history = opened(path)
    history.close()
    assert [kept.text for kept in read_events(path, 0, 9)] == found
