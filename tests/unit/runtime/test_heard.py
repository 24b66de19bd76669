"""From the bytes of agents to a condition of the cabling, merged with what OpenFlow hears; an inbox that is full."""

import asyncio
import time
from collections import Counter
from dataclasses import replace

import pytest

from heddle.controller import parts
from heddle.controller.brain.begin import begin
from heddle.controller.brain.settings import Settings
from heddle.controller.cabling.merging import HeardBy
from heddle.controller.config.telemetry import ports_of
from heddle.controller.model.cabling import Peer
from heddle.controller.model.fabric import PortRef, SteeredBy
from heddle.controller.runtime.collecting import Collecting
from heddle.controller.runtime.heard import HeardPeers
from heddle.controller.runtime.telemetry import Telemetry
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.neighbours.heard import Heard, Sender
from heddle.telemetry.observer import Observer
from heddle.telemetry.samples.sample import PortSample, encode
from heddle.telemetry.samples.topic import ports_topic
from tests.fakes.telemetry.bus import FakeBus
from tests.support.controllers.bare_loop import bare_loop
from tests.unit.brain.driver import small_fabric

HASHES = replace(small_fabric(spines=4), steered_by=SteeredBy.HASH)
PORT = PortRef("leaf1", 1)


class Agents:
    """Every switch's agent, on a bus; `far` has what each port hears."""

    def __init__(self, fabric, bus):
        self.fabric, self.bus, self.sequence = fabric, bus, 0
        self.far = {}
        for cable in fabric.cables:
            self.far |= {cable.lower: cable.upper, cable.upper: cable.lower}

    def exchange(self, a, b):
        self.far[a], self.far[b] = self.far[b], self.far[a]
        self.far[self.far[a]], self.far[self.far[b]] = a, b

    def publish(self):
        self.sequence += 1
        for switch in self.fabric.switches:
            samples = [
                PortSample(
                    port=str(port), timestamp_unix_ns=time.time_ns(), sequence=self.sequence,
                    heard=Heard(f"swp{port.number}", (Sender(far.switch, "", (f"swp{far.number}",)),)),
                )
                for port, far in self.far.items()
                if port.switch == switch.id
            ]  # fmt: skip
            self.bus.publish(ports_topic(self.fabric.name, switch.id), encode(samples))


async def until(agents, holds):
    async with asyncio.timeout(30):
        while not holds():
            agents.publish()
            await asyncio.sleep(0.03)


async def test_exchanged_plugs_of_a_fabric_without_openflow_are_named_left_out_and_cleared():
    loop = bare_loop(begin(HASHES, Settings(acts_on_telemetry=True)))
    bus, peers = FakeBus(), HeardPeers(loop.post, Counter())
    collecting = Collecting(
        Observer(HASHES.name, ports_of(HASHES), DetectorSettings(period_ms=20)), bus, Telemetry(), loop,
        parts.reported_peers(loop.state, peers),
    )  # fmt: skip
    running = asyncio.create_task(loop.run())
    collecting.start()
    await collecting.collector.connected.wait()
    agents = Agents(HASHES, bus)
    sound = 2 * len(HASHES.cables)
    await until(agents, lambda: len(loop.state.cabling.heard) == sound)
    assert not loop.state.cabling.verdict.conditions
    agents.exchange(PORT, PortRef("leaf1", 2))
    await until(agents, lambda: [*loop.state.cabling.verdict.conditions] == ["leaf1:1 and leaf1:2 are exchanged"])
    await until(agents, lambda: loop.state.out_of_use.down_cables == {"leaf1:1>spine1:1", "leaf1:2>spine2:1"})
    agents.exchange(PORT, PortRef("leaf1", 2))
    await until(agents, lambda: not loop.state.cabling.verdict.conditions and loop.state.out_of_use.whole)
    await collecting.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("steered_by", "acts", "counts"),
    [("hash", True, True), ("hash", False, True), ("openflow", True, True), ("openflow", False, False)],
)
def test_an_untrusted_broker_says_nothing_where_openflow_hears(steered_by, acts, counts):
    fabric = replace(HASHES, steered_by=SteeredBy(steered_by))
    state = begin(fabric, Settings(acts_on_telemetry=acts))
    assert (parts.reported_peers(state, HeardPeers(lambda event: True, Counter())) is not None) is counts


def test_what_finds_the_inbox_full_is_posted_with_the_next_call():
    posted: list[dict[PortRef, Peer | None]] = []
    room = [False]

    def post(event):
        if room[0]:
            posted.append(dict(event.changes))
        return room[0]

    peers = HeardPeers(post, Counter())
    one, other = Peer("spine1", 1), Peer("spine2", 1)
    assert not peers.hear(HeardBy.AGENTS, {PORT: one})
    room[0] = True
    assert peers.hear(HeardBy.OPENFLOW, {PortRef("leaf1", 2): other})
    assert posted == [{PORT: one, PortRef("leaf1", 2): other}]
    assert peers.hear(HeardBy.AGENTS, {})
    assert len(posted) == 1
