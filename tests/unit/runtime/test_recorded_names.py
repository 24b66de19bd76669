"""Recordings that were written before modules moved are read, and decided as they were."""

import io
import json
import pickle
from contextlib import closing
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

import pytest

from heddle.controller.model.effect import Persist, Place
from heddle.controller.model.error import InputError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Algorithm, Collective, CollectiveKind, FlowDemand
from heddle.controller.model.network_event import GatewayAcked
from heddle.controller.model.placement import Shape
from heddle.controller.recording import segment
from heddle.controller.recording.digest import Digester, _FormerPickler, _PlainPickler
from heddle.controller.recording.layout import TABLES, layout, misfits
from heddle.controller.recording.names import _MOVED, recorded
from heddle.controller.recording.pickling import ValueUnpickler
from heddle.controller.recording.replay import Gap, Replayed, replay
from heddle.controller.recording.segment import FINGERPRINTS, SegmentReader, SegmentWriter, former_header
from tests.unit.brain.driver import Driver, small_fabric

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"
VERSION_1 = RECORDINGS / "version_1.heddle"
"""Written before recordings were a package of their own: a job with pins, a cut link, a drain, ports that toggle."""


def test_a_recording_of_version_1_is_decided_as_it_was():
    found = [each.difference for each in replay(VERSION_1) if not isinstance(each, Gap)]
    assert found == [""] * 158


def with_header(path, header):
    """Write the recording of version 1 with another first line."""
    path.write_bytes(VERSION_1.read_bytes().replace(former_header(1, next(iter(FINGERPRINTS))), header, 1))
    return path


def test_its_digests_are_not_those_of_today(tmp_path):
    path = with_header(tmp_path / "one.heddle", former_header(2, next(iter(FINGERPRINTS))))
    first = next(replay(path))
    assert isinstance(first, Replayed)
    assert first.difference == "decision 1: Note with other values"


@pytest.mark.parametrize(
    "header",
    [former_header(2, "0123456789abcdef"), former_header(3, next(iter(FINGERPRINTS))), b"heddle recording 4\n"],
)
def test_a_file_of_other_classes_or_of_a_later_version_is_refused(tmp_path, header):
    with pytest.raises(InputError, match="another version"):
        next(replay(with_header(tmp_path / "one.heddle", header)))


def test_recordings_of_before_fit_the_classes_of_today():
    before = {name: tuple(words) for name, words in json.loads((RECORDINGS / "layout.json").read_text()).items()}
    assert misfits(before) == [], (
        "Recordings of before would be refused: these classes of theirs are gone, or have lost or changed a field."
        " Give a new field a default, at the end. A class that moves takes a row in controller/recording/names.py."
        " If they are to be refused, tests/data/recordings/README.md says what follows."
    )


TICK, JOB, CAUSE = (f"controller.{name}" for name in ("model.event.Tick", "brain.state.Job", "model.moves.Cause"))


@pytest.mark.parametrize(
    ("changed", "misfit"),
    [
        (lambda then: then.pop(TICK), None),  # an event has come since
        (lambda then: then.update({JOB: then[JOB][:-1]}), None),  # a field with a default has come
        (lambda then: then.update({CAUSE: then[CAUSE][1:]}), None),  # a member of an enum has come
        (lambda then: then.update({TABLES: ()}), None),
        (lambda then: then.update({JOB: (*then[JOB], "gone")}), JOB),
        (lambda then: then.update({JOB: then[JOB][:1]}), JOB),  # fields without defaults have come
        (lambda then: then.update({JOB: then[JOB][::-1]}), JOB),
        (lambda then: then.update({CAUSE: (*then[CAUSE], "GONE=gone")}), CAUSE),
        (lambda then: then.update({f"{TICK}Gone": ()}), f"{TICK}Gone"),
    ],
    ids=["event", "default", "member", "table", "field gone", "no default", "order", "member gone", "class gone"],
)
def test_a_recording_is_read_where_its_layout_fits_and_refused_by_the_name_of_what_does_not(
    tmp_path, monkeypatch, changed, misfit
):
    then = dict(layout())
    changed(then)
    path = tmp_path / "one.heddle"
    monkeypatch.setattr(segment, "layout", lambda: then)
    SegmentWriter(path, Driver(small_fabric()).state).close()
    if misfit is None:
        with closing(SegmentReader(path)) as reader:
            assert reader.state() is not None
    else:
        with pytest.raises(
            InputError, match=f"another version of heddle, with another '{misfit}'; replay it with that"
        ):
            SegmentReader(path)


def test_tables_that_the_journal_has_got_since_are_not_in_the_digests_of_a_recording(tmp_path, monkeypatch):
    then = {**layout(), TABLES: ("job",)}
    monkeypatch.setattr(segment, "layout", lambda: then)
    SegmentWriter(tmp_path / "one.heddle", Driver(small_fabric()).state).close()
    with closing(SegmentReader(tmp_path / "one.heddle")) as reader:
        job, drain = Persist(values={("job", "a"): 1}), Persist(values={("drain", "a"): 1})
        assert reader.digester.digest(drain) == Digester().digest(Persist(values={}))
        assert reader.digester.digest(job) == Digester().digest(job) != Digester().digest(drain)


def test_fields_that_a_class_has_got_since_have_their_defaults():
    with closing(SegmentReader(VERSION_1)) as reader:
        state = reader.state()
    assert state is not None
    assert {each.lagging for each in state.switches.values()} == {False}
    assert state.parked == ()
    assert state.networks.ended == 0


def test_a_value_of_a_recording_without_added_fields_has_their_defaults():
    written = (
        b"\x80\x02cheddle.controller.model.event\nGatewayAcked\n)\x81](K\x01X\x03\0\0\0gw1K\x02X\0\0\0\0eb."  # 4 fields
    )
    found = ValueUnpickler(io.BytesIO(written)).load()
    assert found == GatewayAcked(session=1, gateway_id="gw1", generation=2)
    whole = GatewayAcked(session=1, gateway_id="gw1", generation=2, kept={"a": "why"}, unknown=frozenset("b"))
    assert ValueUnpickler(io.BytesIO(pickle.dumps(whole))).load() == whole


@pytest.mark.parametrize("package", ["", "heddle."])
@pytest.mark.parametrize("folder", ["controller.recording", "controller.runtime.recording"])
def test_a_class_has_one_name_wherever_its_module_is(package, folder):
    assert recorded(f"{package}controller.model.event", "Tick") == ("controller.model.event", "Tick")
    assert recorded(f"{package}{folder}.batch", "Batch") == ("controller.runtime.recording.batch", "Batch")


def test_a_class_that_moves_alone_keeps_its_name(monkeypatch):
    monkeypatch.setitem(_MOVED, "controller.model.timer.Beat", "controller.model.event.Tick")
    assert recorded("controller.model.timer", "Beat") == ("controller.model.event", "Tick")


def test_the_slow_pickler_writes_what_the_fast_one_writes_of_classes_that_have_not_moved(monkeypatch):
    """Also past the size of a pickle's frame."""
    value = ("x" * 200_000, *map(IPv4Address, range(5_000)), {"a": frozenset((1, 2))})
    slow, fast = io.BytesIO(), io.BytesIO()
    _FormerPickler(slow, Digester()).dump(value)
    monkeypatch.setattr(_PlainPickler, "persistent_id", _FormerPickler.persistent_id)
    _PlainPickler(fast, Digester()).dump(value)
    assert slow.getvalue() == fast.getvalue()


def test_fields_that_an_effect_has_got_since_are_not_in_the_digests_of_a_recording(tmp_path, monkeypatch):
    then = dict(layout())
    for name, since in (("effect.Place", "degraded"), ("job.Collective", "algorithm")):
        now = then[f"controller.model.{name}"]
        then[f"controller.model.{name}"] = now[: now.index(since)]
    monkeypatch.setattr(segment, "layout", lambda: then)
    SegmentWriter(tmp_path / "one.heddle", Driver(small_fabric()).state).close()
    with closing(SegmentReader(tmp_path / "one.heddle")) as reader:
        ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE)
        place = Place(token=1, shape=Shape(ranks=2, collectives=(ring,)), health=Health(), kept=())
        before = Digester().digest(place)  # writes no field that says nothing
        assert reader.digester.digest(place) == before
        nccl = replace(ring, algorithm=Algorithm.NCCL)
        for more in ({"degraded": {"leaf1:1>spine1:1": 1}}, {"shape": replace(place.shape, collectives=(nccl,))}):
            effect = replace(place, **more)
            assert reader.digester.digest(effect) == before != Digester().digest(effect)


class Former(NamedTuple):
    """A flow's demand before it got a port."""

    src_rank: int
    dst_rank: int
    rate_bps: int = 0


def test_fields_that_a_named_tuple_has_got_since_are_not_in_the_digests_of_a_recording(tmp_path, monkeypatch):
    then = {**layout(), "controller.model.job.FlowDemand": ("src_rank", "dst_rank", "rate_bps")}
    monkeypatch.setattr(segment, "layout", lambda: then)
    SegmentWriter(tmp_path / "one.heddle", Driver(small_fabric()).state).close()
    Former.__module__, Former.__qualname__ = FlowDemand.__module__, FlowDemand.__qualname__

    def place(demand):
        custom = Collective(kind=CollectiveKind.CUSTOM, flows=(demand,))
        return Place(token=1, shape=Shape(ranks=2, collectives=(custom,)), health=Health(), kept=())

    with closing(SegmentReader(tmp_path / "one.heddle")) as reader:
        digest = reader.digester.digest
        for more in (0, 7):
            assert digest(place(FlowDemand(0, 1, 5, more))) == Digester().digest(place(Former(0, 1, 5)))
        assert digest(place(FlowDemand(0, 1, 6))) != digest(place(FlowDemand(0, 1, 5)))


@pytest.mark.parametrize("name", [TABLES, CAUSE, TICK, "unknown"])
@pytest.mark.parametrize("word", [[], 7, None])
def test_a_layout_with_words_that_are_no_text_is_damaged(tmp_path, monkeypatch, name, word):
    monkeypatch.setattr(segment, "layout", lambda: {**layout(), name: (word,)})
    SegmentWriter(tmp_path / "one.heddle", Driver(small_fabric()).state).close()
    with pytest.raises(InputError, match="no layout of classes"):
        SegmentReader(tmp_path / "one.heddle")
