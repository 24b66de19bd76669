"""One controller of several: it waits until it leads, keeps its lease, and has the journal of its term."""

import asyncio
from typing import NoReturn

from heddle.controller.runtime.leadership import ClusterCounts, Leadership
from heddle.controller.store.etcd.candidacy import Candidacy, OwnFile
from heddle.controller.store.etcd.client import EtcdClient
from heddle.controller.store.etcd.election import Election
from heddle.controller.store.etcd.identity.memory import Memory
from heddle.controller.store.etcd.identity.recognition import Recognition
from heddle.controller.store.etcd.journal import EtcdStore
from heddle.controller.store.etcd.keys import Keys
from heddle.controller.store.etcd.term import Leader, Term


class ClusterMember:
    """Used in one event loop, for one term at most."""

    def __init__(
        self, client: EtcdClient, fabric: str, me: Leader, leadership: Leadership, own: OwnFile, memory: Memory, *,
        lease_s: int, counts: ClusterCounts,
    ) -> None:  # fmt: skip
        """Create it; `client` is closed with it."""
        self._client, self._counts, self._keys = client, counts, Keys(fabric)
        self._leadership = leadership
        candidacy = Candidacy(self._client, self._keys, own, leadership)
        self._recognition = Recognition(client, self._keys, memory, leadership)
        self._election = Election(self._client, self._keys, me, leadership, lease_s, candidacy, self._recognition)
        self._term: Term | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[NoReturn] | None = None

    async def won(self) -> EtcdStore:
        """Wait until this controller leads; return the journal of its term. From now on the lease is kept."""
        self._watching = asyncio.create_task(self._recognition.watch())
        self._term = await self._election.won()
        self._counts.takeovers += 1
        self._keeping = asyncio.create_task(self._keep())
        running = asyncio.get_running_loop()
        return EtcdStore(self._client, self._keys, self._term, running, self._refused)

    def _refused(self, why: str) -> None:
        self._counts.refused_writes += 1
        self._leadership.end(why)

    async def close(self) -> None:
        """Let another controller lead, and close the connections."""
        self._leadership.end("the controller ends")
        self._end_term()
        for task in (self._keeping, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._recognition.save()
        await self._election.resign()
        await self._client.close()

    async def _keep(self) -> None:
        keeping = asyncio.create_task(self._election.kept())
        over = asyncio.create_task(self._leadership.over())
        try:
            await asyncio.wait({keeping, over}, return_when=asyncio.FIRST_COMPLETED)
            self._leadership.end(keeping.result() if keeping.done() else self._leadership.why_over)
            self._end_term()
        finally:
            for task in (keeping, over):
                task.cancel()

    def _end_term(self) -> None:
        if self._term is not None:
            self._term.is_over = True
