import json
import os
import stat

import pytest

from heddle.controller.access.audit_file import AuditFile
from heddle.controller.model.error import InputError, PrerequisiteError

LINE = {"time": "2026-01-01T00:00:00", "who": "operator:a", "what": "x", "outcome": "OK"}


def numbers(path):
    return [int(json.loads(line)["n"]) for line in path.read_text().splitlines()]


def written(path, count, max_bytes=1 << 20, first=0):
    file = AuditFile(path, max_bytes)
    for n in range(first, first + count):
        file.write({**LINE, "n": str(n)})
    file.close()
    return file


def test_lines_are_appended_to_a_file_that_its_owner_alone_reads(tmp_path):
    path = tmp_path / "state" / "audit.jsonl"
    written(path, 3)
    path.chmod(0o644)
    written(path, 2, first=3)
    assert numbers(path) == [0, 1, 2, 3, 4]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_and_the_one_before_stay_within_their_bytes(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(path, 200, max_bytes=4_000)
    before = tmp_path / "audit.jsonl.1"
    assert path.stat().st_size + before.stat().st_size <= 4_000
    kept = numbers(before) + numbers(path)
    assert kept == list(range(200 - len(kept), 200))


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    with pytest.raises(InputError, match=r"notes\.txt is no audit file"):
        AuditFile(path, 1000)
    assert path.read_text() == "mine\n"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/null", path)])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "audit.jsonl")
    with pytest.raises((InputError, PrerequisiteError)):
        AuditFile(tmp_path / "audit.jsonl", 1000)


def test_a_full_disk_loses_whole_lines_which_are_counted_and_reported_once_a_minute(tmp_path, monkeypatch, caplog):
    path = tmp_path / "audit.jsonl"
    write, room = os.write, [100]

    def limited(descriptor, data):
        if not room[0]:
            raise OSError(28, "No space left on device")
        done = write(descriptor, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr("heddle.controller.access.audit_file.os.write", limited)
    file = written(path, 5)
    assert file.lost == 4
    assert caplog.text.count("the audit trail cannot be written") == 1
    room[0] = 10_000
    assert written(path, 1, first=9).lost == 0
    assert numbers(path) == [0, 9]
