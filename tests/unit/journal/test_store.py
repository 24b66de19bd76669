"""The SQLite journal: what it refuses, without a change to the file, and what a damaged, full or deleted file does."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from heddle.controller.model.error import HeddleError, InputError, InUseError
from heddle.controller.runtime.ports import EPOCH_SHIFT, StoreError
from heddle.controller.store import journal_schema as schema
from heddle.controller.store import state_directory
from heddle.controller.store.journal import SqliteStore, check_file
from heddle.testing.switches.openflow_switch import FakeSwitch
from tests.unit.api.conftest import running

VALUES = {("job", f"j{number}"): bytes([number % 251]) * 200 for number in range(200)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


def filled(path, **more):
    store = SqliteStore(path, **more)
    store.write(VALUES)
    return store


def heddle(*arguments: str) -> None:
    """Run a command, which succeeds."""
    subprocess.run([sys.executable, "-m", "heddle.programs.console.main", *arguments], check=True, timeout=60)


def refused(path) -> str:
    """Return why a file is refused, and check that it was not touched; SQLite may add its empty log beside ours."""
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(InputError) as why:
        SqliteStore(path)
    after = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    assert {name: after[name] for name in before} == before
    assert not after.get(f"{path.name}-wal")
    assert str(path) in str(why.value)
    assert "\n" not in str(why.value)
    return str(why.value)


def test_values_and_deletions_are_there_after_a_restart_and_revisions_grow(path):
    store = filled(path)
    first = store.next_generation()
    store.write({("job", "j7"): None, ("drain", "spine1"): b"x"})
    store.close()
    assert path.stat().st_mode & 0o777 == 0o600
    again = SqliteStore(path)
    left = {key: value for key, value in VALUES.items() if key != ("job", "j7")}
    assert again.read() == {**left, ("drain", "spine1"): b"x"}
    assert first < again.next_generation() < 2 << EPOCH_SHIFT
    again.close()


def test_files_of_others_are_refused_untouched(path):
    path.write_text("a list of things\n" * 50)
    assert "no journal of heddle" in refused(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE theirs (a)")
    assert "another program" in refused(path)


def test_a_newer_version_is_refused_and_an_older_one_migrates_with_its_values(path):
    newer = (*schema.MIGRATIONS, "ALTER TABLE value ADD COLUMN note TEXT NOT NULL DEFAULT ''; DELETE FROM value "
             "WHERE id = 'j1'")  # fmt: skip
    filled(path).close()
    store = SqliteStore(path, migrations=newer)
    assert len(store.read()) == len(VALUES) - 1
    store.close()
    assert f"version {len(newer)}" in refused(path)


def test_a_migration_that_fails_leaves_the_version_before(path):
    filled(path).close()
    with pytest.raises(HeddleError):
        SqliteStore(path, migrations=(*schema.MIGRATIONS, "DELETE FROM value; SELECT * FROM absent"))
    store = SqliteStore(path)
    assert store.read() == VALUES
    store.close()


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_damaged_page_is_refused_with_the_remedy(path, share):
    filled(path).close()
    content = bytearray(path.read_bytes())
    at = int(len(content) * share) // 4096 * 4096
    content[at : at + 4096] = os.urandom(4096)
    path.write_bytes(content)
    assert "heddle state restore" in refused(path)


def test_a_changed_value_is_noticed_when_it_is_read(path):
    filled(path).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE value SET content = x'00' WHERE id = 'j9'")
    store = SqliteStore(path)
    with pytest.raises(InputError, match="wrong checksum of job j9"):
        store.read()
    store.close()
    with pytest.raises(InputError, match="j9"):
        check_file(path, thoroughly=True)


def test_a_journal_deleted_while_in_use_is_written_again(path):
    store = filled(path)
    for each in list(path.parent.iterdir()):
        each.unlink()
    store.write({("job", "new"): b"n"})
    store.close()
    again = SqliteStore(path)
    assert again.read() == {**VALUES, ("job", "new"): b"n"}
    again.close()


def test_a_journal_replaced_while_in_use_is_neither_used_nor_overwritten(path):
    store = filled(path)
    path.rename(path.with_suffix(".mine"))
    path.write_text("theirs")
    with pytest.raises(StoreError, match="was replaced"):
        store.write({("job", "new"): b"n"})
    assert path.read_text() == "theirs"
    path.unlink()
    store.close()


def test_a_directory_has_one_user_at_a_time(tmp_path):
    held = state_directory.StateDirectory(tmp_path / "state")
    with pytest.raises(InUseError, match="is used by another"):
        state_directory.StateDirectory(tmp_path / "state")
    held.close()
    state_directory.StateDirectory(tmp_path / "state").close()


def test_a_restored_copy_has_a_generation_above_all_before(tmp_path):
    folder, copy = tmp_path / "state", tmp_path / "copy"
    assert state_directory.init(folder, above=0) == 1
    with pytest.raises(InUseError, match="exists already"):
        state_directory.init(folder, above=0)
    store = SqliteStore(folder / "journal.sqlite")
    store.write(VALUES)
    state_directory.backup(folder, copy)  # while it is in use
    store.write({("job", "later"): b"x"})
    last = store.next_generation()
    store.close()
    for _ in range(2):
        state_directory.restore(folder, copy, above=0)
    store = SqliteStore(folder / "journal.sqlite")
    assert store.read() == VALUES
    assert store.next_generation() > last + (1 << EPOCH_SHIFT)
    store.close()
    state_directory.raise_epoch(folder, above=9 << EPOCH_SHIFT)
    assert state_directory.check(folder) == {"version": 1, "epoch": 10, "job": len(VALUES)}


@pytest.fixture
def lost(tmp_path):
    """Return a directory whose journal, of epoch 4, was used and is to be lost."""
    folder = tmp_path / "lost"
    state_directory.init(folder, above=3 << EPOCH_SHIFT)
    with closing(state_directory.StateDirectory(folder)) as held:
        held.open().close()
    return folder


def opened(folder):
    with closing(state_directory.StateDirectory(folder)) as held:
        store = held.open()
        store.close()
        return store


@pytest.mark.parametrize(("lose", "what"), [(os.unlink, "is gone"), (lambda path: os.truncate(path, 0), "is empty")])
def test_a_journal_that_was_there_and_is_lost_is_not_begun_anew_without_the_operator(lost, lose, what):
    lose(lost / "journal.sqlite")
    with pytest.raises(InputError, match=what) as why:
        opened(lost)
    assert f"--state {lost}" in str(why.value)
    assert state_directory.init(lost, above=0) == 5  # above the generations that switches obey
    opened(lost)


def test_a_copy_replaces_a_lost_journal_with_generations_above_it(lost, tmp_path):
    copy = tmp_path / "copy"
    state_directory.init(tmp_path / "other", above=0)
    state_directory.backup(tmp_path / "other", copy)
    (lost / "journal.sqlite").unlink()
    state_directory.restore(lost, copy, above=0)
    opened(lost)
    assert state_directory.check(lost)["epoch"] == 5


def test_an_empty_file_is_no_journal_even_where_nothing_else_says_that_there_was_one(tmp_path):
    (tmp_path / "journal.sqlite").touch()
    with pytest.raises(InputError, match="is empty"):
        opened(tmp_path)


def test_a_journal_of_before_gets_its_mark_at_the_next_start(lost):
    (lost / "epoch").unlink()
    opened(lost)
    assert (lost / "epoch").read_text() == "4\n"


async def test_a_switch_beyond_a_restored_copy_is_reached_after_the_command_that_the_log_names(tmp_path, caplog):
    state, copy, later = tmp_path / "state", tmp_path / "copy", 7 << EPOCH_SHIFT | 5
    state_directory.init(tmp_path / "before", above=0)
    state_directory.backup(tmp_path / "before", copy)
    heddle("state", "restore", str(copy), "--state", str(state))
    async with running(state=str(state)) as controller:
        switch = FakeSwitch(controller.application.loop.state.fabric.switch_by_id["leaf1"].datapath_id)
        switch.generation = later
        host, port = controller.addresses["openflow"].split(":")
        await switch.connect(host, int(port))
        await switch.closed()
    (command,) = re.findall(r"obeyed generation .*?`heddle (.*?)`", caplog.text)
    heddle(*command.split(), "--state", str(state))
    async with running(state=str(state)) as controller:
        again = await controller.connect("leaf1", switch.tables)
        again.generation = later
        await controller.until(lambda topology: any(each.connected for each in topology.switches))
        assert again.generation > later


async def test_a_controller_does_not_start_on_the_journal_of_a_newer_one(tmp_path, path):
    filled(path, migrations=(*schema.MIGRATIONS, "CREATE TABLE more (a)")).close()
    content = path.read_bytes()
    with pytest.raises(InputError) as why:
        async with running(state=str(tmp_path)):
            raise AssertionError("it has started")
    assert str(path) in str(why.value)
    assert "--state" in str(why.value)
    assert "\n" not in str(why.value)
    assert path.read_bytes() == content


def test_a_controller_that_must_not_use_a_journal_ends_with_one_line(tmp_path, path):
    path.write_text("a list of things\n" * 50)
    content = path.read_bytes()
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text("version: 1\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1}\n")
    command = [sys.executable, "-m", "heddle.programs.console.main", "run", str(fabric), "--state", str(tmp_path)]
    command += ["--openflow", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr.count("\n"), str(path) in done.stderr) == (2, 1, True), done.stderr
    assert "--state" in done.stderr
    assert path.read_bytes() == content
