"""Switches do what the leader intends, however late the messages of another leader arrive. Figures: `pytest -rA`."""

import asyncio

import pytest

from tests.support.clusters.opposite_intents import Rivals

AT_ONE_TIME = 10
RUNS = [
    pytest.param(range(12), id="12"),
    pytest.param(range(200), id="200", marks=[pytest.mark.soak, pytest.mark.slow]),
]
MAX_TRIED = range(100)


async def results(seeds):
    turn = asyncio.Semaphore(AT_ONE_TIME)

    async def one(seed):
        async with turn:
            rivals = Rivals(seed)
            return await rivals.run(), rivals

    return await asyncio.gather(*map(one, seeds))


@pytest.mark.parametrize("seeds", RUNS)
async def test_switches_hold_what_the_leader_intends_and_nothing_of_the_one_before(seeds):
    found = await results(seeds)
    refused = sum(rivals.count(lambda switch: switch.refused_of_old) for _, rivals in found)
    accepted = sum(rivals.count(lambda switch: switch.accepted) for _, rivals in found)
    same = sum(not differing for differing, _ in found)
    print(f"{same} of {len(found)} runs end with the leader's intent; {accepted} changes, {refused} late ones refused")
    assert [differing for differing, _ in found if differing] == []
    assert sum(rivals.count(lambda switch: switch.accepted_of_old) for _, rivals in found) == 0
    assert refused > 0  # or no message was late


async def test_the_comparison_finds_late_messages_where_switches_obey_any_controller():
    for seed in MAX_TRIED:
        if await Rivals(seed, obeys_roles=False).run(settle_s=0.5):
            return
    pytest.fail("no late message changed a switch")
