"""Verify attached gateways and balancers: soon after each change, and again from time to time.

Tables are read over the gateway's session, as `heddle verify isolation` reads them, and verified in a process.
One gateway is verified at a time, and the next after a pause as long as that took.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.brain.virtual_networks import Gateway, Networks
from heddle.controller.runtime.background import Background
from heddle.controller.runtime.gateways import Gateways, GatewaySession, TooManyRequestsError
from heddle.controller.runtime.isolation.verifier import Verifier
from heddle.controller.runtime.isolation.wire import Found, Verify
from heddle.controller.runtime.loop import Loop
from heddle.controller.views.isolation import Checked

POLL_S = 1.0
SETTLE_S = 3.0
"""A change is verified so long after it was first seen: the changes of that time are verified together."""
RECHECK_S = 300.0
"""Unchanged tables are read again after so long: what has damaged them says nothing."""
REST = 20
"""A gateway rests so many times as long as it took to send its tables: meanwhile its updates wait."""
READ_S = 30.0
MAX_TABLES_BYTES = 64 << 20
MAX_REFUSAL = 200
_LOG = logging.getLogger("heddle.controller")


class _UnreadError(Exception):
    """Tables cannot be read; the text says why."""


class _Last(NamedTuple):
    """The last check of a gateway: when it ended, how long reading its tables took, and in which session it was."""

    ended_s: float
    read_s: float
    session: int | None


class IsolationChecks:
    """Keeps `Gateways.checked`. Changes are verified `settle_s` after they were first seen."""

    def __init__(self, loop: Loop, gateways: Gateways, verifier: Verifier | None = None) -> None:
        """Begin with nothing checked."""
        self._loop, self._gateways, self._verifier = loop, gateways, verifier or Verifier()
        self.settle_s = SETTLE_S
        self._background = Background()
        self._seen_s: dict[str, float] = {}
        """When a gateway was first seen to need a check."""
        self._last: dict[str, _Last] = {}

    def start(self) -> None:
        """Begin to check."""
        self._background.start(self._run())

    async def close(self) -> None:
        """Stop, and end the process."""
        await self._background.close()
        self._verifier.close()

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        pause_s = 0.0
        while True:
            await asyncio.sleep(max(pause_s, min(POLL_S, self.settle_s)))
            pause_s = 0.0
            due = min(self._due(clock()), default=None)
            if due is None:
                continue
            began_s = clock()
            try:
                await self._check(due[1])
            except Exception:
                _LOG.exception("the isolation of networks cannot be verified; the controller is not affected")
                pause_s = RECHECK_S
            pause_s += clock() - began_s

    def _due(self, now_s: float) -> Iterator[tuple[float, str]]:
        """Yield the gateways to check and since when; forget those that are gone."""
        networks, gateways = self._loop.state.networks, self._gateways
        for name in gateways.checked.keys() - networks.gateways.keys():
            del gateways.checked[name]
            self._last.pop(name, None)
        for name, known in networks.gateways.items():
            if not _is_ready(networks, known) or name not in gateways.by_id:
                self._seen_s.pop(name, None)
                continue
            found, last = gateways.checked.get(name), self._last.get(name, _Last(0.0, 0.0, None))
            if found is None or found.generation != networks.generation or last.session != known.session:
                since_s = self._seen_s.setdefault(name, now_s) + self.settle_s
                since_s = max(since_s, last.ended_s + REST * last.read_s)
            else:
                since_s = last.ended_s + RECHECK_S
            if since_s <= now_s:
                yield since_s, name

    async def _check(self, name: str) -> None:
        """Verify one gateway; without a result where its configuration changed meanwhile."""
        loop, gateways, networks = self._loop, self._gateways, self._loop.state.networks
        known, session = networks.gateways[name], gateways.by_id[name]
        self._seen_s.pop(name, None)
        clock = asyncio.get_running_loop().time
        began_s = clock()
        try:
            tables = await self._tables(name)
        except _UnreadError as why:
            found, read_s = Found(failure=str(why)), clock() - began_s
        else:
            read_s = clock() - began_s
            after = loop.state.networks
            attached = after.gateways.get(name)
            if attached is None or attached.session != known.session or after.generation != networks.generation:
                return
            found = await self._verifier.verify(_request(name, networks, session, tables))
        self._last[name] = _Last(clock(), read_s, known.session)
        gateways.checked[name] = Checked(unix_ms=loop.now_unix_ms(), generation=networks.generation, **found._asdict())

    async def _tables(self, name: str) -> bytes:
        """Return the tables that a gateway has installed; raises _UnreadError."""
        try:
            session, number, parts = self._gateways.request_tables(name)
        except (KeyError, TooManyRequestsError) as why:
            raise _UnreadError(str(why) if isinstance(why, TooManyRequestsError) else "it went away") from None
        read = bytearray()
        try:
            async with asyncio.timeout(READ_S):
                while True:
                    part = await parts.get()
                    if part is None:
                        raise _UnreadError("it went away")
                    if part.refused:
                        raise _UnreadError(f"it does not send its tables: {part.refused[:MAX_REFUSAL]!r}")
                    read += part.data
                    if len(read) > MAX_TABLES_BYTES:
                        raise _UnreadError(f"it sends tables of more than {MAX_TABLES_BYTES >> 20} MiB")
                    if part.last:
                        return bytes(read)
        except TimeoutError:
            raise _UnreadError(f"it did not send its tables within {READ_S:.0f} s") from None
        finally:
            session.table_parts.pop(number, None)


def _is_ready(networks: Networks, known: Gateway) -> bool:
    """Return whether a gateway runs the newest generation: its tables are to be those of the wanted networks.

    What it serves of VPCs that the controller does not know has no intent to compare it with.
    """
    current = known.acknowledged == networks.generation and not known.refused and not networks.unknown_at(known)
    return bool(networks.generation) and not known.is_host and known.session is not None and current


def _request(name: str, networks: Networks, session: GatewaySession, tables: bytes) -> Verify:
    hello = session.hello
    provider = tuple((each.network, tuple(each.cidrs)) for each in hello.provider_networks)
    return Verify(name, networks, hello.partner, provider, tables)
