"""Replies that promise a change pass after the journal has it; nothing else waits, and a failure reaches its caller."""

import asyncio
import threading
from dataclasses import fields
from types import SimpleNamespace
from typing import get_args

import pytest

from heddle.controller.model.effect import Announce, Effect, NetworksChanged, Note, Persist, Reply
from heddle.controller.model.error import NotFoundError, UnavailableError
from heddle.controller.model.event import Event, Release, Renew, Submit, Suggest, Withdraw
from heddle.controller.model.job import JobRequest
from heddle.controller.model.network_event import GatewayUp
from heddle.controller.model.traits import Change, Held
from heddle.controller.runtime.journal import gate as gates
from heddle.controller.runtime.journal.gate import Gate

NOTE = Note(severity="info", subject="-", text="-")
CHANGE = Persist(values={("drain", "spine1"): "spine1"})
PUBLISHED = Announce(plan=SimpleNamespace(job_id="a", generation=2))  # type: ignore[arg-type]
NETWORKS = NetworksChanged(generation=3)


class Journal:
    """Records what it is asked to write; the number of a request is how many there were."""

    def __init__(self):
        self.asked = []

    def write(self, values):
        self.asked.append(values)
        return len(self.asked)


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


@pytest.mark.parametrize("publishes", [PUBLISHED, NETWORKS], ids=["a job", "virtual networks"])
def test_what_is_published_waits_until_the_journal_has_what_came_before_it(performed, publishes):
    performed.take(publishes)
    assert performed.effects == [publishes]  # nothing is being written
    performed.take(CHANGE, publishes, NOTE)
    assert performed.effects == [publishes, NOTE]
    performed.gate.written(1, "")
    assert performed.effects == [publishes, NOTE, publishes]


def test_exactly_replies_and_what_is_published_are_held():
    assert {kind for kind in get_args(Effect) if issubclass(kind, Held)} == {Reply, Announce, NetworksChanged}


def test_what_is_held_is_performed_in_its_order_as_far_as_the_journal_has_it(performed):
    performed.take(CHANGE, PUBLISHED, Reply(reply=1, outcome=4), CHANGE, NETWORKS)
    assert performed.effects == []
    performed.gate.written(1, "")
    assert performed.effects == [PUBLISHED, Reply(reply=1, outcome=4)]
    performed.gate.written(2, "")
    assert performed.effects == [PUBLISHED, Reply(reply=1, outcome=4), NETWORKS]


def test_while_the_journal_fails_what_is_published_and_errors_pass_as_they_are(performed):
    gone = Reply(reply=1, outcome=NotFoundError("gone"))
    performed.take(CHANGE, PUBLISHED, gone)
    performed.gate.written(1, "disk full")
    performed.take(NETWORKS)
    assert performed.effects == [PUBLISHED, gone, NETWORKS]


def test_the_journal_gets_the_values_of_a_change_and_the_change_is_not_performed(performed):
    assert performed.gate.passes(CHANGE) is False
    assert performed.gate.journal.asked == [CHANGE.values]
    assert performed.gate.passes(PUBLISHED) is False
    assert performed.gate.passes(NOTE) is True


def test_a_preview_promises_nothing_also_while_the_journal_fails(performed):
    request = JobRequest(job_id="a", ranks=("h1-n0", "h2-n0"), collectives=())
    performed.take(CHANGE)
    performed.gate.written(1, "disk full")
    performed.gate.admit(7, Submit(reply=7, request=request, preview=True))
    performed.take(Reply(reply=7, outcome=4))
    assert performed.outcomes() == {7: 4}
    with pytest.raises(UnavailableError):
        performed.gate.admit(8, Submit(reply=8, request=request))


def test_a_gate_that_is_paused_refuses_changes_with_the_reason_and_admits_them_afterwards(performed):
    change = Release(reply=4, job_id="a")
    with performed.gate.paused("the fabric is being changed"), pytest.raises(UnavailableError, match="being changed"):
        performed.gate.admit(4, change)
    performed.gate.admit(4, change)


def test_what_has_ended_admits_nothing_and_says_why_also_a_preview(performed):
    performed.gate.end("the controller begins again")
    preview = Submit(reply=4, request=JobRequest(job_id="a", ranks=(), collectives=()), preview=True)
    for event in (preview, Renew(reply=4, job_id="a")):
        with pytest.raises(UnavailableError, match="begins again"):
            performed.gate.admit(4, event)


def test_a_reply_whose_caller_has_left_is_not_held(performed):
    performed.gate.forget(1)
    performed.gate.forget(1)  # the caller leaves after its reply
    performed.take(CHANGE, Reply(reply=1, outcome=4), Reply(reply=2, outcome=5))
    assert performed.outcomes() == {1: 4}


def test_without_a_journal_nothing_is_held_and_nothing_fails():
    gate = Gate()
    gate.admit(1, Release(reply=1, job_id="a"))
    assert gate.failure == ""
    assert gate.passes(CHANGE) is False
    assert gate.passes(Reply(reply=1, outcome=4)) is True
    assert gate.passes(PUBLISHED) is False  # what performs it is not set yet: nothing to do, and no error


async def settling(gate):
    """Start to wait until all is written, and let it reach its wait."""
    waiting = asyncio.ensure_future(gate.settled())
    await asyncio.sleep(0)
    return waiting


async def test_a_wait_for_the_journal_ends_when_it_has_all_that_was_asked_before_the_wait(performed):
    assert (await settling(performed.gate)).done()
    waits = []
    for _ in range(2):
        performed.take(CHANGE)
        waits.append(await settling(performed.gate))
    assert [wait.done() for wait in waits] == [False, False]
    for number, ended in ((1, [True, False]), (2, [True, True])):
        performed.gate.written(number, "")
        for _ in range(2):
            await asyncio.sleep(0)
        assert [wait.done() for wait in waits] == ended
    assert [wait.result() for wait in waits] == [None, None]


async def test_a_wait_for_the_journal_says_why_the_state_may_not_survive(performed):
    performed.take(CHANGE)
    waiting = await settling(performed.gate)
    performed.gate.written(1, "disk full")
    with pytest.raises(UnavailableError, match="disk full; the state may not survive a restart"):
        await waiting
    with pytest.raises(UnavailableError, match="disk full"):
        await performed.gate.settled()


async def test_a_wait_that_was_given_up_does_not_stop_the_others(performed):
    performed.take(CHANGE)
    first, second = await settling(performed.gate), await settling(performed.gate)
    first.cancel()
    await asyncio.sleep(0)
    performed.gate.written(1, "")
    await asyncio.wait_for(second, 10)


async def test_what_the_journals_thread_reports_is_handled_in_the_thread_of_the_loop(monkeypatch):
    made = []

    class Writer(Journal):
        def __init__(self, store, topology, written):
            super().__init__()
            self.given, self.written, self.started = (store, topology), written, False
            made.append(self)

        def start(self):
            self.started = True

    monkeypatch.setattr(gates, "JournalWriter", Writer)
    gate, threads = Gate(), []
    gate.release_to(lambda effect: threads.append((effect, threading.current_thread())))
    gate.keep_in("store", "topology")  # type: ignore[arg-type]
    assert [(writer.given, writer.started) for writer in made] == [(("store", "topology"), True)]
    gate.passes(CHANGE)
    gate.passes(PUBLISHED)
    await asyncio.to_thread(made[0].written, 1, "disk full")
    await asyncio.sleep(0)
    assert threads == [(PUBLISHED, threading.current_thread())]
    assert gate.failure == "disk full"
