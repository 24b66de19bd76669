"""Run the gRPC server: the services, health and reflection."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Network

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from heddle.controller.access.guard import Access, Guard
from heddle.controller.api.connections import HANDSHAKE_MS
from heddle.controller.api.decoding import Decoding
from heddle.controller.api.leading import Leading
from heddle.controller.api.limits import MAX_CALLS, Limits, connection_options
from heddle.controller.api.mutual_tls import KnownPeers
from heddle.controller.api.peer import Places
from heddle.controller.api.services import fabric, gateways, jobs, probes, telemetry, vpc
from heddle.controller.api.shared_port import share_port
from heddle.controller.api.socket_file import SocketFile
from heddle.controller.model.call_limits import CallLimits
from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.limit import MAX_MESSAGE_BYTES
from heddle.controller.model.server_address import UNIX, address_text, split_address
from heddle.controller.runtime.attached import Attached
from heddle.controller.runtime.fabric_apply import FabricApply
from heddle.controller.runtime.feeds import Feeds
from heddle.controller.runtime.limits.callers import Callers
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.limits.shares import Shares
from heddle.controller.runtime.loop import Loop
from heddle.controller.views.fabric_differences import Setup
from heddle.foundation.keepalive import KEEPALIVE_MS, server_options
from heddle.foundation.tls_files import Tls
from heddle.foundation.unix_socket import is_listening, is_other_file
from heddle.v1 import heddle_pb2 as pb

_SERVICES = tuple(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """How calls are accepted.

    `vteps` are allowed VTEP addresses beside the fabric's NICs, `limits` those of one caller, `connections` those of
    all together. With `tls` each caller shows a certificate, other than on a socket file. A server that `follows`
    shares the address of the one of this process's former life, which still listens.
    """

    vteps: tuple[IPv4Network, ...] = ()
    keepalive_ms: int = KEEPALIVE_MS
    tls: Tls | None = None
    limits: CallLimits = field(default_factory=CallLimits)
    connections: int = 4_096
    follows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the services read and change, beside the loop's state."""

    feeds: Feeds
    attached: Attached
    previews: Shares
    limited: Counter[Limit]
    applying: FabricApply
    setup: Setup


class ApiServer:
    """The gRPC server of one loop; `access` admits and audits callers."""

    def __init__(
        self, loop: Loop, served: Served, access: Access, settings: ApiSettings, leading: Leading | None = None
    ) -> None:
        """Create the services; `leading` refuses calls while another of several controllers leads."""
        tls, feeds, attached = settings.tls, served.feeds, served.attached
        self._watching: asyncio.Task[None] | None = None
        self._follows = settings.follows
        self._socket: SocketFile | None = None
        self._known_peers = KnownPeers(tls) if tls is not None else None
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            (
                "grpc.so_reuseport",
                int(settings.follows),
            ),  # else a second controller shares the address, and each gets some of the calls
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),  # else a silent peer has two minutes
            *server_options(settings.keepalive_ms),
            *connection_options(settings.connections),
        ]
        admission = [self._known_peers] if self._known_peers is not None else []
        status = health_pb2.HealthCheckResponse
        self._status = status.SERVING if leading is None else status.NOT_SERVING
        last = [leading] if leading is not None else []
        self._places = Places()
        bounds = Limits(Callers(settings.limits, served.limited), self._places)
        interceptors: list[grpc.aio.ServerInterceptor] = [*admission, bounds, Guard(access), *last, Decoding()]
        self._server = grpc.aio.server(options=options, interceptors=interceptors, maximum_concurrent_rpcs=MAX_CALLS)
        jobs.add_to(self._server, loop, feeds, attached.flows, served.previews, served.limited)
        fabric.add_to(self._server, loop, feeds, attached.flows, served.applying, served.setup)
        telemetry.add_to(self._server, loop, feeds.telemetry)
        vpc.add_to(self._server, loop, attached.gateways, settings.vteps)
        gateways.add_to(self._server, loop, attached.gateways, feeds.note)
        probes.add_to(self._server, loop.state.fabric, attached.probe_agents)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    async def start(self, address: str) -> str:
        """Listen on ADDR:PORT or unix:/PATH; return the bound address. Raises PrerequisiteError where it is in use.

        A socket file is accessible to this user alone (mode 0600); a stale one of a dead controller is replaced.
        """
        if address.startswith(UNIX) and is_other_file(address.removeprefix(UNIX)):
            raise PrerequisiteError(f"gRPC cannot listen on {address}: it is no socket; choose another by --grpc")
        if address.startswith(UNIX) and not self._follows and is_listening(address.removeprefix(UNIX)):
            raise PrerequisiteError(f"gRPC cannot listen on {address}: the address is in use; choose another by --grpc")
        before = os.umask(0o177)
        try:
            bound = self._bind(address)
        except (RuntimeError, OSError):
            bound = 0
        finally:
            os.umask(before)
        if not bound:
            raise PrerequisiteError(f"gRPC cannot listen on {address}; is it in use? choose another by --grpc")
        await self._server.start()
        if self._known_peers is not None:
            self._watching = asyncio.create_task(self._known_peers.watch())
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        for service in _SERVICES:
            await self._health.set(service, self._status)
        if address.startswith(UNIX):
            return address
        host = split_address(address)[0]
        self._places.listening(host, bound)
        return address_text(host, bound)

    async def serve(self) -> None:
        """Report SERVING for every service: this controller leads."""
        for service in _SERVICES:
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def close(self, release: Callable[[], None] = lambda: None) -> None:
        """Report NOT_SERVING, wait up to half a second for calls to finish, stop.

        `release` is called when no call begins any more: one that it lets finish is followed by none here.
        """
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._server.stop(0.5))
        await asyncio.sleep(0)
        release()
        await stopping
        if self._socket is not None:
            self._socket.remove()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    def _bind(self, address: str) -> int:
        """Return the bound port, positive for a socket file, 0 for none; raises RuntimeError and OSError."""
        if address.startswith(UNIX):
            self._socket = SocketFile(address)
            bound = int(self._server.add_insecure_port(self._socket.beside))
            self._socket.take_place()
            return bound
        if self._follows:
            share_port(split_address(address)[1])
        if self._known_peers is None:
            return int(self._server.add_insecure_port(address))
        return int(self._server.add_secure_port(address, self._known_peers.credentials()))
