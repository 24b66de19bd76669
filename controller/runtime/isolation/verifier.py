"""The verification of tables, as the controller sees it: a process that begins with the first request.

One that is lost, or takes too long, is replaced at the next request.
"""

import asyncio
import pickle
from collections.abc import Iterator
from dataclasses import replace

from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.runtime.child_process import LOST, ChildProcess
from heddle.controller.runtime.isolation.wire import Forget, Found, Learn, Verify
from heddle.dataplane.config.network import Vpc

MODULE = "heddle.controller.runtime.isolation.child"
LIMIT_S = 120.0


class Verifier:
    """One process and its connection; one request at a time."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._process: ChildProcess | None = None
        self._sent: dict[str, Vpc] = {}

    async def verify(self, request: Verify) -> Found:
        """Return what was found; `request.networks` is whole."""
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._verified(request)
        except TimeoutError:
            self.close()
            return Found(failure=f"the verification of its tables took longer than {self._limit_s:.0f} s")
        except LOST as lost:
            self.close()
            return Found(failure=f"the process that verifies ended: {type(lost).__name__}")
        except BaseException:
            self.close()  # the reply to a request that was cancelled must not be taken for another's
            raise

    def close(self) -> None:
        """End the process; does not wait for a request under way."""
        if self._process is not None:
            self._process.close()
            self._process = None
        self._sent = {}

    async def _verified(self, request: Verify) -> Found:
        if self._process is None:
            self._process = ChildProcess(MODULE)
        process = self._process
        for message in self._changes(request.networks):
            await _send(process, message)
        bare = replace(request.networks, vpcs={}, vteps={}, claims={}, peers={}, waiting=())
        await _send(process, request._replace(networks=bare))
        found = await process.receive()
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


async def _send(process: ChildProcess, message: Learn | Forget | Verify) -> None:
    await process.send(await asyncio.to_thread(pickle.dumps, message))
    await process.drain()
