"""Replies that promise a change pass after the journal has it; nothing else waits, and a failure reaches its caller."""

from dataclasses import fields
from typing import get_args

import pytest

from heddle.controller.model.effect import Note, Persist, Reply
from heddle.controller.model.error import NotFoundError, UnavailableError
from heddle.controller.model.event import Event, GatewayUp, Release, Renew, Suggest, Withdraw
from heddle.controller.model.traits import Change
from heddle.controller.runtime.journal.gate import Gate

NOTE = Note(severity="info", subject="-", text="-")
CHANGE = Persist(values={("drain", "spine1"): "spine1"})


class Journal:
    """Counts what it is asked to write."""

    asked = 0

    def write(self, values):
        self.asked += 1
        return self.asked


class Performed:
    """A gate in front of a list."""

    def __init__(self):
        self.effects = []
        self.gate = Gate()
        self.gate.release_to(self.effects.append)
        self.gate.journal = Journal()  # type: ignore[assignment]
        for reply in (1, 2):
            self.gate.admit(reply, Release(reply=reply, job_id="a"))
        self.gate.admit(3, Renew(reply=3, job_id="a"))

    def take(self, *effects):
        self.effects += [effect for effect in effects if self.gate.passes(effect)]

    def outcomes(self):
        return {effect.reply: effect.outcome for effect in self.effects if isinstance(effect, Reply)}


@pytest.fixture
def performed():
    return Performed()


def test_a_reply_waits_for_all_changes_before_it_and_what_promises_nothing_does_not(performed):
    performed.take(CHANGE, Reply(reply=1, outcome=4), NOTE, Reply(reply=3, outcome=5))
    performed.take(Reply(reply=2, outcome=6))  # an equal request: its change is that of before
    assert performed.effects == [NOTE, Reply(reply=3, outcome=5)]
    performed.take(CHANGE, NOTE)
    performed.gate.written(1, "")
    assert performed.outcomes() == {3: 5, 1: 4, 2: 6}


def test_while_the_journal_fails_its_callers_learn_why_and_new_requests_are_refused(performed):
    performed.take(CHANGE, Reply(reply=1, outcome=4))
    performed.gate.written(1, "disk full")
    performed.take(Reply(reply=2, outcome=6))  # admitted before, for a change that is not written
    for number in (1, 2):
        with pytest.raises(UnavailableError, match="disk full"):
            raise performed.outcomes()[number]
    with pytest.raises(UnavailableError, match="nothing new is begun"):
        performed.gate.admit(4, Release(reply=4, job_id="a"))
    performed.gate.admit(5, Renew(reply=5, job_id="a"))
    performed.gate.written(1, "")
    performed.gate.admit(6, Release(reply=6, job_id="a"))
    performed.take(Reply(reply=6, outcome=NotFoundError("gone")))
    assert isinstance(performed.outcomes()[6], NotFoundError)


def test_every_request_waits_for_the_journal_or_is_one_whose_reply_promises_nothing():
    requests = {kind for kind in get_args(Event) if "reply" in {field.name for field in fields(kind)}}
    assert {kind for kind in requests if not issubclass(kind, Change)} == {Suggest, Withdraw, Renew, GatewayUp}
