"""One gateway of a pair at work: heartbeats decide what it serves, and connections are copied both ways.

The heartbeats' thread says what to do; it is done here one after the other, so that the neighbourhood is told of an
address only once packets for it are forwarded.
"""

import asyncio
import logging
import time

from dataplane.config.pair import PairConfig
from dataplane.control.gateway import Gateway
from dataplane.control.heartbeats import Heartbeats
from dataplane.control.pair.duties import shares_of, work_of
from dataplane.control.pair.ownership import Announce, Serve
from dataplane.control.record_links import RecordLinks
from dataplane.control.status import PairLook
from dataplane.gateway.memory.exchange import ControlEnd

log = logging.getLogger("heddle.gateway")


class Pairing:
    """The partner of a gateway, as long as `run` runs."""

    def __init__(self, gateway: Gateway, pair: PairConfig) -> None:
        """Open the heartbeats' sockets; raises OSError where an address is not this machine's, or taken."""
        self._gateway, self._pair = gateway, pair
        self._loop = asyncio.get_running_loop()
        self._orders: asyncio.Queue[Serve | Announce] = asyncio.Queue()
        me = gateway.local.gateway_id
        self._heartbeats = Heartbeats(me, pair, time.time_ns(), self._reported)
        self._records = ControlEnd(gateway.supervisor.shared.exchange)
        self._links = RecordLinks(me, pair, self._records, self._heartbeats.told_copied, gateway.news)
        gateway.look_at_pair = self.look

    def look(self) -> PairLook:
        """Return how the pair stands."""
        beats, links, counted = self._heartbeats.status, self._links, self._links.counters
        return PairLook(
            partner_id=self._pair.partner_id,
            mode=self._pair.mode.value,
            shares=tuple(sorted(shares_of(self._gateway.local.gateway_id, self._pair))),
            serves=tuple(sorted(beats.holds)),
            partner_serves=tuple(sorted(beats.partner_holds)),
            hears_partner=beats.hears_partner,
            has_copy=links.has_copy,
            partner_has_copy=links.partner_has_copy,
            takeovers=beats.takeovers,
            conflicts=beats.conflicts,
            heartbeats_ignored=beats.ignored,
            heartbeats_refused=beats.refused,
            records_sent=counted.sent_records,
            records_received=counted.received_records,
            records_refused=self._records.refused(),
            copies_begun=counted.connections,
            copies_anew=counted.overflows,
            stalls=counted.stalls,
            faults=counted.faults,
        )

    async def run(self) -> None:
        """Take part until cancelled; raises OSError where the address for copies cannot be listened at."""
        self._heartbeats.start()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._links.run())
            tasks.create_task(self._obey())
            tasks.create_task(self._look_after_data_process())

    async def leave(self) -> None:
        """Hand over what is held, if the partner is there, and stop."""
        await asyncio.to_thread(self._heartbeats.stop)

    def _reported(self, order: Serve | Announce) -> None:
        """Take an order; called in the heartbeats' thread."""
        self._loop.call_soon_threadsafe(self._orders.put_nowait, order)

    async def _obey(self) -> None:
        while True:
            order = await self._orders.get()
            if isinstance(order, Announce):
                self._gateway.send(self._gateway.slow.announcements())
                continue
            work = work_of(self._gateway.local, self._pair, order.shares)
            await self._gateway.in_use(self._gateway.take_up(work))
            log.info("serves %s", ", ".join(sorted(order.shares)) or "nothing: the partner does")

    async def _look_after_data_process(self) -> None:
        """Tell the partner when it should serve in our place.

        One that hangs may go on in a moment, so it is not worth a connection: the partner has to know them all.
        """
        supervisor, well = self._gateway.supervisor, None
        ends, given_up = supervisor.ends, False
        while True:
            supervisor.changed.clear()
            if supervisor.ends != ends:
                ends = supervisor.ends
                self._links.restart()  # first: what begins anew has no copy, and should ask for nothing
            if supervisor.hangs and not given_up and self._links.partner_has_copy:
                log.warning("the data process does nothing: the partner is asked to take over")
                given_up = True
            given_up = given_up and supervisor.hangs
            if (is_well := supervisor.forwards() and not given_up) != well:
                well = is_well
                self._heartbeats.told_health(is_well)
            await supervisor.changed.wait()
