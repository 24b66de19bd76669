"""A gateway of a pair when its share of the work changes: it uses new tables at once, without a compilation."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import IPv4Address

import numpy as np
import pytest

from heddle.dataplane.control import gateway as gateways
from heddle.dataplane.control.gateway import Gateway, Wanted
from heddle.dataplane.control.pair.duties import PairWork
from heddle.dataplane.control.process.messages import Options
from heddle.dataplane.control.slow.directory import Duty
from heddle.dataplane.engine.rings import INJECT_HEADER, Ring
from heddle.dataplane.tables.compiler.compile import compile_tables
from tests.fakes.gateway.gateway_site import EXTERNAL, LOCAL, NETWORK, UNDERLAY
from tests.fakes.gateway.ring_reader import oldest

TAKEN_VTEP, TAKEN_WAN = IPv4Address("192.168.0.2"), IPv4Address("203.0.113.3")
NOTHING = PairWork(active=False, taken_vtep=None, duty=Duty(public=False))
ALL_OF_IT = PairWork(
    active=True, taken_vtep=TAKEN_VTEP, duty=Duty(taken={UNDERLAY: TAKEN_VTEP, EXTERNAL: TAKEN_WAN})
)  # fmt: skip
LESS = replace(NETWORK, generation=NETWORK.generation + 1, vpcs=NETWORK.vpcs[:1], peerings=frozenset())


def left_in(ring: Ring) -> set[tuple[int, bytes]]:
    """Return the frames that a data process would send now, by port, and remove them."""
    found = set()
    while (at := oldest(ring, False)) >= 0:
        count, port = ring.data[at + 8 : at + 24].view(np.int64).tolist()
        found.add((port, ring.data[at + INJECT_HEADER : at + INJECT_HEADER + count].tobytes()))
        oldest(ring, True)
    return found


@pytest.fixture
async def standby() -> AsyncIterator[Gateway]:
    made = Gateway(LOCAL, Options(), Wanted(network=NETWORK, work=NOTHING), paired=True)
    yield made
    await made.stop()


async def test_a_takeover_gives_the_same_tables_as_a_compilation(standby: Gateway) -> None:
    generation = standby.set_work(ALL_OF_IT)
    wanted = compile_tables(
        LOCAL, NETWORK, neighbours={}, generation=generation, active=True, taken_vtep=TAKEN_VTEP
    )  # fmt: skip
    for name, array in wanted._asdict().items():
        assert np.array_equal(getattr(standby.tables, name), array), name


async def test_the_served_addresses_follow_the_work(standby: Gateway) -> None:
    before = {(send.port, send.frame[28:32]) for send in standby.slow.announcements()}
    standby.set_work(ALL_OF_IT)
    after = {(send.port, send.frame[28:32]) for send in standby.slow.announcements()}
    new = {(UNDERLAY, TAKEN_VTEP.packed), (EXTERNAL, TAKEN_WAN.packed)}
    assert before < after
    assert after >= new
    assert not before & new
    standby.set_work(NOTHING)
    assert {(send.port, send.frame[28:32]) for send in standby.slow.announcements()} == before


async def test_a_takeover_waits_for_no_compilation_and_is_not_undone_by_it(
    standby: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = threading.Event()

    def slowly(*arguments: object, **named: object) -> object:
        assert going_on.wait(60)
        return compile_tables(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(gateways, "compile_tables", slowly)
    changing = asyncio.create_task(standby.serve(lambda wanted: replace(wanted, network=LESS)))
    await asyncio.sleep(0.05)
    taken = standby.set_work(ALL_OF_IT)
    assert not changing.done()
    going_on.set()
    assert await changing > taken
    assert (standby.wanted.network, standby.wanted.work) == (LESS, ALL_OF_IT)
    wanted = compile_tables(LOCAL, LESS, neighbours={}, generation=0, active=True, taken_vtep=TAKEN_VTEP)
    assert np.array_equal(standby.tables.own, wanted.own)
    assert np.array_equal(standby.tables.vpcs, wanted.vpcs)


async def test_neighbours_are_requested_only_while_the_work_is_known_for_certain(standby: Gateway) -> None:
    standby.set_work(ALL_OF_IT)
    certain = False
    standby.may_act = lambda: certain
    resolving = asyncio.create_task(standby._resolve_neighbours())
    try:
        await asyncio.sleep(2 * gateways.TICK_S)
        assert left_in(standby.supervisor.shared.injects) == set()
        certain = True
        async with asyncio.timeout(20):
            while not left_in(standby.supervisor.shared.injects):
                await asyncio.sleep(0.01)
    finally:
        resolving.cancel()


async def test_announcements_for_released_work_are_withdrawn(standby: Gateway) -> None:
    waiting = standby.supervisor.shared.injects
    standby.set_work(ALL_OF_IT)
    standby.send(standby.slow.announcements())  # a data process that hangs does not send them
    standby.set_work(NOTHING)
    standby.send(standby.slow.announcements())
    assert left_in(waiting) == {(send.port, send.frame) for send in standby.slow.announcements()}
    assert standby.status().refused["withdrawn"] > 0
