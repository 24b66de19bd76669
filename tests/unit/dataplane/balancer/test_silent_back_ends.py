"""With passive checks a balancer closes a back end that answers none of its connections, and opens it again."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from heddle.dataplane.balancer.compiler.numbering import MAX_BACK_ENDS
from heddle.dataplane.balancer.memory.state import COUNTERS, Count
from heddle.dataplane.balancer.silence import PAUSE
from heddle.dataplane.config.balancers import HealthCheck
from heddle.dataplane.control.balancer import Balancer, wanted_of
from heddle.dataplane.control.process.messages import Options
from tests.fakes.balancer_site import BALANCERS, CONFIG, LOCAL, balancer, changed, name_of

SERVICE = 7
ENDS = BALANCERS[SERVICE].back_ends
FIRST, SECOND, THIRD = (name_of(BALANCERS[SERVICE], end) for end in ENDS)
TEXT = "back end 10.0.0.51 port 8443 of red 10.0.0.100 port 443"


class Site:
    """A balancer without a data process, whose counters the test writes."""

    def __init__(self, config):
        self.balancer = Balancer(LOCAL, Options(), config)
        self.counters = np.zeros(COUNTERS, np.int64)
        self.probed({FIRST, SECOND, THIRD}, is_up=True)

    def probed(self, names, *, is_up):
        for name in names:
            self.balancer._note(name, is_up)
        before = self.balancer.wanted
        self.balancer.wanted = self.balancer._with_turns(before)
        self.balancer._mark(before.closed ^ self.balancer.wanted.closed)

    def read(self, *connections, times=1):
        """Read the counters `times` times; each back end, in order, has `(opened, answered)` more before each."""
        for _ in range(times):
            for name, more in zip((FIRST, SECOND, THIRD), connections, strict=False):
                row = self.balancer._numbering.back_ends[name] % MAX_BACK_ENDS
                self.counters[[Count.OPENED + row, Count.ANSWERED + row]] += more
            self.balancer._mark_silent(self.counters)

    def up(self):
        service = self.balancer.services_status()["balancer"]["services"][SERVICE]
        return [end["up"] for end in service["back_ends"]]

    def reported(self):
        return [each.is_up for each in self.balancer.health.states() if each.balancer == BALANCERS[SERVICE].id]

    def weights(self):
        """Return the number of slots of each back end in the tables that the data process reads."""
        row = self.balancer._numbering.services[FIRST.service]
        slots, numbers = self.balancer.supervisor.kept.arrays["slots"][row], self.balancer._numbering.back_ends
        return [int((slots == numbers[name] % MAX_BACK_ENDS).sum()) for name in (FIRST, SECOND, THIRD)]


def passive(**more):
    return changed(**{f"b{SERVICE}": {"health": HealthCheck(passive=True), **more}})


@pytest.fixture
def site():
    return Site(passive())


def test_a_silent_back_end_gets_no_slot_and_its_pause_ends(site, caplog):
    site.read()
    with caplog.at_level(logging.WARNING):
        site.read((30, 0), (30, 28), (30, 30))
        assert site.up() == [True, True, True]
        site.read((9, 0), (9, 9), (9, 9))
    assert site.up() == site.reported() == [False, True, True]
    assert site.weights()[0] == 0
    assert sum(site.weights()) == 65_537
    line = site.balancer.notices.get_nowait()
    assert line in caplog.messages
    assert line.startswith(f"{TEXT} answers no connection while others do: it gets no new ones for {PAUSE * 3} s")
    assert site.balancer.counts()["silenced"] == 1
    site.read((0, 0), (40, 40), (40, 40), times=PAUSE - 1)
    assert not site.up()[0]
    site.read((0, 0), (40, 40), (40, 40))
    assert site.up() == site.reported() == [True, True, True]
    assert site.weights()[0] > 20_000
    assert f"{TEXT} gets new connections again" in caplog.text


def test_an_answer_opens_it_at_once(site):
    site.read()
    site.read((30, 0), (30, 30), (30, 30), times=2)
    assert not site.up()[0]
    site.read((0, 1), (30, 30), (30, 30))
    assert site.up() == [True, True, True]


def test_a_silent_back_end_is_used_where_probes_close_all_others(site):
    site.read()
    site.read((30, 0), (30, 30), (30, 30), times=2)
    site.probed({SECOND}, is_up=False)
    assert site.up() == [False, False, True]
    site.probed({THIRD}, is_up=False)
    assert site.up() == [True, False, False]
    assert site.weights()[0] == 65_537


def test_what_a_data_process_counted_before_it_ended_is_no_reading(site):
    site.read((50, 50), (50, 50), (50, 50), times=2)
    site.counters[:] = 0
    site.read((30, 0), (30, 30), (30, 30))
    site.read((0, 0), (30, 30), (30, 30), times=2)
    assert site.up() == [True, True, True]
    assert site.balancer.counts()["silenced"] == 0


def test_without_passive_checks_nothing_is_closed():
    site = Site(changed(**{f"b{SERVICE}": {"health": HealthCheck()}}))
    site.read((30, 0), (30, 30), (30, 30), times=5)
    assert site.up() == [True, True, True]


async def test_a_service_that_ends_its_passive_checks_has_all_back_ends(site):
    site.read()
    site.read((30, 0), (30, 30), (30, 30), times=2)
    site.balancer.supervisor.forwards = lambda: False
    await site.balancer.serve_services(changed(**{f"b{SERVICE}": {"health": HealthCheck()}}))
    site.read()
    assert site.up() == [True, True, True]


def test_a_back_end_that_is_removed_is_forgotten(site):
    site.read()
    site.read((30, 0), (30, 30), (30, 30), times=2)
    assert site.balancer.wanted.silent == {FIRST}
    left = balancer(port=443, to=8443, ends=(52, 53), mode=BALANCERS[SERVICE].mode, health=HealthCheck(passive=True))
    others = tuple(left if at == SERVICE else each for at, each in enumerate(CONFIG.balancers))
    assert wanted_of(replace(CONFIG, balancers=others), site.balancer.wanted).silent == frozenset()
