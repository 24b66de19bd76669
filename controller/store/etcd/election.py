"""Elect the leader of a fabric's controllers: the one that has created the leader's key leads while its lease lasts."""

import asyncio
import logging
from contextlib import aclosing, suppress

from heddle.controller.model.lease_clock import granted
from heddle.controller.runtime.leadership import Leadership
from heddle.controller.store.etcd.candidacy import Candidacy
from heddle.controller.store.etcd.client import (
    CompactedError,
    EtcdClient,
    EtcdError,
    EtcdUnavailableError,
    ForeignEtcdError,
)
from heddle.controller.store.etcd.identity.recognition import Recognition
from heddle.controller.store.etcd.keys import Keys, get
from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from heddle.controller.store.etcd.term import Leader, Term, leader_in, take

POLL_S = 0.5
"""The leader's key is read so often, beside the watch: a member that is cut off from the others reports no change."""
RETRY_S = 0.2
NS = 1_000_000_000
_LOG = logging.getLogger("heddle.cluster")


class Election:
    """One controller's part in the election."""

    def __init__(
        self, client: EtcdClient, keys: Keys, me: Leader, leadership: Leadership, lease_s: int, candidacy: Candidacy,
        recognition: Recognition,
    ) -> None:  # fmt: skip
        self._client, self._keys, self._me, self._leadership = client, keys, me, leadership
        self._candidacy, self._recognition = candidacy, recognition
        self._lease_s = lease_s
        self._lease = 0
        self._is_reachable = True

    async def won(self) -> Term:
        """Wait until this controller leads."""
        while True:
            try:
                term = await self._attempt()
                if not self._is_reachable:
                    _LOG.info("%s replies again", self._client.place)
                self._is_reachable = True
            except EtcdError as error:
                self._leadership.leader = ""
                if isinstance(error, ForeignEtcdError):
                    self._recognition.doubt()
                if self._is_reachable:
                    _LOG.error("%s; this controller waits", error)
                self._is_reachable = False
                await asyncio.sleep(RETRY_S)
                continue
            if isinstance(term, Term):
                self._leadership.leader = self._me.address
                _LOG.info("%s leads: term %d", self._me.name, term.revision)
                return term

    async def kept(self) -> str:
        """Keep the lease until it ends; return why it has."""
        leadership = self._leadership
        while (lease := leadership.lease) is not None and lease.holds(now_ns := leadership.now_ns()):
            await asyncio.sleep(max(0, lease.next_ns - now_ns) / NS)
            left_s = (lease.ends_ns - leadership.now_ns()) / NS
            try:
                sent_ns, ttl_s = await self._client.keep_alive(self._lease, left_s, leadership.now_ns)
            except EtcdUnavailableError as error:
                _LOG.warning("the lease is not kept: %s", error)
                continue
            except EtcdError as error:
                return f"etcd refuses to keep the lease: {error}"
            if not ttl_s:
                return "etcd has ended the lease"
            leadership.lease = lease.kept(sent_ns, ttl_s * NS, leadership.now_ns())
        return "the lease has ended by this controller's clock: etcd did not reply in time, or the process was stopped"

    async def resign(self) -> None:
        """Let another controller lead at once, if etcd replies."""
        if self._lease:
            await self._client.revoke(self._lease, self._lease_s)

    async def _attempt(self) -> Term | None:
        """Take the leader's key where there is none, in our etcd, and the fabric file fits.

        Else wait for a change, up to POLL_S.
        """
        if not await self._recognition.holds():
            self._leadership.leader = ""
            await asyncio.sleep(RETRY_S)
            return None
        both = pb.TxnRequest(success=[get(self._keys.leader), get(self._keys.cluster)])
        reply = await self._client.txn(both)
        revision, (found, record) = reply.header.revision, (each.response_range.kvs for each in reply.responses)
        if not self._recognition.is_of(record):
            self._recognition.doubt()
            await asyncio.sleep(RETRY_S)
            return None
        if found:
            self._see(leader_in(found[0].value))
            await self._candidacy.look()
            await self._changed(revision + 1)
            return None
        if not await self._candidacy.stands():
            self._leadership.leader = ""
            await self._changed(revision + 1)
            return None
        sent_ns = self._leadership.now_ns()
        lease = await self._client.grant(self._lease_s)
        self._lease = lease.id
        term = await take(self._client, self._keys, lease.id, self._me, self._recognition.record)
        if isinstance(term, Term):
            self._leadership.lease = granted(sent_ns, lease.ttl_s * NS)
            return term
        self._see(term)
        await self._client.revoke(lease.id)
        return None

    def _see(self, leader: Leader) -> None:
        if leader.address != self._leadership.leader:
            _LOG.info("%s at %s leads", leader.name, leader.address)
        self._leadership.leader = leader.address

    async def _changed(self, revision: int) -> None:
        with suppress(TimeoutError, CompactedError):
            async with asyncio.timeout(POLL_S), aclosing(self._client.watch(self._keys.leader, b"", revision)) as watch:
                await anext(watch)
