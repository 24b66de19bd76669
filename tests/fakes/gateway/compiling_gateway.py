"""A gateway without packets: it compiles the configuration of a real session, and returns its tables on request."""

import asyncio
import contextlib
from typing import Any

from heddle.dataplane.control.session.attachment import Attachment, Sources
from heddle.dataplane.tables.compiler.archive import packed
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.v1 import heddle_pb2 as pb


class CompilingGateway:
    """`spoil` changes tables before they are "installed"; `generation` is in force at first."""

    def __init__(self, server, local, spoil=lambda tables: tables, generation=0):
        self._local, self._spoil = local, spoil
        self.tables: Any = None
        underlay = next(interface for interface in local.interfaces if interface.side.value == "underlay")
        networks = [
            pb.ProviderNetwork(network=each.realm.value, cidrs=map(str, each.prefixes))
            for each in local.provider_networks
        ]
        hello = pb.GatewayHello(gateway_id=local.gateway_id, vtep_ip=str(underlay.address), provider_networks=networks)
        self.applied = asyncio.Event()
        self._attachment = Attachment(server, hello, self._apply, Sources(tables=lambda: packed(self.tables)))
        self._attachment.generation = generation
        self._task = asyncio.create_task(self._attachment.run())

    async def _apply(self, desired):
        generation = desired.network.generation
        tables = compile_tables(self._local, desired.network, neighbours={}, generation=generation)
        self.tables = self._spoil(tables)
        self.applied.set()

    def spoil(self, spoil):
        """Change the next tables before they are "installed"."""
        self._spoil = spoil

    async def close(self):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
