"""Run one gateway: its data process, its slow path, and the forwarding tables that both use.

A new network configuration (`serve`) and a new neighbour MAC both cause a compilation of all tables, as one generation
for the data process and the slow path. A change of the pair's roles (`set_work`) changes three words of the present
tables only, and takes effect at once, even during a compilation.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Any

from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.config.network import Address, NetworkConfig
from heddle.dataplane.control.full_shares import FullShares
from heddle.dataplane.control.pair.duties import ALONE, PairWork, on_duty
from heddle.dataplane.control.process.messages import Options, Ready
from heddle.dataplane.control.process.programs import GATEWAY
from heddle.dataplane.control.process.segment import Shape
from heddle.dataplane.control.process.shared import Word
from heddle.dataplane.control.process.supervisor import Supervisor
from heddle.dataplane.control.slow.directory import Directory
from heddle.dataplane.control.slow.next_hops import NextHops
from heddle.dataplane.control.slow.slow_path import Send, SlowPath
from heddle.dataplane.control.status import Occupancy, PairStatus, Status, counted
from heddle.dataplane.elements.memory.state import FRAGMENTS_HELD
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.engine.rings import Injector, PuntReader
from heddle.dataplane.gateway.memory import state as words
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.tables.schema import Tables

TICK_S = 0.1
"""Interval of neighbour solicitation and of checks for newly resolved MACs."""
POLL_S = 0.001
"""Interval at which `in_use` reads the generation in use."""
SHARES_S = 1.0
"""Interval at which full shares are reported."""
MAX_NOTICES = 64
"""Notices queued for the controller; further ones are only logged."""
CHECKSUMS_S = 1.0
"""Interval at which the counter of bad checksums is read, until it is above 0."""
BAD_CHECKSUMS = (
    "TCP connections arrive with wrong checksums and are dropped (bad_checksum): an interface of the sender leaves "
    "them to hardware that it does not have, as veth does; there: ethtool -K DEVICE tx off tso off gso off"
)
MAX_AT_ONCE = 256
"""Punted packets handled before other tasks of the event loop run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Desired state of a gateway."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    work: PairWork = ALONE
    """Its part of a pair's work."""
    gateways: tuple[IPv4Address, ...] = ()
    """VTEPs of other gateways."""
    virtual_ips: tuple[VirtualIp, ...] = ()
    """Virtual IPs from which back ends reply."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """By VPC that is not served as the controller wants: what is served instead, and why."""
    unknown: frozenset[str] = frozenset()
    """VPCs in `network` that the controller does not know."""


class Gateway:
    """The control process's half of a gateway, and of a balancer, which overrides what differs."""

    program = GATEWAY
    kept: Mapping[str, Shape] = {}
    log = logging.getLogger("heddle.gateway")

    def __init__(self, local: LocalConfig, options: Options, first: Wanted, *, paired: bool = False) -> None:
        """Compile the first tables; raises ValueError if the configuration is invalid."""
        self.local, self.wanted = local, first
        self._generation = 0
        self._changing = asyncio.Lock()
        self.supervisor = Supervisor(
            local, options, self.log.warning, paired=paired, program=self.program, kept=self.kept
        )
        self._punts = PuntReader(self.supervisor.shared.punts)
        self._injector = Injector(self.supervisor.shared.injects)
        tables, directory = self._compiled(first, {}), self._directory(first)
        self.slow = SlowPath(directory, NextHops.of(tables))
        self.slow.configure(directory, NextHops.of(tables), time.monotonic_ns())
        self._known = self.slow.neighbours.version
        self.tables = tables
        """The generation that was published last."""
        self.activity = asyncio.Event()
        """Set when the data process has punted packets or written connection records; the waiting task clears it."""
        self.notices: asyncio.Queue[str] = asyncio.Queue(MAX_NOTICES)
        """Lines for the controller's event log; without a controller none are taken."""
        self.pair_status: Callable[[], PairStatus] | None = None
        """Returns the status of the pair; None for a gateway without a partner."""
        self.may_act: Callable[[], bool] = lambda: True
        """Returns whether the part of a pair's work is certain; until it is, nothing is replied or requested."""
        self._publish(tables)

    async def start(self) -> Ready:
        """Start forwarding; raises DataProcessError."""
        ready = await self.supervisor.start()
        for notice in ready.notices:
            self.log.warning(notice)
        return ready

    async def run(self) -> None:
        """Handle punted packets and keep the data process running, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.supervisor.watch())
            tasks.create_task(self._handle_punts())
            tasks.create_task(self._resolve_neighbours())
            tasks.create_task(self._report_bad_checksums())
            for task in self._own_tasks():
                tasks.create_task(task)

    def _own_tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what runs for this program only."""
        return (self._report_full_shares(),)

    async def stop(self) -> None:
        """End the data process; it first transmits the frames in its rings."""
        await self.supervisor.stop()

    async def serve(self, change: Callable[[Wanted], Wanted]) -> int:
        """Compile and publish tables for a changed configuration; return their generation.

        The data process uses them from its next burst on; `in_use` waits for that. Raises ValueError if the
        configuration is invalid; the present one then stays in force.
        """
        async with self._changing:
            await self._renew(change(self.wanted))
            return self._generation

    def set_work(self, work: PairWork) -> int:
        """Change this gateway's part of a pair's work; return the generation of tables.

        Nothing is compiled, and a compilation in progress is not waited for. Frames queued for the former work are
        withdrawn: a data process that hangs and resumes later would announce addresses that the partner serves by then.
        """
        self.wanted = replace(self.wanted, work=work)
        self.slow.set_duty(work.duty)
        self._injector.withdraw()
        self._publish(self.tables)
        return self._generation

    async def in_use(self, generation: int) -> None:
        """Wait until the data process forwards by this generation or a later one."""
        while self.supervisor.shared.words[Word.IN_USE] < generation:
            await asyncio.sleep(POLL_S)

    def send(self, effects: list[Send]) -> None:
        """Hand frames to the data process; those for which its ring has no room are counted and dropped."""
        for effect in effects:
            self._injector.send(effect.frame, effect.port)
        if effects:
            self.supervisor.wake()

    def status(self) -> Status:
        """Return a snapshot of state and counters."""
        ready, shared, state = self.supervisor.ready, self.supervisor.shared, self.supervisor.state()
        return Status(
            gateway_id=self.local.gateway_id,
            pid=self.supervisor.pid(),
            backend=ready.backend if ready else "",
            notices=ready.notices if ready else (),
            configured=self.wanted.network.generation,
            generation_offered=self._generation,
            kept_vpcs=self.wanted.kept,
            unknown_vpcs=tuple(sorted(self.wanted.unknown)),
            restarts=self.supervisor.restarts,
            hangs=self.supervisor.hung,
            **(self._from_state(state) if state is not None else {}),
            refused={
                "to_slow_path": self._punts.refused(),
                "from_slow_path": self._injector.refused(),
                "withdrawn": self._injector.withdrawn(),
                "neighbours": self.slow.neighbours.refused,
                "waiting": self.slow.waiting.dropped,
            },
            slow_path={outcome.value: count for outcome, count in self.slow.outcomes.items()},
            pair=self.pair_status() if self.pair_status else None,
            **counted(self.local, shared),
        )

    async def _renew(self, wanted: Wanted) -> None:
        """Compile in a thread, since it may take long, and publish the tables to the data process and the slow path."""
        neighbours, known = self.slow.resolved(), self.slow.neighbours.version
        tables = await asyncio.to_thread(self._compiled, wanted, neighbours)
        self.wanted, self._known = replace(wanted, work=self.wanted.work), known  # roles may have changed meanwhile
        self.slow.configure(self._directory(self.wanted), NextHops.of(tables), time.monotonic_ns())
        self._publish(tables)
        await self._published()

    async def _published(self) -> None:
        """Do what must follow the publication of tables that were compiled."""

    def _directory(self, wanted: Wanted) -> Directory:
        return Directory(self.local, wanted.network, wanted.work.duty)

    def _from_state(self, state: Any) -> dict[str, Any]:
        """Return the fields of `Status` that are read from the program's state."""
        counts = state.counts.tolist()
        return {"tables": _occupancy(counts, self.local), "gave_way": counts[words.RECLAIMED]}

    def _compiled(self, wanted: Wanted, neighbours: Mapping[tuple[int, Address], int]) -> Tables:
        return compile_tables(
            self.local, wanted.network, neighbours=neighbours, generation=0, partners=wanted.gateways,
            virtual_ips=wanted.virtual_ips,
        )  # fmt: skip

    def _publish(self, tables: Tables) -> None:
        """Publish tables as the next generation, for the present work."""
        self._generation += 1
        self.tables = on_duty(tables, self.wanted.work, self._generation)
        self.supervisor.publish(self.tables)

    async def _handle_punts(self) -> None:
        """Pass punted packets to the slow path and send its frames."""
        arrived, loop = asyncio.Event(), asyncio.get_running_loop()
        punt_event = self.supervisor.punt_event
        loop.add_reader(punt_event, arrived.set)
        try:
            while True:
                await arrived.wait()
                arrived.clear()
                self.activity.set()
                with suppress(BlockingIOError):
                    os.eventfd_read(punt_event)
                while not self.may_act():
                    await asyncio.sleep(POLL_S)
                while punted := self._punts.read(MAX_AT_ONCE):
                    now_ns = time.monotonic_ns()
                    self.send([effect for packet in punted for effect in self.slow.handle(packet, now_ns)])
                    await asyncio.sleep(0)
        finally:
            loop.remove_reader(punt_event)

    async def _resolve_neighbours(self) -> None:
        """Send neighbour solicitations that are due, and recompile the tables when a MAC has changed."""
        while True:
            if self.may_act():
                self.send(self.slow.tick(time.monotonic_ns()))
            if self.slow.neighbours.version != self._known:
                async with self._changing:
                    await self._renew(self.wanted)
            await asyncio.sleep(TICK_S)

    async def _report_full_shares(self) -> None:
        """Log which endpoints met a full share, and notify the controller."""
        shares = FullShares()
        while True:
            await asyncio.sleep(SHARES_S)
            state = self.supervisor.state()
            if state is None:
                continue
            names = {vpc.vni: vpc.id for vpc in self.wanted.network.vpcs}
            for line in shares.news(state.full.copy(), names, time.monotonic()):
                self.log.warning("%s", line)
                if not self.notices.full():
                    self.notices.put_nowait(line)

    async def _report_bad_checksums(self) -> None:
        """Log the cause of wrong checksums once, when the first arrives; ICMP passes, so a ping does not show it."""
        drops = self.supervisor.shared.counters.drops
        while not drops[Drop.BAD_CHECKSUM]:
            await asyncio.sleep(CHECKSUMS_S)
        self.log.warning(BAD_CHECKSUMS)


def _occupancy(counts: list[int], local: LocalConfig) -> Mapping[str, Occupancy]:
    used = {
        "connections": (words.PAIRS_USED, words.PAIRS_FREED, local.limits.connections),
        "mappings": (words.MAPPINGS_USED, words.MAPPINGS_FREED, local.limits.mappings),
        "endpoints_with_connections": (words.OWNERS_USED, words.OWNERS_FREED, local.limits.connections),
    }
    found = {name: Occupancy(used=counts[ever] - counts[back], room=room) for name, (ever, back, room) in used.items()}
    return {**found, "fragments": Occupancy(used=counts[FRAGMENTS_HELD], room=local.limits.fragments)}
