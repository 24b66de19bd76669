"""`heddle state --etcd`: copies between a single controller's journal and etcd, and epochs that only grow."""

import pytest

from heddle.controller.model.error import InUseError
from heddle.controller.runtime.ports import EPOCH_SHIFT, FencedError
from heddle.controller.store.etcd import state_in_etcd
from heddle.controller.store.etcd.state_in_etcd import Place
from heddle.controller.store.journal import SqliteStore
from heddle.programs.console.options.state import state
from tests.unit.etcd.stores import etcd_opener

VALUES = {("job", "a/b"): b"1", ("vpc", "large"): b"x" * 1_200_000}


@pytest.fixture
def place(one_etcd, tmp_path):
    return Place(one_etcd.endpoints, str(tmp_path))


def test_a_journal_moves_from_one_controller_to_several_and_back(place, tmp_path):
    file, copy = tmp_path / "journal.sqlite", tmp_path / "copy"
    single = SqliteStore(file)
    single.write(VALUES)
    before = single.next_generation()
    single.close()
    with etcd_opener(place.endpoints, place.fabric) as opener:
        opener.open().write({("job", "of before"): b"2"})
        with pytest.raises(InUseError, match="test at  leads"):
            state_in_etcd.restore(place, file, above=0)
        opener.run(opener.resign())
        assert state_in_etcd.restore(place, file, above=0) == 2
        store = opener.open()
        assert store.read() == VALUES
        assert store.next_generation() > before + (1 << EPOCH_SHIFT) // 2
        state_in_etcd.backup(place, copy)
    again = SqliteStore(copy)
    assert again.read() == VALUES
    assert again.next_generation() >> EPOCH_SHIFT == 2
    again.close()


def test_a_raised_epoch_begins_a_new_term_above_what_switches_obey(place):
    assert state_in_etcd.init(place, above=5 << EPOCH_SHIFT | 7) == 6
    with pytest.raises(InUseError, match="already"):
        state_in_etcd.init(place, above=0)
    with etcd_opener(place.endpoints, place.fabric) as opener:
        store = opener.open()
        assert store.next_generation() >> EPOCH_SHIFT == 6
        assert state_in_etcd.raise_epoch(place, above=9 << EPOCH_SHIFT) == 10
        with pytest.raises(FencedError, match="its lease has ended"):
            store.write(VALUES)
        assert opener.open().next_generation() >> EPOCH_SHIFT == 10


def test_the_command_names_what_is_missing_and_counts_what_is_there(place, cli):
    done = cli.invoke(state, ["check", "--etcd", place[0][0]])
    assert "--fabric" in str(done.exception)
    with etcd_opener(place.endpoints, place.fabric) as opener:
        opener.open().write(VALUES)
    done = cli.invoke(state, ["check", "--etcd", place[0][0], "--fabric", place[1], "--json"])
    assert done.output == '{"epoch": 1, "job": 1, "vpc": 1}\n'


@pytest.fixture
def cli():
    from typer.testing import CliRunner

    return CliRunner()
