"""One gateway of a pair at work: heartbeats decide what it serves, and connections are copied both ways.

The heartbeats' thread says what to do; it is done here one after the other, so that the neighbourhood is told of an
address only once packets for it are forwarded.
"""

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial

from dataplane.config.pair import PairConfig
from dataplane.control.gateway import Gateway, Wanted
from dataplane.control.heartbeats import Heartbeats, PairStatus
from dataplane.control.pair.duties import Work, work_of
from dataplane.control.pair.ownership import Announce, Serve
from dataplane.control.record_links import RecordLinks
from dataplane.gateway.exchange import ControlEnd

LOOK_S = 0.05
"""How often the data process is looked after: a gateway whose own is gone lets its partner take over."""

log = logging.getLogger("heddle.gateway")


def _with_work(work: Work, wanted: Wanted) -> Wanted:
    return replace(wanted, work=work)


class Pairing:
    """The partner of a gateway, as long as `run` runs."""

    def __init__(self, gateway: Gateway, pair: PairConfig) -> None:
        """Open the heartbeats' sockets; raises OSError where an address is not this machine's, or taken."""
        self._gateway, self._pair = gateway, pair
        self._loop = asyncio.get_running_loop()
        self._orders: asyncio.Queue[Serve | Announce] = asyncio.Queue()
        me = gateway.local.gateway_id
        self._heartbeats = Heartbeats(me, pair, time.time_ns(), self._reported)
        records = ControlEnd(gateway.supervisor.shared.exchange)
        self._links = RecordLinks(me, pair, records, self._heartbeats.told_copied)

    @property
    def status(self) -> PairStatus:
        """How the pair stands."""
        return self._heartbeats.status

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
            generation = await self._gateway.serve(partial(_with_work, work))
            await self._gateway.in_use(generation)
            log.info("serves %s", ", ".join(sorted(order.shares)) or "nothing: the partner does")

    async def _look_after_data_process(self) -> None:
        well, restarts = None, self._gateway.supervisor.restarts
        while True:
            runs = self._gateway.supervisor.pid() != 0 and self._gateway.supervisor.ready is not None
            if runs != well:
                well = runs
                self._heartbeats.told_health(runs)
            if self._gateway.supervisor.restarts != restarts:
                restarts = self._gateway.supervisor.restarts
                self._links.restart()
            await asyncio.sleep(LOOK_S)
