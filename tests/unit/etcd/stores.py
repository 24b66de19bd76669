"""Open a journal in SQLite or in etcd, for tests that hold for both; in etcd each opening is a term of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heddle.controller.runtime.ports import StateStore
from heddle.controller.store.etcd.client import EtcdClient
from heddle.controller.store.etcd.journal import EtcdStore
from heddle.controller.store.etcd.keys import Keys, delete
from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from heddle.controller.store.etcd.term import Leader, Term, take
from heddle.controller.store.journal import SqliteStore

CALL_S = 60


class EtcdOpener:
    """A client in an event loop of its own, in a thread."""

    def __init__(self, endpoints, fabric):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.keys = Keys(fabric)
        self.fenced = []
        self.client = self.run(self._made(endpoints))

    async def _made(self, endpoints):
        return EtcdClient(endpoints)

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_S)

    def open(self) -> EtcdStore:
        """Take over from whichever leader there is."""

        async def taken() -> Term:
            await self.resign()
            lease = await self.client.grant(60)
            term = await take(self.client, self.keys, lease.id, Leader(name="test", address=""))
            assert isinstance(term, Term)
            return term

        return EtcdStore(self.client, self.keys, self.run(taken()), self.loop, self.fenced.append)

    async def resign(self) -> None:
        await self.client.txn(pb.TxnRequest(success=[delete(self.keys.leader)]))

    def close(self) -> None:
        self.run(self.client.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_S)
        self.loop.close()


@contextmanager
def etcd_opener(endpoints, fabric) -> Iterator[EtcdOpener]:
    opener = EtcdOpener(endpoints, fabric)
    try:
        yield opener
    finally:
        opener.close()


@contextmanager
def sqlite_opener(path) -> Iterator[Callable[[], StateStore]]:
    opened: list[SqliteStore] = []

    def reopened() -> StateStore:
        for each in opened:
            each.close()
        opened.append(SqliteStore(path))
        return opened[-1]

    try:
        yield reopened
    finally:
        for each in opened:
            each.close()
