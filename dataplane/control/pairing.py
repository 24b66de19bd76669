"""Run one gateway of a pair: heartbeats decide which roles it serves, and connections are replicated both ways.

The heartbeat thread queues its decisions, and this module carries them out in order, so that an address is announced
only once packets for it are forwarded.
"""

import asyncio
import logging
import time

from heddle.dataplane.config.pair import PairConfig
from heddle.dataplane.control.gateway import Gateway
from heddle.dataplane.control.heartbeats import Heartbeats
from heddle.dataplane.control.pair.duties import roles_of, work_of
from heddle.dataplane.control.pair.ownership import Announce, Serve
from heddle.dataplane.control.record_links import RecordLinks
from heddle.dataplane.control.status import PairStatus
from heddle.dataplane.elements.memory.exchange import ControlEnd

log = logging.getLogger("heddle.gateway")


class Pairing:
    """High availability of one gateway with its partner."""

    def __init__(self, gateway: Gateway, pair: PairConfig) -> None:
        """Open the heartbeats' sockets; raises OSError if an address is not local or already in use."""
        self._gateway, self._pair = gateway, pair
        self._loop = asyncio.get_running_loop()
        self._decisions: asyncio.Queue[Serve | Announce] = asyncio.Queue()
        self._carried_out = frozenset[str]()
        me = gateway.local.gateway_id
        self._heartbeats = Heartbeats(me, pair, time.time_ns(), self._decided, lambda: self._links.given_ns)
        self._records = ControlEnd(gateway.supervisor.shared.exchange)
        self._links = RecordLinks(me, pair, self._records, self._heartbeats.set_copied, gateway.activity)
        gateway.pair_status = self.status
        gateway.slow.awaits_copy = self._awaits_copy
        gateway.may_act = self._may_act

    def status(self) -> PairStatus:
        """Return a snapshot of roles, heartbeats and replication."""
        ownership, links, counted = self._heartbeats.status, self._links, self._links.counters
        return PairStatus(
            partner_id=self._pair.partner_id,
            mode=self._pair.mode.value,
            shares=tuple(sorted(roles_of(self._gateway.local.gateway_id, self._pair))),
            serves=tuple(sorted(ownership.holds)),
            partner_serves=tuple(sorted(ownership.partner_holds)),
            hears_partner=ownership.hears_partner,
            has_copy=links.has_copy,
            partner_has_copy=links.partner_has_copy,
            takeovers=ownership.takeovers,
            conflicts=ownership.conflicts,
            heartbeats_ignored=ownership.ignored,
            heartbeats_refused=ownership.refused,
            records_sent=counted.sent_records,
            records_received=counted.received_records,
            records_refused=self._records.refused(),
            copies_begun=counted.connections,
            copies_anew=counted.overflows,
            stalls=counted.stalls,
            faults=counted.faults,
        )

    def _awaits_copy(self) -> bool:
        """Whether the partner, which serves or may serve as well, may have connections that are yet to be copied."""
        return self._heartbeats.status.partner_may_serve

    def _may_act(self) -> bool:
        """Return whether the gateway may send from the addresses that it has now.

        Not before heartbeats were read after a suspension, nor before their decision is carried out: the partner may
        serve these addresses, and who hears from them here would send here.
        """
        status, limit_ns = self._heartbeats.status, self._pair.missed * self._pair.interval_ms * 1_000_000
        return status.holds == self._carried_out and time.monotonic_ns() - status.turned_ns <= limit_ns

    async def run(self) -> None:
        """Run until cancelled; raises OSError if the replication address cannot be bound."""
        self._heartbeats.start()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._links.run())
            tasks.create_task(self._carry_out())
            tasks.create_task(self._report_health())

    async def leave(self) -> None:
        """Hand the roles held over to the partner, if it is up, and stop."""
        await asyncio.to_thread(self._heartbeats.stop)

    def _decided(self, decision: Serve | Announce) -> None:
        """Queue a decision; called in the heartbeat thread."""
        self._loop.call_soon_threadsafe(self._decisions.put_nowait, decision)

    async def _carry_out(self) -> None:
        while True:
            decision = await self._decisions.get()
            if isinstance(decision, Announce):
                self._gateway.send(self._gateway.slow.announcements())
                continue
            work = work_of(self._gateway.local, self._pair, decision.roles)
            generation = self._gateway.set_work(work)
            self._carried_out = decision.roles
            await self._gateway.in_use(generation)
            log.info("serves %s", ", ".join(sorted(decision.roles)) or "nothing: the partner does")

    async def _report_health(self) -> None:
        """Have the partner take over while the data process is down or hangs.

        A data process that hangs may resume, and must not cost a connection: the partner takes over only if it has a
        complete copy.
        """
        supervisor, well = self._gateway.supervisor, None
        ends, given_up = supervisor.ends, False
        while True:
            supervisor.changed.clear()
            if supervisor.ends != ends:
                ends = supervisor.ends
                self._links.restart()  # first: a new data process has no copy, so this gateway must not request roles
            if supervisor.hangs and not given_up and self._links.partner_has_copy:
                log.warning("the data process hangs: requesting the partner to take over")
                given_up = True
            given_up = given_up and supervisor.hangs
            if (is_well := supervisor.forwards() and not given_up) != well:
                well = is_well
                self._heartbeats.set_health(is_well)
            await supervisor.changed.wait()
