"""Which of the members that reply have the journal, and what a controller remembers of them: without an etcd."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.error import InputError
from heddle.controller.runtime.ports import EPOCH_SHIFT
from heddle.controller.store.etcd.guard import Guard
from heddle.controller.store.etcd.identity.judge import Foreign, Ours, Seen, judged
from heddle.controller.store.etcd.identity.memory import Memory, file_in
from heddle.controller.store.etcd.identity.record import (
    MAX_BEFORE,
    Known,
    Record,
    adopted,
    decoded,
    encoded,
    epoch_reached,
    generation,
)
from heddle.controller.store.etcd.proto import etcd_pb2 as pb

KNOWN = Known(cluster=0xA, journal="0a", revision=50, endpoints=("m1:1",), epoch=3)
OURS = Record(cluster=0xA, journal="0a")
revisions, epochs = st.integers(1, 1 << 40), st.integers(1, 1 << 18)


def seen(endpoint="m1:1", cluster=0xA, revision=60, record=None, has_keys=False):
    return Seen(endpoint=endpoint, cluster=cluster, revision=revision, record=record, has_keys=has_keys)


def verdict(*members, known=KNOWN, endpoints=("m1:1",), epoch=3):
    return judged(members, known, "yard", endpoints)


REFUSED = {
    "emptied": (seen(), "has no journal of fabric yard, and this controller has used journal 0a in etcd cluster a"),
    "another journal": (seen(record=Record(cluster=0xA, journal="0b")), "has journal 0b of fabric yard"),
    "of an earlier version": (seen(has_keys=True), "has a journal without an id of fabric yard"),
    "a copy": (seen(cluster=0xB, record=OURS), "its keys of a"),
    "an older copy": (seen(revision=49, record=OURS), "its history ends at revision 49, 50 was seen"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_the_journal_that_was_used_is_refused_with_a_command(case):
    member, why = REFUSED[case]
    found = verdict(member)
    assert isinstance(found, Foreign)
    assert why in found.why
    assert "heddle state " in found.why
    assert "\n" not in found.why


def test_the_journal_that_was_used_is_found_among_foreign_members_which_are_named():
    found = verdict(seen("m2:1", cluster=0xC), seen(record=OURS))
    assert isinstance(found, Ours)
    assert (found.cluster, found.record) == (0xA, OURS)
    assert found.others == ("m2:1 is not used: it is of etcd cluster c, the journal is in a",)


def test_an_adopted_journal_is_used_rather_than_the_one_that_it_was_adopted_from():
    new = adopted(OURS, 0xB, "0b")
    found = verdict(seen(record=OURS), seen("m2:1", cluster=0xB, revision=3, record=new))
    assert isinstance(found, Ours)
    assert found.record == new


def test_two_journals_of_a_fabric_are_refused_by_a_controller_that_remembers_neither():
    other = seen("m2:1", cluster=0xB, record=Record(cluster=0xB, journal="0b"))
    found = verdict(seen(record=OURS), other, known=None, endpoints=("m1:1", "m2:1"))
    assert isinstance(found, Foreign)
    assert "m1:1 (etcd cluster a) and m2:1 (etcd cluster b) each have a journal of fabric yard" in found.why


def test_a_journal_without_an_identity_is_used_before_an_empty_etcd():
    found = verdict(seen("m2:1", cluster=0x1), seen(has_keys=True), known=None, endpoints=("m1:1", "m2:1"))
    assert isinstance(found, Ours)
    assert found.cluster == 0xA


def test_a_first_journal_waits_for_a_majority_of_the_endpoints():
    endpoints = ("m1:1", "m2:1", "m3:1")
    found = verdict(seen(), known=None, endpoints=endpoints)
    assert isinstance(found, Foreign)
    assert "m2:1, m3:1 does not reply" in found.why
    assert isinstance(verdict(seen(), seen("m2:1"), known=None, endpoints=endpoints), Ours)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.data())
def test_two_controllers_with_the_same_endpoints_begin_the_first_journal_in_one_cluster(clusters, data):
    endpoints = [f"m{number}:1" for number in range(len(clusters))]
    members = [seen(name, cluster=cluster) for name, cluster in zip(endpoints, clusters, strict=True)]
    some = st.lists(st.sampled_from(members), min_size=1, unique=True)
    chosen = {
        found.cluster
        for found in (judged(data.draw(some), None, "yard", endpoints) for _ in range(3))
        if isinstance(found, Ours)
    }
    assert len(chosen) <= 1
    assert isinstance(judged(members, None, "yard", endpoints), Ours)


@given(epochs, revisions, revisions)
def test_generations_grow_with_revisions_and_an_epoch_above_the_one_reached_is_above_all(epoch, one, other):
    low, high = sorted((one, other))
    assert (generation(epoch, low, OURS) < generation(epoch, high, OURS)) == (low < high)
    assert generation(epoch_reached(epoch, high) + 1, 1, OURS) > generation(epoch, high, OURS)
    assert generation(epoch, low, OURS) > epoch << EPOCH_SHIFT | low  # of a version without identities


@given(epochs, epochs, revisions, revisions)
def test_terms_of_two_journals_never_have_one_generation(epoch, other_epoch, revision, other_revision):
    one, other = (Record(cluster=0xA, journal=journal) for journal in ("00000000000000f1", "00000000000000f2"))
    assert generation(epoch, revision, one) != generation(other_epoch, other_revision, other)


def test_a_record_is_the_same_bytes_again_and_keeps_a_limited_past():
    record = OURS
    for number in range(MAX_BEFORE + 4):
        record = adopted(record, 0xB, f"{number:x}", ("fe",))
    assert len(record.before) == MAX_BEFORE
    assert encoded(decoded(encoded(record))) == encoded(record)
    assert record.follows(f"{MAX_BEFORE + 2:x}")


@pytest.mark.parametrize(
    "value", [b"", b"x", b"[]", b'{"cluster": "g", "journal": "0a", "before": []}', b'{"cluster": "a"}']
)
def test_a_record_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="no identity"):
        decoded(value)


def test_a_guard_lets_revisions_fall_only_where_a_reply_may_be_older():
    guard = Guard(0xA, 5)
    header = pb.ResponseHeader(cluster_id=0xA, revision=9)
    assert guard.why_foreign(header, guard.floor(pb.RangeRequest())) == ""
    old = pb.ResponseHeader(cluster_id=0xA, revision=8)
    assert guard.why_foreign(old, guard.floor(pb.LeaseKeepAliveRequest())) == ""
    assert "ends at revision 8, 9 was seen" in guard.why_foreign(old, guard.floor(pb.TxnRequest()))
    assert "etcd cluster b" in guard.why_foreign(pb.ResponseHeader(cluster_id=0xB, revision=9), 0)
    assert guard.revision == 9


def test_a_memory_is_there_after_a_restart_for_an_etcd_that_shares_an_address(tmp_path):
    file = file_in(tmp_path / "new", "yard/1", "c 1")
    memory = Memory(file)
    assert memory.known(["m1:1"]) is None
    memory.remember(KNOWN)
    again = Memory(file)
    assert again.known(["m9:1", "m1:1"]) == KNOWN
    assert (again.known(["m9:1"]), again.elsewhere(["m9:1"]), again.elsewhere(["m1:1"])) == (None, KNOWN, None)
    assert file_in(tmp_path, "a", "b.c") != file_in(tmp_path, "a.b", "c")


@pytest.mark.parametrize("text", ["", "{}", "[1]", json.dumps({"cluster": "a", "journal": "0a", "revision": "x"})])
def test_a_damaged_memory_is_refused_with_its_name(tmp_path, text):
    file = tmp_path / "c1.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"c1\.json is damaged"):
        Memory(file)
