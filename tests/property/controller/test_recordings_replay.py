"""A recording of any order of events, begun at any time, is decided again as it was."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from heddle.controller.model.event import Congested, Drain, HotLink
from heddle.controller.recording.batch import Turn
from heddle.controller.recording.replay import Gap, replay
from heddle.controller.recording.segment import SegmentWriter
from tests.property.controller.test_brain_machine import BrainMachine
from tests.support.examples import examples

LINKS = st.sampled_from(["leaf1:1>spine1:1", "leaf2:2>spine2:2", "spine1:1>leaf1:1"])


class RecordedMachine(BrainMachine):
    """The machine of the brain's own test, with drains and congestion, recorded to files of a few turns each."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.segments: list[SegmentWriter] = []
        self.turns = 0
        self.driver.on_turn = self.record

    def record(self, turn: Turn) -> None:
        if self.turns % 25 == 0:
            self.end_segment()
            self.segments.append(SegmentWriter(Path(self.directory.name, f"{self.turns}"), turn.before))
        self.turns += 1
        self.segments[-1].append(turn)

    def end_segment(self) -> None:
        if self.segments:
            self.segments[-1].close()

    @rule(link=LINKS, undrain=st.booleans())
    def drain(self, link: str, undrain: bool) -> None:
        self.driver.feed(Drain(reply=self.next_reply(), target=link, undrain=undrain))

    @rule(link=LINKS, stale=st.booleans())
    def congestion(self, link: str, stale: bool) -> None:
        port = link.partition(">")[0]
        hot = HotLink(port=port, link=link, priority=3, measured_bps=10**9, planned_bps=10**8, excess_bps=9 * 10**8)
        over = (("h1-n0", 10**8),)
        self.driver.feed(Congested(hot=(), stale=(port,)) if stale else Congested(hot=(hot,), over=over))

    @rule(nics=st.sets(st.sampled_from(["h1-n0", "h2-n0", "h3-n0"])).map(sorted))
    def storms(self, nics: list[str]) -> None:
        self.driver.feed(Congested(hot=(), storms=tuple(nics)))

    def teardown(self) -> None:
        try:
            super().teardown()
            self.end_segment()
            replayed = [each for writer in self.segments for each in replay(writer.path)]
        finally:
            self.end_segment()
            self.directory.cleanup()
        assert [each.difference for each in replayed if not isinstance(each, Gap) and each.difference] == []
        assert sum(not isinstance(each, Gap) for each in replayed) == self.turns


RecordedMachine.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=20, deadline=None)
test_recordings = RecordedMachine.TestCase
