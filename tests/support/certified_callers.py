"""Callers with certificates: a gRPC server with TLS in front of any services, and a channel for each identity."""

from contextlib import asynccontextmanager

import grpc

from heddle.controller.api.server import ApiServer
from heddle.foundation.identity import Role
from tests.support.certificates import authority, files_of

FABRIC = "small"


class Certified:
    """The holders of certificates of one authority; their files are in `folder`."""

    def __init__(self, folder):
        self._authority, self._folder = authority(FABRIC), folder
        self._channels = []
        self.port = 0

    def folder(self, role, name):
        """Return the folder of a new holder's certificate, as HEDDLE_TLS names one."""
        self._pem(role, name)
        return self._folder / f"{role}-{name}"

    def _pem(self, role, name, vteps=()):
        files = files_of(self._authority, role, name, self._folder / f"{role}-{name}", vteps=vteps)
        return files.key.read_bytes(), files.certificate.read_bytes(), files.ca.read_bytes()

    def server_credentials(self):
        key, certificate, ca = self._pem(Role.CONTROLLER, "c1")
        return grpc.ssl_server_credentials([(key, certificate)], ca, require_client_auth=True)

    def channel(self, role, name, vteps=()):
        """Return a channel of a new holder of a certificate."""
        key, certificate, ca = self._pem(role, name, vteps)
        credentials = grpc.ssl_channel_credentials(ca, key, certificate)
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channels.append(grpc.aio.secure_channel(f"127.0.0.1:{self.port}", credentials, options=options))
        return self._channels[-1]

    async def close(self):
        for channel in self._channels:
            await channel.close()


@asynccontextmanager
async def certified(folder, monkeypatch):
    """Let every controller that starts meanwhile listen with TLS too; yields the callers of the last one."""
    found, start = Certified(folder), ApiServer.start

    async def start_with_tls(self, address):
        found.port = self._server.add_secure_port("127.0.0.1:0", found.server_credentials())
        return await start(self, address)

    monkeypatch.setattr(ApiServer, "start", start_with_tls)
    try:
        yield found
    finally:
        await found.close()
