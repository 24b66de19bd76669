"""Run one balancer: as a gateway (`gateway`), with services, their health, and slots that are changed in place.

A change of health writes words and slots of its service alone, into the tables in use (`_mark`).

Order of any other change: the slots of services that are new, which no packet reads yet; the tables; once they are in
use, all other slots that differ. Until then, a slot may name a back end that the tables do not have any more, and the
data process takes the next slot's (`elements.balance`).
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heddle.dataplane.balancer.compiler.compile import Compiled, compile_services, mark, seen_network, weighed
from heddle.dataplane.balancer.compiler.numbering import MAX_SERVICES, BackEndName, Numbering, service_name
from heddle.dataplane.balancer.maglev import SLOTS, write_changes
from heddle.dataplane.balancer.memory.connections import HALF_OPEN, STREAM
from heddle.dataplane.balancer.memory.state import Count
from heddle.dataplane.balancer.silence import READING_S
from heddle.dataplane.config.balancers import BackEndState, BalancerConfig, LoadBalancer, Mode, balancer_mac
from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.config.network import Address
from heddle.dataplane.control.back_end_health import BackEndHealth
from heddle.dataplane.control.gateway import POLL_S, Gateway, Wanted
from heddle.dataplane.control.pair.duties import ALONE, PairWork
from heddle.dataplane.control.probing.prober import Prober
from heddle.dataplane.control.probing.probes import Target
from heddle.dataplane.control.process.messages import Options
from heddle.dataplane.control.process.programs import BALANCER
from heddle.dataplane.control.process.segment import Shape
from heddle.dataplane.control.process.shared import Word
from heddle.dataplane.control.silent_back_ends import SilentBackEnds, usable
from heddle.dataplane.control.slow.directory import Directory, Tenant
from heddle.dataplane.control.status import Occupancy
from heddle.dataplane.jit import Ints
from heddle.dataplane.tables.schema import Tables

STATES = ("half_open", "established", "closing", "first_datagram", "stream")
COUNTED = (Count.NEW, Count.REFUSED, Count.UNTRACKED, Count.DISPLACED, Count.MOVED, Count.EXPIRED, Count.ECHOED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedServices(Wanted):
    """Desired state of a balancer; `network` is that of `services`, as the slow path sees it."""

    services: BalancerConfig = field(default_factory=BalancerConfig)
    down: frozenset[BackEndName] = frozenset()
    """Those whose probes fail, or have not succeeded yet."""
    silent: frozenset[BackEndName] = frozenset()
    """Those that are closed because they answer no connection."""

    @property
    def closed(self) -> frozenset[BackEndName]:
        """Those that get no new connections; silent ones do where their service has no others left."""
        if not self.silent:
            return self.down
        others = self.down | self.silent
        left = {service_name(each) for each in self.services.balancers if any(usable(each, others))}
        return self.down | {name for name in self.silent if name.service in left}


def wanted_of(services: BalancerConfig, before: WantedServices | None = None) -> WantedServices:
    """Return the desired state for a configuration: back ends that are new are down until a probe succeeds."""
    names = frozenset(_checked(services))
    known = frozenset(_checked(before.services)) if before else frozenset[BackEndName]()
    down = (before.down if before else frozenset[BackEndName]()) & names | (names - known)
    silent = before.silent & names if before else frozenset[BackEndName]()
    work = before.work if before else ALONE
    return WantedServices(network=seen_network(services), services=services, down=down, silent=silent, work=work)


def _checked(services: BalancerConfig) -> dict[BackEndName, Target]:
    """Return what is probed, by back end."""
    devices = {site.vpc: site.probe_device for site in services.sites}
    return {
        BackEndName(service_name(each), end.ip, end.port): Target(
            ip=end.ip,
            port=end.port,
            check=each.health,
            device=None if each.mode is Mode.IP_IN_IP else devices.get(each.vpc),
        )
        for each in services.balancers
        if each.health is not None
        for end in each.back_ends
    }


class _Directory(Directory):
    """A directory whose tenants have the balancers' MAC."""

    def tenant(self, vni: int) -> Tenant | None:
        found = super().tenant(vni)
        if found is not None:
            found.mac = balancer_mac(vni).to_bytes(6, "big")
        return found


class Balancer(Gateway):
    """The control process's half of a balancer."""

    program = BALANCER
    kept: Mapping[str, Shape] = {"slots": Shape((MAX_SERVICES, SLOTS), np.dtype(np.int32))}
    log = logging.getLogger("heddle.balancer")
    wanted: WantedServices

    def __init__(
        self,
        local: LocalConfig,
        options: Options,
        first: BalancerConfig,
        *,
        work: PairWork = ALONE,
        paired: bool = False,
    ) -> None:
        """Compile the first tables; raises ValueError if the configuration is invalid."""
        self._numbering = Numbering()
        self._made: Compiled
        self._turned = asyncio.Event()
        self._turns: dict[BackEndName, bool] = {}
        self._slots_written = 0
        self._silent = SilentBackEnds()
        self.health = BackEndHealth(self._states)
        """The health of back ends, for the controller."""
        super().__init__(local, options, replace(wanted_of(first), work=work), paired=paired)
        self._write_slots(self._made.slots)
        self.prober = Prober(self._note, self.log.warning)
        self.prober.watch(_checked(first))

    def _own_tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return self.prober.run(), self._apply_turns(), self._close_silent()

    async def serve_services(
        self, services: BalancerConfig, kept: Mapping[str, str] | None = None, unknown: frozenset[str] = frozenset()
    ) -> int:
        """Switch to another configuration; return the generation of its tables. Raises ValueError.

        `kept` and `unknown` are as in `Wanted`.
        """
        generation = await self.serve(
            lambda before: replace(wanted_of(services, _as_services(before)), kept=kept or {}, unknown=unknown)
        )
        self.prober.watch(_checked(services))
        self.health.changed.set()
        return generation

    def _states(self) -> list[BackEndState]:
        wanted, closed = self.wanted, self.wanted.closed
        return [
            BackEndState(
                balancer=each.id,
                ip=end.ip,
                port=end.port,
                is_up=BackEndName(service_name(each), end.ip, end.port) not in closed,
            )
            for each in wanted.services.balancers
            if each.health is not None
            for end in each.back_ends
        ]

    def _note(self, name: BackEndName, is_up: bool) -> None:
        self._turns[name] = is_up
        self._turned.set()

    async def _apply_turns(self) -> None:
        """Apply changes of health, all that have arrived at once."""
        while True:
            await self._turned.wait()
            self._turned.clear()
            async with self._changing:
                before, self.wanted = self.wanted, self._with_turns(self.wanted)
                self._mark(before.closed ^ self.wanted.closed)
            self.health.changed.set()

    async def _close_silent(self) -> None:
        """Close back ends that answer no connection, and open them again (`balancer.silence`)."""
        while True:
            await asyncio.sleep(READING_S)
            state = self.supervisor.state()
            if state is not None:
                async with self._changing:
                    self._mark_silent(state.counters)

    def _mark_silent(self, counters: Ints) -> None:
        """Close and open back ends by one more reading of the counters."""
        before = self.wanted
        silent = self._silent.read(before.services, before.down, self._numbering, counters)
        if silent == before.silent:
            return
        self.wanted = replace(before, silent=silent)
        self._mark(before.closed ^ self.wanted.closed)
        self._report_silent(before.silent, silent)
        self.health.changed.set()

    def _report_silent(self, before: Set[BackEndName], after: Set[BackEndName]) -> None:
        closed = (
            f"{_text(name)} answers no connection while others do: it gets no new ones for "
            f"{self._silent.pause_s(name):g} s, unless it answers"
            for name in after - before
        )
        again = (f"{_text(name)} gets new connections again" for name in before - self.wanted.closed)
        for line in (*closed, *again):
            self.log.warning("%s", line)
            if not self.notices.full():
                self.notices.put_nowait(line)

    def _mark(self, turned: Set[BackEndName]) -> None:
        """Write the health of back ends into the tables in use, for the services of those that turned and no others.

        `tables` gets the same, as it is published again when the pair's roles change.
        """
        generations = [each for each in (self.tables, self.supervisor.installed()) if each is not None]
        services = {name.service for name in turned}
        for row, each in enumerate(self.wanted.services.balancers):
            if service_name(each) not in services:
                continue
            health = weighed(each, self.wanted.closed, self._numbering)
            for tables in generations:
                mark(tables, row, health, rising=True)
            self._write_slots({health.row: health.slots})
            for tables in generations:
                mark(tables, row, health, rising=False)

    def _with_turns(self, wanted: Wanted) -> WantedServices:
        """Return the desired state with the changes of health that have arrived."""
        before, turns = _as_services(wanted), self._turns
        self._turns = {}
        up = {name for name, is_up in turns.items() if is_up}
        known = frozenset(_checked(before.services))
        down = (before.down | turns.keys()) & known - up
        for name, is_up in turns.items():
            self.log.warning("%s is %s", _text(name), "up" if is_up else "down")
        for each in before.services.balancers:
            self._report_all_down(each, before.down, down)
        return replace(before, down=down)

    def _report_all_down(
        self, each: LoadBalancer, before: frozenset[BackEndName], after: frozenset[BackEndName]
    ) -> None:
        names = {BackEndName(service_name(each), end.ip, end.port) for end in each.back_ends}
        if names <= after and not names <= before:
            what = "all of them are used" if each.panic_when_all_down else "new connections are refused"
            self.log.error("load balancer %s: all back ends are down; %s", each.id, what)

    def _compiled(self, wanted: Wanted, neighbours: Mapping[tuple[int, Address], int]) -> Tables:
        services = _as_services(wanted)
        made = compile_services(
            self.local, services.services, down=services.closed, before=self._numbering, neighbours=neighbours,
            generation=0,
        )  # fmt: skip
        self._made = made
        found: Any = made.tables
        return found

    def _publish(self, tables: Tables) -> None:
        rows = set(self._numbering.services.values())
        self._write_slots({row: slots for row, slots in self._made.slots.items() if row not in rows})
        self._numbering = self._made.numbering
        super()._publish(tables)

    async def _published(self) -> None:
        """Write the slots that differ, once the tables with the new back ends are in use."""
        while self.supervisor.forwards() and self.supervisor.shared.words[Word.IN_USE] < self._generation:
            await asyncio.sleep(POLL_S)
        self._write_slots(self._made.slots)

    def _write_slots(self, wanted: Mapping[int, Any]) -> None:
        slots = self.supervisor.kept.arrays["slots"]
        for row, each in wanted.items():
            self._slots_written += int(write_changes(slots[row], each))

    def _directory(self, wanted: Wanted) -> Directory:
        return _Directory(self.local, wanted.network, wanted.work.duty)

    def _from_state(self, state: Any) -> dict[str, Any]:
        rows = len(state.words)
        counts = state.counters[Count.STATES + HALF_OPEN : Count.STATES + STREAM + 1].tolist()
        tables = {
            f"connections_{name}": Occupancy(used=used, room=rows) for name, used in zip(STATES, counts, strict=True)
        }
        return {"tables": tables, "gave_way": int(state.counters[Count.DISPLACED])}

    def counts(self) -> dict[str, int]:
        """Return the counters of connections by name."""
        state = self.supervisor.state()
        counters = state.counters[: Count.STATES].tolist() if state is not None else [0] * Count.STATES
        return {**{each.name.lower(): counters[each] for each in COUNTED}, "slots_written": self._slots_written,
                "silenced": self._silent.closings}  # fmt: skip

    def services_status(self) -> dict[str, Any]:
        """Return counters of connections, and the state of every back end, as JSON values."""
        wanted = self.wanted
        return {
            "balancer": {
                **self.counts(),
                "services": [_service_status(each, wanted) for each in wanted.services.balancers],
            }
        }


def _service_status(each: LoadBalancer, wanted: WantedServices) -> dict[str, Any]:
    names, closed = [BackEndName(service_name(each), end.ip, end.port) for end in each.back_ends], wanted.closed
    ends = [
        {"ip": str(end.ip), "port": end.port, "weight": end.weight, "draining": end.draining,
         "up": name not in closed, "silent": name in wanted.silent}
        for name, end in zip(names, each.back_ends, strict=True)
    ]  # fmt: skip
    return {"id": each.id, "vpc": each.vpc, "vip": str(each.vip), "port": each.port,
            "protocol": each.protocol.value, "mode": each.mode.value, "back_ends": ends}  # fmt: skip


def _text(name: BackEndName) -> str:
    service = name.service
    return f"back end {name.ip} port {name.port} of {service.vpc} {service.vip} port {service.port}"


def _as_services(wanted: Wanted) -> WantedServices:
    assert isinstance(wanted, WantedServices)
    return wanted
