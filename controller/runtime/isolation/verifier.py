"""The verification of tables, as the controller sees it: a process that begins with the first request.

One that is lost, or takes too long, is replaced at the next request.
"""

import asyncio
import pickle
import struct
from collections.abc import Iterator
from dataclasses import replace

from heddle.controller.brain.networks.state import Networks
from heddle.controller.runtime import child_process
from heddle.controller.runtime.isolation.wire import Forget, Found, Learn, Verify
from heddle.dataplane.config.network import Vpc

MODULE = "heddle.controller.runtime.isolation.child"
LIMIT_S = 120.0
_LENGTH = struct.Struct("!i")
"""The length of a message, as `multiprocessing.connection` writes it below 2 GiB."""


class Verifier:
    """One process and its connection; one request at a time."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._process: child_process.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._sent: dict[str, Vpc] = {}

    async def verify(self, request: Verify) -> Found:
        """Return what was found; `request.networks` is whole."""
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._verified(request)
        except TimeoutError:
            self.close()
            return Found(failure=f"the verification of its tables took longer than {self._limit_s:.0f} s")
        except (asyncio.IncompleteReadError, OSError) as lost:
            self.close()
            return Found(failure=f"the process that verifies ended: {type(lost).__name__}")
        except BaseException:
            self.close()  # the reply to a request that was cancelled must not be taken for another's
            raise

    def close(self) -> None:
        """End the process; does not wait for a request under way."""
        if self._process is not None:
            child_process.end(self._process)
        if self._writer is not None:
            self._writer.close()
        self._process = self._reader = self._writer = None
        self._sent = {}

    async def _verified(self, request: Verify) -> Found:
        if self._process is None:
            self._process, ours = child_process.begin(MODULE)
            self._reader, self._writer = await asyncio.open_connection(sock=ours)
        assert self._reader is not None
        assert self._writer is not None
        for message in self._changes(request.networks):
            await self._send(self._writer, message)
        bare = replace(request.networks, vpcs={}, vteps={}, claims={}, peers={}, waiting=())
        await self._send(self._writer, request._replace(networks=bare))
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        found = pickle.loads(await self._reader.readexactly(length))
        assert isinstance(found, Found)
        return found

    def _changes(self, networks: Networks) -> Iterator[Learn | Forget]:
        """Yield the VPCs that the process lacks; an unchanged one is the same object in the next generation."""
        for name in self._sent.keys() - networks.vpcs.keys():
            del self._sent[name]
            yield Forget(name)
        for name, vpc in networks.vpcs.items():
            if self._sent.get(name) is not vpc:
                self._sent[name] = vpc
                yield Learn(vpc)

    async def _send(self, writer: asyncio.StreamWriter, message: Learn | Forget | Verify) -> None:
        content = await asyncio.to_thread(pickle.dumps, message)
        writer.write(_LENGTH.pack(len(content)) + content)
        await writer.drain()
