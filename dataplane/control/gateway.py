"""One gateway: its data process, the slow path beside it, and the tables that both go by.

What is served changes in two ways: somebody configures another network (`serve`), or a neighbour's MAC becomes known.
Either way all tables are compiled anew, as one generation, for the data process and the slow path alike. Another share
of a pair's work (`take_up`) is two words in the tables that are there: it is done at once, whatever is being compiled.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from dataplane.config.local import LocalConfig
from dataplane.config.network import Address, NetworkConfig
from dataplane.control.launcher import Supervisor
from dataplane.control.link import Options, Ready
from dataplane.control.pair.duties import ALONE, Work, on_duty
from dataplane.control.shared import Word
from dataplane.control.slow.departure import Ways
from dataplane.control.slow.directory import Directory
from dataplane.control.slow.slow_path import Send, SlowPath
from dataplane.control.status import Occupancy, PairLook, Status, counted
from dataplane.engine.rings import Injector, PuntReader
from dataplane.gateway.compiler.compile import compile_tables
from dataplane.gateway.memory import state as words
from dataplane.gateway.tables.schema import Tables

TICK_S = 0.1
"""How often neighbours are looked after."""
GLANCE_S = 0.001
MAX_AT_ONCE = 256
"""Punted packets that are answered before anything else has its turn."""

log = logging.getLogger("heddle.gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a gateway is to serve."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    work: Work = ALONE
    """Its share of a pair's work."""
    gateways: tuple[IPv4Address, ...] = ()
    """VTEPs of other gateways."""


class Gateway:
    """A gateway from its start to its end."""

    def __init__(self, local: LocalConfig, options: Options, first: Wanted, *, paired: bool = False) -> None:
        """Compile what is served at first; raises ValueError where that is unsound."""
        self.local, self.wanted = local, first
        self._generation = 0
        self._changing = asyncio.Lock()
        self.supervisor = Supervisor(local, options, log.warning, paired=paired)
        self._punts = PuntReader(self.supervisor.shared.punts)
        self._injector = Injector(self.supervisor.shared.injects)
        tables, directory = self._compiled(first, {}), Directory(local, first.network, first.work.duty)
        self.slow = SlowPath(directory, Ways.of(tables))
        self.slow.configure(directory, Ways.of(tables), time.monotonic_ns())
        self._known = self.slow.neighbours.version
        self.tables = tables
        """The generation that was published last."""
        self.news = asyncio.Event()
        """Set whenever the data process has said something; whoever waits for that clears it."""
        self.look_at_pair: Callable[[], PairLook] | None = None
        """How its pairing says how the pair stands; None while there is none."""
        self._publish(tables)

    async def start(self) -> Ready:
        """Start forwarding; raises DataProcessError."""
        ready = await self.supervisor.start()
        for notice in ready.notices:
            log.warning(notice)
        return ready

    async def run(self) -> None:
        """Answer the slow path's packets and keep the data process running, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.supervisor.watch())
            tasks.create_task(self._answer())
            tasks.create_task(self._look_after_neighbours())

    async def stop(self) -> None:
        """End the data process; what is in its rings is sent first."""
        await self.supervisor.stop()

    async def serve(self, change: Callable[[Wanted], Wanted]) -> int:
        """Serve something else than before; return the generation of tables that does.

        Packets go by it from the next burst on; `in_use` waits for that. Raises ValueError where it is unsound, and
        nothing has changed then.
        """
        async with self._changing:
            await self._renew(change(self.wanted))
            return self._generation

    def take_up(self, work: Work) -> int:
        """Do another share of a pair's work from now on; return the generation of tables that does.

        Nothing is compiled for that, and nothing is waited for: a network that is being compiled comes later. What was
        to be sent for other work is taken back: a data process that hangs meanwhile would draw to itself what the
        partner serves by then.
        """
        self.wanted = replace(self.wanted, work=work)
        self.slow.take_up(work.duty)
        self._injector.withdraw()
        self._publish(self.tables)
        return self._generation

    async def in_use(self, generation: int) -> None:
        """Wait until packets go by this generation or a later one."""
        while self.supervisor.shared.words[Word.IN_USE] < generation:
            await asyncio.sleep(GLANCE_S)

    def send(self, effects: list[Send]) -> None:
        """Hand frames to the data process; those that find its ring full are counted there."""
        for effect in effects:
            self._injector.send(effect.frame, effect.port)
        if effects:
            self.supervisor.wake()

    def status(self) -> Status:
        """Return what there is to be seen now."""
        ready, shared, state = self.supervisor.ready, self.supervisor.shared, self.supervisor.state()
        return Status(
            gateway_id=self.local.gateway_id,
            pid=self.supervisor.pid(),
            backend=ready.backend if ready else "",
            notices=ready.notices if ready else (),
            configured=self.wanted.network.generation,
            generation_offered=self._generation,
            restarts=self.supervisor.restarts,
            hangs=self.supervisor.hung,
            tables=_occupancy(state.counts.tolist(), self.local) if state is not None else {},
            refused={
                "to_slow_path": self._punts.refused(),
                "from_slow_path": self._injector.refused(),
                "withdrawn": self._injector.withdrawn(),
                "neighbours": self.slow.neighbours.refused,
                "waiting": self.slow.waiting.dropped,
            },
            slow_path={outcome.value: count for outcome, count in self.slow.outcomes.items()},
            pair=self.look_at_pair() if self.look_at_pair else None,
            **counted(self.local, shared),
        )

    async def _renew(self, wanted: Wanted) -> None:
        """Compile, in a thread for it may take long, and let both sides go by the result."""
        neighbours, known = self.slow.resolved(), self.slow.neighbours.version
        tables = await asyncio.to_thread(self._compiled, wanted, neighbours)
        self.wanted, self._known = replace(wanted, work=self.wanted.work), known  # which may have changed meanwhile
        directory = Directory(self.local, self.wanted.network, self.wanted.work.duty)
        self.slow.configure(directory, Ways.of(tables), time.monotonic_ns())
        self._publish(tables)

    def _compiled(self, wanted: Wanted, neighbours: Mapping[tuple[int, Address], int]) -> Tables:
        return compile_tables(self.local, wanted.network, neighbours=neighbours, generation=0, partners=wanted.gateways)

    def _publish(self, tables: Tables) -> None:
        """Let packets go by these tables, as the next generation and for the work that is to be done now."""
        self._generation += 1
        self.tables = on_duty(tables, self.wanted.work, self._generation)
        self.supervisor.publish(self.tables)

    async def _answer(self) -> None:
        """Answer what the data process hands over, as it comes."""
        arrived, loop = asyncio.Event(), asyncio.get_running_loop()
        told = self.supervisor.told
        loop.add_reader(told, arrived.set)
        try:
            while True:
                await arrived.wait()
                arrived.clear()
                self.news.set()
                with suppress(BlockingIOError):
                    os.eventfd_read(told)
                while punted := self._punts.read(MAX_AT_ONCE):
                    now_ns = time.monotonic_ns()
                    self.send([effect for packet in punted for effect in self.slow.handle(packet, now_ns)])
                    await asyncio.sleep(0)
        finally:
            loop.remove_reader(told)

    async def _look_after_neighbours(self) -> None:
        """Ask for neighbours, and compile anew where what is known of them has changed."""
        while True:
            self.send(self.slow.tick(time.monotonic_ns()))
            if self.slow.neighbours.version != self._known:
                async with self._changing:
                    await self._renew(self.wanted)
            await asyncio.sleep(TICK_S)


def _occupancy(counts: list[int], local: LocalConfig) -> Mapping[str, Occupancy]:
    used = {
        "connections": (words.PAIRS_USED, words.PAIRS_BACK, local.limits.connections),
        "mappings": (words.MAPPINGS_USED, words.MAPPINGS_BACK, local.limits.mappings),
        "endpoints_with_connections": (words.OWNERS_USED, words.OWNERS_BACK, local.limits.connections),
    }
    found = {name: Occupancy(used=counts[ever] - counts[back], room=room) for name, (ever, back, room) in used.items()}
    return {**found, "fragments": Occupancy(used=counts[words.FRAGMENTS_HELD], room=local.limits.fragments)}
