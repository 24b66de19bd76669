"""Take the leader's key, which at most one controller of a fabric has, and write under it.

Each transaction of a term requires that the leader's key is still the one of this term, and that the transaction before
it was the last one: a request that was delayed on its way, or is sent twice, changes nothing. The journal's identity is
a condition too: a write that reaches another etcd changes nothing there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.controller.runtime.ports import FencedError
from heddle.controller.store.etcd.client import EtcdClient, ForeignEtcdError
from heddle.controller.store.etcd.identity.record import Record, encoded, generation
from heddle.controller.store.etcd.keys import Keys, created_at, get, holds, put
from heddle.controller.store.etcd.proto import etcd_pb2 as pb

TRIES = 4
"""Transactions whose fate was unknown may still be applied between ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The controller that leads: its name and where clients reach it (gRPC)."""

    name: str
    address: str


class Term:
    """One controller's time as the leader. `revision` names it, and grows from term to term.

    `record` None is for commands and tests, which use whichever journal is there.
    """

    def __init__(
        self, client: EtcdClient, keys: Keys, revision: int, lease: int, record: Record | None = None
    ) -> None:  # fmt: skip
        self.revision, self._record = revision, record
        self._client, self._keys, self._lease = client, keys, lease
        self.is_over = False
        """Set by the controller when it no longer leads, by its own clock."""
        self._number = 0
        self._last = _token(lease, 0)

    async def write(self, operations: Sequence[pb.RequestOp]) -> None:
        """Apply operations as one transaction, once; raises FencedError where the term is over, and EtcdError."""
        if self.is_over:
            raise FencedError(f"{self._client.place}: this controller no longer leads")
        self._number += 1
        token = _token(self._lease, self._number)
        for _ in range(TRIES):
            reply = await self._client.txn(
                pb.TxnRequest(
                    compare=[
                        created_at(self._keys.leader, self.revision),
                        holds(self._keys.sequence, self._last),
                        *_identity(self._keys, self._record),
                    ],
                    success=[*operations, put(self._keys.sequence, token)],
                    failure=[get(self._keys.leader), get(self._keys.sequence)],
                )
            )
            self._last = token if reply.succeeded else self._found(reply)
            if self._last == token:
                return
        raise FencedError(f"{self._client.place}: another program writes {self._keys.sequence.decode()}")

    def generation(self, epoch: int) -> int:
        """Return the generation of this term."""
        return generation(epoch, self.revision, self._record)

    async def check(self) -> None:
        """Check that the term lasts; raises FencedError."""
        self._require((await self._client.range(self._keys.leader)).found)

    def _found(self, reply: pb.TxnResponse) -> bytes:
        """Return the last transaction's token, which may be one that had no reply."""
        self._require(reply.responses[0].response_range.kvs)
        return bytes(reply.responses[1].response_range.kvs[0].value)

    def _require(self, found: Sequence[pb.KeyValue]) -> None:
        if not found or found[0].create_revision != self.revision:
            leads = f"{leader_in(found[0].value).name} leads now" if found else "its lease has ended"
            raise FencedError(f"{self._client.place}: this controller no longer leads: {leads}")


async def take(
    client: EtcdClient, keys: Keys, lease: int, leader: Leader, journal: Record | None = None
) -> Term | Leader:  # fmt: skip
    """Begin a term, or return the controller that leads; raises EtcdError, ForeignEtcdError for another journal."""
    record = json.dumps({"name": leader.name, "address": leader.address}).encode()
    reply = await client.txn(
        pb.TxnRequest(
            compare=[created_at(keys.leader, 0), *_identity(keys, journal)],
            success=[put(keys.leader, record, lease), put(keys.sequence, _token(lease, 0))],
            failure=[get(keys.leader)],
        )
    )
    if reply.succeeded:
        return Term(client, keys, reply.header.revision, lease, journal)
    if not reply.responses[0].response_range.kvs:
        raise ForeignEtcdError(f"{client.place}: another journal is there now")
    (found,) = reply.responses[0].response_range.kvs
    if found.lease == lease:  # ours, by a request that had no reply
        return Term(client, keys, found.create_revision, lease, journal)
    return leader_in(found.value)


def leader_in(record: bytes) -> Leader:
    """Return what a leader's key holds."""
    found = json.loads(record)
    return Leader(name=str(found["name"]), address=str(found["address"]))


def _identity(keys: Keys, record: Record | None) -> list[pb.Compare]:
    """Return the condition that the journal is the one that this controller uses."""
    return [] if record is None else [holds(keys.cluster, encoded(record))]


def _token(lease: int, number: int) -> bytes:
    return b"%x.%d" % (lease, number)
