"""Recordings: their limits, damaged and foreign files, and decisions that differ."""

import contextlib
import copy
import io
import itertools
import os
import pickle
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.brain.decide import decide
from heddle.controller.brain.port_search import Seeking
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.event import Drain, PortStatus, RulesRead, Submit, Tick
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.found_cabling import Rejoined, with_found
from heddle.controller.model.job import Steering
from heddle.controller.model.network_event import ApplyBorder, ApplyVpc
from heddle.controller.recording import recorder as recording
from heddle.controller.recording.batch import Turn
from heddle.controller.recording.pickling import ValueUnpickler
from heddle.controller.recording.recorder import Recorder
from heddle.controller.recording.replay import Gap, replay, segments
from heddle.controller.recording.segment import HEADER, SegmentReader, SegmentWriter
from heddle.foundation.network import Network
from tests.fakes.probing.hashing_switches import HashingSwitches
from tests.support.examples import examples
from tests.unit.brain.driver import Driver, shift_job, small_fabric

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"


def some_turns(fabric=None):
    """A job that is pinned, loses a link and a drain: the turns of the brain."""
    turns = []
    driver = Driver(fabric or small_fabric(leaves=2), on_turn=turns.append)
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4, steering=Steering.PIN)))
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    driver.feed(Drain(reply=2, target="spine1"))
    for up in (True, False) * 20:
        driver.feed(PortStatus(switch="leaf2", port=2, up=up))
        driver.now += 1_000
        driver.feed(Tick())
    return turns


TURNS = some_turns()


def write(path, turns=TURNS):
    writer = SegmentWriter(path, turns[0].before)
    for turn in turns:
        writer.append(turn)
    writer.close()
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return write(tmp_path_factory.mktemp("recorded") / "one.heddle").read_bytes()


def differences(path):
    return [each.difference for each in replay(path) if not isinstance(each, Gap)]


def recorder_of(directory, turns, **more):
    recorder = Recorder(directory, **{"max_bytes": 64 << 20, **more})
    for turn in turns:
        recorder.record(turn)
    recorder.close()
    return recorder


def test_replayed_effects_are_those_of_the_recorded_turns(tmp_path):
    replayed = [each for each in replay(write(tmp_path / "one")) if not isinstance(each, Gap)]
    assert [list(map(type, each.effects)) for each in replayed] == [list(map(type, turn.effects)) for turn in TURNS]


def test_decisions_on_a_fabric_with_a_cable_in_a_spare_port_are_replayed(tmp_path):
    """Source ports mean what they mean by the file."""
    fabric = small_fabric(leaves=2)
    first = fabric.cables[0]
    there = replace(first, lower=first.lower._replace(number=first.lower.number + 50))
    turns = some_turns(with_found(fabric, [Rejoined((first.id,), (there,))]))
    assert set(differences(write(tmp_path / "spare", turns))) == {""}
    with contextlib.closing(SegmentReader(tmp_path / "spare")) as reader:
        state = reader.state()
    assert state is not None
    assert state.fabric.up_choices == turns[0].before.fabric.up_choices


def test_decisions_on_a_fabric_that_hashes_are_replayed(tmp_path):
    fabric, turns = replace(small_fabric(), steered_by=SteeredBy.HASH), []
    driver = Driver(fabric, on_turn=turns.append, hashing=HashingSwitches(fabric))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    write(tmp_path / "one", turns)
    assert differences(tmp_path / "one") == [""] * len(turns)


def test_a_decision_that_differs_is_named_and_ends_the_replay(tmp_path):
    changed = [*TURNS]
    changed[-2] = replace(changed[-2], effects=(*changed[-2].effects, *TURNS[0].effects))
    found = differences(write(tmp_path / "one", changed))
    assert found[:-1] == [""] * (len(TURNS) - 2)
    assert "recorded" in found[-1]


def test_other_values_of_a_decision_are_a_difference(tmp_path):
    note = TURNS[0].effects[0]
    changed = [replace(TURNS[0], effects=(replace(note, text="other"), *TURNS[0].effects[1:]))]
    assert differences(write(tmp_path / "one", changed)) == ["decision 1: Note with other values"]


def test_an_exception_of_the_brain_is_recorded_and_raised_again(tmp_path):
    unknown = PortStatus(switch="no such switch", port=1, up=False)
    before = TURNS[-1].before
    broken = replace(before, settings=None)
    with pytest.raises(AttributeError) as raised:
        decide(broken, Tick(), 5_000_000)
    fault = f"AttributeError: {raised.value}"
    turn = Turn(before=broken, unix_ms=5_000_000, events=(Tick(),), effects=(), fault=fault)
    assert differences(write(tmp_path / "one", [turn])) == [""]
    other = replace(turn, before=before, events=(unknown,))
    assert differences(write(tmp_path / "two", [other])) == [f"recorded {fault}, now no exception"]


@settings(max_examples=examples(60), deadline=None)
@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_damaged_file_is_an_error_or_replays_a_part(recorded, tmp_path_factory, at, bit):
    content = bytearray(recorded)
    content[at % len(content)] ^= 1 << bit
    path = tmp_path_factory.mktemp("damaged") / "one"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert set(differences(path)) <= {""}


@settings(max_examples=examples(30), deadline=None)
@given(length=st.integers(0, 1 << 20))
def test_a_file_that_was_cut_short_replays_up_to_there(recorded, tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "one"
    path.write_bytes(recorded[: len(HEADER) + length % (len(recorded) - len(HEADER))])
    assert set(differences(path)) <= {""}


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"heddle recording 99 0000000000000000\n"])
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "one").write_bytes(content)
    with pytest.raises(InputError, match=r"no recording of heddle|another version"):
        list(replay(tmp_path / "one"))


def test_a_recording_written_before_a_class_got_another_name_is_read():
    reader = SegmentReader(RECORDINGS / "vpc.heddle")
    state, batches = reader.state(), list(reader.batches())
    reader.close()
    assert state is not None
    assert {nic.network for nic in state.fabric.nics} == {Network.COMPUTE}
    events = [event for batch in batches for event in batch.events]
    assert [event.vpc.realm for event in events if isinstance(event, ApplyVpc)] == [Network.STORAGE]
    assert [event.rules[0].realm for event in events if isinstance(event, ApplyBorder)] == [Network.STORAGE]


def test_rules_that_an_audit_reads_again_are_written_once(tmp_path):
    before = TURNS[-1].before
    held = before.switches["leaf1"].installed

    def audit(order):
        rules = tuple(copy.deepcopy(rule) for rule in order(held.rules))
        event = RulesRead(switch="leaf1", installed=replace(held, rules=rules), audit=1)
        return Turn(before=before, unix_ms=5_000_000, events=(event,), effects=())

    writer = SegmentWriter(tmp_path / "one", before)
    sizes = [writer.bytes]
    for order in (tuple, reversed, reversed, tuple):
        writer.append(audit(order))
        sizes.append(writer.bytes)
    writer.close()
    grown = [later - earlier for earlier, later in itertools.pairwise(sizes)]
    assert max(grown[0], grown[2], grown[3]) < grown[1] / 2


def test_a_directory_without_recordings_is_refused(tmp_path):
    with pytest.raises(InputError, match="no recording of heddle"):
        segments(tmp_path)


@pytest.mark.parametrize("named", [os.system, pickle.loads, eval])
def test_a_recording_that_names_other_code_is_refused(tmp_path, named):
    class Evil:
        def __reduce__(self):
            return named, ("raise SystemExit",)

    content = zlib.compress(pickle.dumps(Evil()))
    frame = struct.pack(">II", len(content), zlib.crc32(content)) + content
    (tmp_path / "one").write_bytes(HEADER + frame)
    with pytest.raises(InputError, match="which no recording holds"):
        list(replay(tmp_path / "one"))


@pytest.mark.parametrize(
    "module", ["heddle.controller.brain.port_search", "heddle.controller.brain.hash_ports.port_search"]
)
def test_a_class_that_has_moved_is_read_by_either_name(module):
    assert type(ValueUnpickler(io.BytesIO()).find_class(module, "Seeking")()) is Seeking


def test_a_recorder_writes_every_turn_and_begins_each_file_with_the_state(tmp_path):
    recorder = recorder_of(tmp_path, TURNS, max_bytes=60_000)
    assert (recorder.written, recorder.refused, recorder.failed) == (len(TURNS), 0, 0)
    files = segments(tmp_path)
    assert len(files) > 1
    assert [found for file in files for found in differences(file)] == [""] * len(TURNS)


def test_the_oldest_files_are_deleted_and_foreign_ones_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    recorder_of(tmp_path, TURNS, max_bytes=15_000)
    assert sum(path.stat().st_size for path in segments(tmp_path)) <= 15_000
    assert (tmp_path / "notes.txt").read_text() == "mine"
    replayed = [found for file in segments(tmp_path) for found in differences(file)]
    assert 0 < len(replayed) < len(TURNS)
    assert set(replayed) == {""}


def test_a_state_larger_than_the_limit_is_counted_and_leaves_no_file(tmp_path):
    recorder = recorder_of(tmp_path, TURNS, max_bytes=1_000)
    assert (recorder.written, recorder.failed) == (0, len(TURNS))
    assert list(tmp_path.iterdir()) == []


def test_after_turns_that_found_the_queue_full_a_new_file_begins(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path, 64 << 20, queue_limit=2)
    recorder.record(TURNS[0])
    while recorder.written == 0:
        pass
    recorder.close()
    stopped = Recorder.__new__(Recorder)
    stopped.__dict__.update(recorder.__dict__)
    for turn in TURNS[1:5]:  # no thread takes them
        stopped.record(turn)
    assert stopped.refused == 2
    stopped._waiting.get_nowait()
    stopped._waiting.get_nowait()
    stopped.record(TURNS[5])
    assert stopped._waiting.get_nowait() == (TURNS[5], True)


def test_a_disk_that_fails_is_tried_again_later(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "SegmentWriter", full)
    assert recorder_of(tmp_path, TURNS[:3]).failed == 3
    monkeypatch.undo()
    recorder = Recorder(tmp_path, 64 << 20)
    recorder._retry_unix_ms = TURNS[0].unix_ms + recording.RETRY_MS
    late = [replace(turn, unix_ms=turn.unix_ms + recording.RETRY_MS) for turn in TURNS]
    for turn in (TURNS[0], *late):
        recorder.record(turn)
    recorder.close()
    assert (recorder.failed, recorder.written) == (1, len(TURNS))


def test_a_directory_that_cannot_be_created_is_a_missing_prerequisite(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PrerequisiteError, match="record"):
        Recorder(tmp_path / "file" / "below", 1 << 20)


def test_segments_begin_with_the_last_before_the_time(tmp_path):
    for name in ("0000000000100-000000", "0000000000200-000001", "0000000000300-000002"):
        (tmp_path / f"{name}.heddle").write_bytes(b"")
    assert [path.name[:13] for path in segments(tmp_path, 250)] == ["0000000000200", "0000000000300"]
    assert len(segments(tmp_path, 50)) == 3
