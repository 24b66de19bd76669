"""Recognise the etcd that has the journal before a controller stands for election, and whenever that is in doubt."""

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from heddle.controller.runtime.leadership import Leadership
from heddle.controller.store.etcd.client import EtcdClient, EtcdError
from heddle.controller.store.etcd.guard import Guard
from heddle.controller.store.etcd.identity.judge import Foreign, Ours, Seen, judged, others
from heddle.controller.store.etcd.identity.memory import Memory
from heddle.controller.store.etcd.identity.record import JOURNAL_BYTES, Known, Record, decoded, encoded
from heddle.controller.store.etcd.keys import FIRST_EPOCH, Keys, created_at, get, put
from heddle.controller.store.etcd.proto import etcd_pb2 as pb

WATCH_S = 30.0
FIRST_S, LONGEST_S = 0.5, 4.0
"""Members have so long to reply at first; twice as long each time that none has."""
_LOG = logging.getLogger("heddle.cluster")


class Recognition:
    """One controller's view of which etcd is its own. Used in one event loop."""

    def __init__(self, client: EtcdClient, keys: Keys, memory: Memory, leadership: Leadership) -> None:
        self._client, self._keys, self._memory, self._leadership = client, keys, memory, leadership
        self._within_s, self._epoch = FIRST_S, FIRST_EPOCH
        self._why = ""
        self._others: tuple[str, ...] = ()
        self.record: Record | None = None
        """The journal that this controller uses; None while that is in doubt."""

    async def holds(self) -> bool:
        """Return whether the etcd is known to be ours, and record why not; raises EtcdError."""
        if self.record is not None:
            return True
        known = self._memory.known(self._client.endpoints)
        seen = await surveyed(self._client, self._keys, self._within_s)
        if not seen:
            self._within_s = min(2 * self._within_s, LONGEST_S)
            await self._client.range(self._keys.cluster)  # raises what keeps them from replying
            return False
        found = judged(seen, known, self._keys.fabric, self._client.endpoints)
        if isinstance(found, Foreign):
            self._refuse(found.why)
            return False
        self._name_others(found.others)
        self._client.guard = Guard(found.cluster, found.revision)
        if found.record is None:
            await self._begin(found)
            return False
        self._accept(found.record, found.epoch)
        return True

    def is_of(self, found: Sequence[pb.KeyValue]) -> bool:
        """Return whether what the key holds now is the journal that this controller uses."""
        return self.record is not None and [each.value for each in found] == [encoded(self.record)]

    def doubt(self) -> None:
        """Recognise the etcd again before the next election."""
        self.save()
        self.record = self._client.guard = None

    async def watch(self) -> NoReturn:
        """Compare every member from time to time, also those that no call goes to: a foreign one is named early."""
        while True:
            await asyncio.sleep(WATCH_S)
            guard = self._client.guard
            with suppress(EtcdError):
                seen = await surveyed(self._client, self._keys, LONGEST_S)
                if guard is not None and guard is self._client.guard:
                    self._name_others(others(seen, guard.cluster))

    def save(self) -> None:
        """Remember how far the history has come."""
        record, guard = self.record, self._client.guard
        if record is None or guard is None:
            return
        known = Known(
            cluster=record.cluster, journal=record.journal, revision=guard.revision,
            endpoints=tuple(self._client.endpoints), epoch=self._epoch,
        )  # fmt: skip
        try:
            self._memory.remember(known)
        except OSError as error:
            _LOG.warning("the etcd that is used is remembered until this controller ends only: %s", error)

    async def _begin(self, found: Ours) -> None:
        """Write the identity of a journal that has none; another controller may be first."""
        record = Record(cluster=found.cluster, journal=secrets.token_hex(JOURNAL_BYTES))
        absent = [created_at(self._keys.cluster, 0)]
        await self._client.txn(pb.TxnRequest(compare=absent, success=[put(self._keys.cluster, encoded(record))]))
        self._client.guard = None
        if (before := self._memory.elsewhere(self._client.endpoints)) is not None:
            _LOG.warning(
                "%s: a journal begins there with nothing of the one before, %s in etcd at %s",
                self._client.place, before.journal, ", ".join(before.endpoints),
            )  # fmt: skip

    def _accept(self, record: Record, epoch: int) -> None:
        if self._why and self._leadership.why_unfit == self._why:
            self._leadership.why_unfit = ""
        self._why, self._within_s, self.record, self._epoch = "", FIRST_S, record, epoch
        _LOG.info("%s: journal %s, etcd cluster %x", self._client.place, record.journal, record.cluster)
        self.save()

    def _refuse(self, why: str) -> None:
        self._leadership.why_unfit = f"{self._client.place}: {why}"
        if self._why != self._leadership.why_unfit:
            _LOG.error("this controller does not stand for election: %s", self._leadership.why_unfit)
        self._why = self._leadership.why_unfit

    def _name_others(self, others: tuple[str, ...]) -> None:
        if others != self._others:
            for line in others:
                _LOG.error("%s", line)
        self._others = others


async def surveyed(client: EtcdClient, keys: Keys, within_s: float) -> list[Seen]:
    """Return what each member has of a fabric that replies within a time; raises EtcdError for a damaged record."""
    request = pb.TxnRequest(success=[get(keys.cluster), get(keys.sequence), get(keys.epoch)])
    replies: Mapping[str, pb.TxnResponse] = await client.survey(request, within_s)
    return [_seen(endpoint, reply) for endpoint, reply in replies.items()]


def _seen(endpoint: str, reply: pb.TxnResponse) -> Seen:
    record, sequence, epoch = (each.response_range.kvs for each in reply.responses)
    try:
        found = decoded(record[0].value) if record else None
    except ValueError as why:
        raise EtcdError(f"{endpoint}: {record[0].key.decode()}: {why}; delete it by etcdctl") from None
    return Seen(
        endpoint=endpoint, cluster=reply.header.cluster_id, revision=reply.header.revision, record=found,
        has_keys=bool(sequence or epoch), epoch=int(epoch[0].value) if epoch else FIRST_EPOCH,
    )  # fmt: skip
