"""Samples of running flows: within their budget, a changed hash is found, silence is not taken for one."""

import asyncio
from collections import Counter
from typing import cast

from heddle.controller.model.event import Submit
from heddle.controller.probe_sessions.hops import Hops
from heddle.controller.probe_sessions.sampler import CERTAIN, Sampler
from heddle.controller.probe_sessions.sending import ProbeSender
from heddle.controller.probe_sessions.sessions import ProbeAgents, ProbeSession
from tests.unit.brain.driver import shift_job, small_fabric
from tests.unit.brain.test_seeking import hashing

SAMPLES_PPS = 8


class Asked:
    """Has the routers reply at once; `load` counts the probes that expire at each switch, round by round."""

    def __init__(self, switches, fabric):
        self.agents, self.hops, self.rounds = ProbeAgents(lambda note: None), Hops(fabric), []
        self.agents.by_ip |= {nic.ip: ProbeSession(nic.host, frozenset({nic.ip}), 1000.0) for nic in fabric.nics}
        self._switches, self._nics = switches, {nic.ip: nic for nic in fabric.nics}
        self.link_at = switches._link_at

    async def replies(self, to_send, reader, efforts, tries=3):
        found, load = {}, Counter()
        for src_ip, questions in to_send.items():
            heard = {each: self._switches._reply(src_ip, each) for each in questions if src_ip not in self._silent()}
            counted = {each: at for each, at in heard.items() if at and reader.read(src_ip, each, at)}
            found[src_ip] = counted
            load.update(self.link_at[at].partition(">")[2].rpartition(":")[0] for at in counted.values())
        self.rounds.append(load)
        return found

    def _silent(self):
        return self._switches.silent


class Given:
    def __init__(self):
        self.driver = hashing(small_fabric(spines=4, leaves=8, hosts_per_leaf=4))
        self.driver.feed(Submit(reply=1, request=shift_job("a", ranks=32, by=4)))
        assert self.driver.hashing is not None
        self.routers = self.driver.hashing
        self.asked = Asked(self.routers, self.driver.fabric)
        self.events = []
        self.sampler = Sampler(
            cast("ProbeSender", self.asked), self.driver.fabric, self.asked.link_at,
            lambda: {name: job.flows for name, job in self.driver.state.jobs.items()}, self.events.append,
            samples_pps=SAMPLES_PPS, period_s=1.0,
        )  # fmt: skip


async def test_samples_keep_their_budget_at_every_switch_and_cover_all_leaves():
    given = Given()
    seen = sum([await given.sampler.once() for _ in range(8)], Counter())
    assert max(max(load.values()) for load in given.asked.rounds) <= SAMPLES_PPS
    assert set(seen) == set(given.driver.fabric.leaves)
    assert not given.events


async def test_a_changed_hash_is_found_and_the_leaf_is_left_alone_while_it_is_confirmed():
    given = Given()
    given.routers.salt = 1
    for _ in range(8):
        await given.sampler.once()
    leaves = [leaf for event in given.events for leaf in event.leaves]
    assert len(leaves) == len(set(leaves))
    assert set(leaves) == set(given.driver.fabric.leaves)


async def test_after_the_brain_has_confirmed_the_ports_samples_agree_again():
    given = Given()
    given.routers.salt = 1
    await given.sampler.once()
    for event in given.events:
        given.driver.feed(event)
    suspects = {leaf for event in given.events for leaf in event.leaves}
    given.events.clear()
    given.sampler._quiet_until_s.clear()
    for _ in range(8):
        await given.sampler.once()
    assert not suspects.intersection(leaf for event in given.events for leaf in event.leaves)


async def test_silence_is_no_evidence():
    given = Given()
    given.routers.silent = {nic.ip for nic in given.driver.fabric.nics}
    assert not (await given.sampler.once()).total()
    assert not given.events


async def test_the_time_of_detection_is_that_of_enough_samples_at_the_pace_of_the_last_round():
    given = Given()
    given.sampler._period_s, given.sampler._samples_pps = 0.01, 100 * SAMPLES_PPS
    running = asyncio.create_task(given.sampler.run())
    async with asyncio.timeout(60):
        while not given.sampler.detection_s:
            await asyncio.sleep(0.01)
    running.cancel()
    assert all(time_s >= 0.01 for time_s in given.sampler.detection_s.values())


def test_so_many_samples_see_a_change_of_a_quarter_with_99_percent():
    assert 0.75**CERTAIN < 0.01 < 0.75 ** (CERTAIN - 1)


async def test_no_samples_are_made_where_none_are_wanted():
    given = Given()
    given.sampler._samples_pps = 0
    await asyncio.wait_for(given.sampler.run(), 60)
    assert not given.asked.rounds
