"""Recordings that were written before modules moved are read, and decided as they were."""

import io
import pickle
from contextlib import closing
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from heddle.controller.model.error import InputError
from heddle.controller.model.network_event import GatewayAcked
from heddle.controller.recording.digest import Digester, _FormerPickler, _PlainPickler
from heddle.controller.recording.names import _MOVED, recorded
from heddle.controller.recording.pickling import ValueUnpickler, fingerprint
from heddle.controller.recording.replay import Gap, Replayed, replay
from heddle.controller.recording.segment import EARLIER, SegmentReader, header

VERSION_1 = Path(__file__).parents[2] / "data" / "recordings" / "version_1.heddle"
"""Written before recordings were a package of their own: a job with pins, a cut link, a drain, ports that toggle."""


def test_a_recording_of_version_1_is_decided_as_it_was():
    found = [each.difference for each in replay(VERSION_1) if not isinstance(each, Gap)]
    assert found == [""] * 158


def test_its_digests_are_not_those_of_today(tmp_path):
    path = tmp_path / "one.heddle"
    path.write_bytes(VERSION_1.read_bytes().replace(header(1, next(iter(EARLIER))), header(), 1))
    first = next(replay(path))
    assert isinstance(first, Replayed)
    assert first.difference == "decision 1: Note with other values"


def test_a_file_of_a_later_version_is_refused(tmp_path):
    path = tmp_path / "one.heddle"
    path.write_bytes(VERSION_1.read_bytes().replace(header(1, next(iter(EARLIER))), header(3), 1))
    with pytest.raises(InputError, match="another version"):
        next(replay(path))


def test_the_fingerprint_is_that_of_today():
    """It changes with a field of a recorded class. Fields with defaults, at the end: the one before goes to EARLIER."""
    assert fingerprint() == "2e867df8cd59f1ac"


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
