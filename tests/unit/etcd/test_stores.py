"""What both journals promise, and what only the one in etcd does: a leader of before writes nothing."""

import asyncio

import pytest

from heddle.controller.model.error import InputError
from heddle.controller.runtime.ports import EPOCH_SHIFT, FencedError, StoreError
from heddle.controller.store.etcd import journal, keys
from heddle.controller.store.etcd.client import EtcdUnavailableError
from heddle.controller.store.etcd.keys import put
from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from tests.unit.etcd.stores import etcd_opener, sqlite_opener


@pytest.fixture(params=["sqlite", "etcd"])
def opened(request, tmp_path):
    """Return a function that opens the same journal again."""
    if request.param == "sqlite":
        with sqlite_opener(tmp_path / "journal.sqlite") as opener:
            yield opener
    else:
        with etcd_opener(request.getfixturevalue("one_etcd").endpoints, str(tmp_path)) as opener:
            yield opener.open


@pytest.fixture
def opener(one_etcd, tmp_path):
    with etcd_opener(one_etcd.endpoints, str(tmp_path)) as found:
        yield found


def test_values_and_deletions_are_there_after_a_restart(opened):
    store = opened()
    store.write({("job", "a/b %"): b"1", ("job", "empty"): b"", ("vpc", "gone"): b"3"})
    store.write({("vpc", "gone"): None, ("vpc", "never"): None, ("job", "late"): b"4"})
    wanted = {("job", "a/b %"): b"1", ("job", "empty"): b"", ("job", "late"): b"4"}
    assert store.read() == wanted
    assert opened().read() == wanted


def test_generations_grow_with_each_start_and_are_above_unix_milliseconds(opened):
    found = [opened().next_generation() for _ in range(3)]
    assert found == sorted(set(found))
    assert found[0] > 1 << EPOCH_SHIFT


def test_a_large_change_and_a_large_value_are_written_whole(opened):
    store = opened()
    wanted = {("job", f"j{number}"): bytes([number % 251]) * 9_000 for number in range(350)}
    wanted["job", "large"] = b"x" * 3_000_000
    store.write(wanted)
    assert opened().read() == wanted


def test_a_value_that_gets_shorter_keeps_no_end_of_the_longer_one(opened):
    store = opened()
    store.write({("job", "a"): b"x" * 1_500_000})
    store.write({("job", "a"): b"short"})
    assert store.read() == {("job", "a"): b"short"}
    store.write({("job", "a"): b"x" * 1_500_000})
    again = opened()
    again.read()
    again.write({("job", "a"): None})
    assert again.read() == {}


def test_a_leader_of_before_writes_nothing_and_learns_who_leads(opener):
    before = opener.open()
    before.write({("job", "a"): b"1"})
    after = opener.open()
    with pytest.raises(FencedError, match="test leads now"):
        before.write({("job", "a"): b"2"})
    with pytest.raises(FencedError):
        before.check()
    opener.run(asyncio.sleep(0))
    assert len(opener.fenced) == 2
    after.check()
    assert after.read() == {("job", "a"): b"1"}


def test_a_request_that_arrives_late_does_not_undo_a_newer_one(opener, monkeypatch):
    store = opener.open()
    late: list[pb.TxnRequest] = []
    send = opener.client.txn

    async def lost(request, *more):
        late.append(request)
        raise EtcdUnavailableError("no reply")

    monkeypatch.setattr(opener.client, "txn", lost)
    with pytest.raises(StoreError, match="no reply"):
        store.write({("job", "a"): b"old"})
    monkeypatch.setattr(opener.client, "txn", send)
    store.write({("job", "a"): b"new"})
    assert not opener.run(send(late[0])).succeeded
    assert store.read() == {("job", "a"): b"new"}


def test_a_write_whose_reply_was_lost_is_not_an_obstacle_to_the_next(opener, monkeypatch):
    store = opener.open()
    send = opener.client.txn

    async def unanswered(request, *more):
        await send(request)
        raise EtcdUnavailableError("no reply")

    for number in range(3):
        monkeypatch.setattr(opener.client, "txn", unanswered)
        with pytest.raises(StoreError):
            store.write({("job", f"a{number}"): b"x" * 700_000})
        monkeypatch.setattr(opener.client, "txn", send)
        store.write({("job", f"a{number}"): b"y"})
    assert store.read() == {("job", f"a{number}"): b"y" for number in range(3)}


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("survives", [0, 2, 4, 5, 7, 9])  # of ten: four beside, the mark, four applied, the end
def test_a_large_change_that_is_cut_off_is_there_whole_or_not_at_all(opener, monkeypatch, survives, goes_on):
    monkeypatch.setattr(journal, "MAX_OPERATIONS", 2)
    monkeypatch.setattr(keys, "PART_BYTES", 4)
    monkeypatch.setattr(journal, "PART_BYTES", 4)
    store = opener.open()
    old = {("job", f"j{number}"): b"old old" for number in range(3)}
    store.write(old)
    new = {("job", f"j{number}"): b"new" for number in range(4)}
    send, sent = opener.client.txn, []

    async def dies(request, *more):
        if len(sent) >= survives:
            raise EtcdUnavailableError("killed")
        sent.append(request)
        return await send(request)

    monkeypatch.setattr(opener.client, "txn", dies)
    with pytest.raises(StoreError):
        store.write(new)
    monkeypatch.setattr(opener.client, "txn", send)
    wanted = new if survives > 4 else old
    if goes_on:  # the same leader reaches etcd again
        store.write({("job", "j1"): b"newest"})
        wanted = {**wanted, ("job", "j1"): b"newest"}
    assert opener.open().read() == wanted


def test_a_foreign_key_among_the_values_is_refused_with_its_name(opener):
    store = opener.open()
    opener.run(opener.client.txn(pb.TxnRequest(success=[put(opener.keys.values + b"x", b"")])))
    with pytest.raises(InputError, match="value/x"):
        store.read()
