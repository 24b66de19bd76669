"""A controller with mutual TLS on loopback, and stubs of callers with certificates."""

from contextlib import asynccontextmanager

import pytest

from heddle.controller.app import Application
from heddle.controller.config.service import ServiceConfig
from heddle.controller.config.tls import TlsConfig
from heddle.foundation.channel import aio_channel_to
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.certificates import authority, files_of
from tests.unit.brain.driver import small_fabric

BLUE, RED = authority("blue"), authority("red")


class Served:
    """A controller with TLS in `folder`; `stub` has the calls of a holder's certificate."""

    def __init__(self, folder, address):
        self.folder, self.address = folder, address
        self._channels = []

    def channel(self, files):
        channel = aio_channel_to(self.address, (), Tls(files, pytest.fail))
        self._channels.append(channel)
        return channel

    def stub(self, files):
        return rpc.FabricServiceStub(self.channel(files))

    async def close(self):
        for channel in self._channels:
            await channel.close()


def config_of(files, **more):
    return TlsConfig(certificate=str(files.certificate), key=str(files.key), ca=str(files.ca), **more)


@asynccontextmanager
async def served(folder, trusted=(BLUE,)):
    (folder / "denied").write_text("")
    files = files_of(BLUE, Role.CONTROLLER, "c1", folder / "controller", trusted=trusted)
    fabric = small_fabric()
    tls = config_of(files, denied=str(folder / "denied"))
    config = ServiceConfig(openflow="127.0.0.1:0", grpc="127.0.0.1:0", http="127.0.0.1:0", tls=tls)
    application = Application(fabric, config, ThreadPlanner(fabric), ThreadCompiler(fabric))
    async with application.started() as addresses:
        found = Served(folder, addresses["grpc"])
        try:
            yield found
        finally:
            await found.close()
