"""Decide whether this controller stands for election: not while its fabric file does not fit the jobs in the journal.

A leader with such a file would have to end at once, or lead running flows over other paths. What ports mean by the own
file and by the journal is compared first; the jobs are read only where that differs. Between this check and the
election another controller may lead and end, so the leader checks again what it reads.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heddle.controller.model.error import InputError
from heddle.controller.runtime.leadership import Leadership
from heddle.controller.store.etcd import contents
from heddle.controller.store.etcd.client import EtcdClient, prefix_end
from heddle.controller.store.etcd.contents import Key
from heddle.controller.store.etcd.keys import Keys

LOOK_NS = 2_000_000_000
"""While another controller leads, the file is compared so often: the reason is shown before it is needed."""
_LOG = logging.getLogger("heddle.cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFile:
    """The fabric file of this controller: it fits where `is_same` of the journal's `key`, else by `why_unfit` of all.

    Both are called in a thread. `is_same` may raise ValueError; `why_unfit(values, place)` returns "" for a file that
    fits.
    """

    key: Key
    is_same: Callable[[Mapping[Key, bytes]], bool]
    why_unfit: Callable[[Mapping[Key, bytes], str], str]


class Candidacy:
    """One controller's file beside the journal. Used in one event loop."""

    def __init__(self, client: EtcdClient, keys: Keys, own: OwnFile, leadership: Leadership) -> None:
        self._client, self._keys, self._own, self._leadership = client, keys, own, leadership
        self._looked_ns: int | None = None

    async def look(self) -> None:
        """Compare while another controller leads, from time to time; raises EtcdError."""
        now_ns = self._leadership.now_ns()
        if self._looked_ns is None or now_ns - self._looked_ns >= LOOK_NS:
            self._looked_ns = now_ns
            await self.stands()

    async def stands(self) -> bool:
        """Return whether the file fits the journal as it is now, and record why not; raises EtcdError."""
        why, before = await self._why_unfit(), self._leadership.why_unfit
        if why and why != before:
            _LOG.error("this controller does not stand for election: %s", why)
        elif before and not why:
            _LOG.info("this controller stands for election: its fabric file fits the jobs that run")
        self._leadership.why_unfit = why
        return not why

    async def _why_unfit(self) -> str:
        first = self._keys.part(*self._own.key, 0)
        parts = (await self._client.range(first, prefix_end(first[: first.rindex(b"/") + 1]))).found
        described = {self._own.key: b"".join(part.value for part in parts)} if parts else {}
        with contextlib.suppress(ValueError):  # the one that leads next says so
            if await asyncio.to_thread(self._own.is_same, described):
                return ""
        found = (await self._client.range(self._keys.root, prefix_end(self._keys.root))).found
        try:
            stored = contents.whole(self._keys, found, self._client.place)
        except InputError:
            return ""  # a key that is none of ours: the one that leads next says so
        return await asyncio.to_thread(self._own.why_unfit, stored, self._client.place)
