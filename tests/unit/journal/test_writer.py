"""The journal's thread: what it writes together, what it reports, and that a failure loses nothing."""

import logging
import queue

import pytest

from heddle.controller.runtime.journal import values, writer
from heddle.controller.runtime.journal.writer import JournalWriter
from heddle.controller.runtime.ports import StoreError

DRAIN, PORT, GENERATION = ("drain", "spine1"), ("drain", "spine2"), ("network_generation", "")


class Store:
    """Keeps what is written; raises `fails` instead, while that is set."""

    place = "the store"

    def __init__(self):
        self.fails: Exception | None = None
        self.held: dict = {}
        self.checks = self.closed = 0

    def write(self, found):
        if self.fails:
            raise self.fails
        self.held |= found

    def check(self):
        self.checks += 1
        if self.fails:
            raise self.fails

    def close(self):
        self.closed += 1


class Journal:
    """A writer, its store, and its reports in their order."""

    def __init__(self):
        self.store, self.reports = Store(), queue.Queue()
        self.writer = JournalWriter(self.store, None, lambda number, why: self.reports.put((number, why)))  # type: ignore[arg-type]

    def next(self):
        return self.reports.get(timeout=30)


@pytest.fixture
def journal(monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    found = Journal()
    yield found
    found.writer.close()
    assert found.store.closed == 1


def test_requests_are_numbered_and_those_that_wait_are_written_together(journal):
    assert [journal.writer.write({key: "x"}) for key in (DRAIN, PORT)] == [1, 2]
    assert journal.writer.write({GENERATION: 7}) == 3
    journal.writer.start()
    assert journal.next() == (3, "")
    assert journal.store.held == {DRAIN: values.encode("x"), PORT: values.encode("x"), GENERATION: values.encode(7)}
    assert (journal.writer.written, journal.writer.values, journal.writer.failed) == (1, 3, 0)
    assert journal.writer.is_failing is False


def test_of_a_value_that_changes_again_the_newest_is_written_and_what_is_gone_is_removed(journal):
    for value in ("x", "y"):
        journal.writer.write({DRAIN: value})
    journal.writer.write({PORT: None})
    journal.writer.start()
    assert journal.next() == (3, "")
    assert journal.store.held == {DRAIN: values.encode("y"), PORT: None}
    journal.writer.write({DRAIN: None})
    assert journal.next() == (4, "")
    assert (journal.store.held[DRAIN], journal.writer.written, journal.writer.values) == (None, 2, 3)


def test_a_failure_is_reported_with_its_reason_and_what_failed_is_written_later(journal, caplog):
    journal.store.fails = StoreError("disk full")
    journal.writer.write({DRAIN: "x"})
    with caplog.at_level(logging.WARNING, "heddle.journal"):
        journal.writer.start()
        assert [journal.next() for _ in range(3)] == [(1, "disk full")] * 3  # tried again without a request
        assert journal.writer.is_failing is True
        journal.writer.write({PORT: "y"})
        while (report := journal.next()) != (2, "disk full"):
            assert report == (1, "disk full")
        journal.store.fails = None
        while (report := journal.next()) != (2, ""):
            assert report == (2, "disk full")
    assert journal.store.held == {DRAIN: values.encode("x"), PORT: values.encode("y")}
    assert journal.writer.is_failing is False
    assert journal.writer.failed >= 4
    why = "journal: disk full; new work is refused until it can be written, what runs goes on"
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.ERROR, why),
        (logging.WARNING, "journal: the store is written again"),
    ]


def test_a_store_that_fails_while_there_is_nothing_to_write_is_noticed_and_so_is_its_return(journal):
    journal.writer.start()
    journal.store.fails = StoreError("not reached")
    assert journal.next() == (0, "not reached")
    journal.store.fails = None
    while (report := journal.next()) != (0, ""):
        assert report == (0, "not reached")
    assert journal.store.checks > 1
    assert (journal.writer.written, journal.writer.values) == (0, 0)


def test_a_fault_of_the_controller_is_a_failure_that_names_it(journal):
    journal.store.fails = ZeroDivisionError("oops")
    journal.writer.write({DRAIN: "x"})
    journal.writer.start()
    assert journal.next() == (1, "the store: a fault of the controller: ZeroDivisionError('oops')")
    journal.store.fails = None


def test_what_waits_is_written_before_the_store_is_closed(journal):
    journal.writer.start()
    journal.writer.write({DRAIN: "x"})
    journal.writer.close()
    assert (journal.store.held, journal.store.closed) == ({DRAIN: values.encode("x")}, 1)
