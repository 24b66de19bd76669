"""Decide whether this controller stands for election: with the fabric in force, and where that fits the jobs.

The journal says which fabric is in force; the file of each controller is its seed alone. One that has another fabric
begins again with that in force (`OwnFile.follow`). A journal of before fabrics were kept has none: a leader with a file
that does not fit its jobs would have to end at once, or lead running flows over other paths, so it does not stand.
Between this check and the election another controller may lead and end, so the leader checks again what it reads.
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
    """The fabric of this controller beside a journal, whose `key` is the fabric in force.

    Both functions are called in a thread, with the values of a journal. `follow` raises what ends this controller where
    another fabric is in force, and ValueError where that is damaged. `why_unfit(values, place)` returns why the fabric
    does not fit its jobs, "" where it does.
    """

    key: Key
    follow: Callable[[Mapping[Key, bytes]], None]
    why_unfit: Callable[[Mapping[Key, bytes], str], str]


class Candidacy:
    """One controller's file beside the journal. Used in one event loop."""

    def __init__(self, client: EtcdClient, keys: Keys, own: OwnFile, leadership: Leadership) -> None:
        self._client, self._keys, self._own, self._leadership = client, keys, own, leadership
        self._looked_ns: int | None = None
        self._fits_at = 0
        """The revision of the fabric in force that this controller was found to have."""

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
        found = (await self._client.range(self._keys.part(*self._own.key, 0), keys_only=True)).found
        revision = found[0].mod_revision if found else 0
        if revision and revision == self._fits_at:
            return ""
        found = (await self._client.range(self._keys.root, prefix_end(self._keys.root))).found
        try:
            stored = contents.whole(self._keys, found, self._client.place)
        except InputError:
            return ""  # a key that is none of ours: the one that leads next says so
        with contextlib.suppress(ValueError):  # likewise
            await asyncio.to_thread(self._own.follow, stored)
        why = await asyncio.to_thread(self._own.why_unfit, stored, self._client.place)
        self._fits_at = revision if not why else 0
        return why
