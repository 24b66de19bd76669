"""Mutual TLS of gRPC: each connection shows a certificate of an authority of ours, which names the caller.

gRPC checks signatures, dates and the purpose. What it does not know is checked at each call: the fabric, and the deny
list, which also ends the calls that run. Of a handshake that failed it reports nothing, so connections are counted, and
those without a call are logged.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc

from heddle.controller.access.wrapping import Around, Context, Handler
from heddle.controller.api.connections import POLL_S, Connections
from heddle.foundation.certificate import OwnCertificate, Peer, PeerRefusedError
from heddle.foundation.tls_files import Tls

_LOG = logging.getLogger("heddle.api")
RENEWAL = timedelta(hours=2)
"""A certificate that ends sooner should have been renewed."""


def credentials_of(tls: Tls, began: Callable[[], None]) -> grpc.ServerCredentials:
    """Return the credentials of a server; each handshake uses the files of its moment, and `began` is called then."""
    given = tls.own()

    def changed() -> Any:
        nonlocal given
        began()
        before, given = given, tls.own()
        return _configuration(given) if given is not before else None

    return grpc.dynamic_ssl_server_credentials(_configuration(given), changed, require_client_authentication=True)


def _configuration(own: OwnCertificate) -> Any:
    return grpc.ssl_server_certificate_configuration([(own.key, own.chain)], own.authorities)


def certificate_of(context: Context) -> bytes | None:
    """Return the PEM certificate that the peer of a call has shown; None on a socket file or without TLS."""
    return _shown(context, "x509_pem_cert")


def _shown(context: Context, name: str) -> bytes | None:
    """Return a property of a connection's TLS."""
    shown = context.auth_context().get(name)
    return bytes(shown[0]) if shown else None


class KnownPeers(Around):
    """Admit calls of certificates that are of this fabric and not denied; calls of socket files as they are."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._connections = Connections()
        self._running: defaultdict[int, set[asyncio.Task[Any]]] = defaultdict(set)

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of the listener."""
        return credentials_of(self._tls, self._connections.began)

    async def watch(self) -> None:
        """End calls of certificates that become denied, warn of what needs a person, until cancelled."""
        warned = None
        while True:
            await asyncio.sleep(POLL_S)
            for serial in self._tls.denied() & self._running.keys():
                for call in self._running[serial]:
                    call.cancel()
            own = self._tls.own()
            if own is not warned and own.peer.not_after - datetime.now(UTC) < RENEWAL:
                warned = own
                uri, end = own.peer.identity.uri, own.peer.not_after
                _LOG.warning("the certificate of %s ends %s; renew its files", uri, end)
            self._connections.report(time.monotonic())

    @asynccontextmanager
    async def around(self, method: str, handler: Handler, context: Context) -> AsyncIterator[None]:
        """Run a call of an admitted peer; end it with UNAUTHENTICATED once the peer is denied."""
        certificate = certificate_of(context)
        if certificate is None:
            yield  # a socket file: TLS demands a certificate
            return
        self._connections.made_call(context.peer())
        try:
            peer = self._tls.admitted(certificate, chain=_shown(context, "x509_pem_cert_chain") or b"")
        except PeerRefusedError as error:
            _LOG.warning("%s: refused: %s", context.peer(), error)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        task = _this_task()
        self._running[peer.serial].add(task)
        try:
            yield
        except asyncio.CancelledError:
            if peer.serial not in self._tls.denied():
                raise
            task.uncancel()
            _LOG.warning("%s: its call ends: %s is denied", context.peer(), peer.identity.uri)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"{peer.identity.uri}: its certificate is denied")
        finally:
            self._ended(peer, task)

    def _ended(self, peer: Peer, task: "asyncio.Task[Any]") -> None:
        running = self._running[peer.serial]
        running.discard(task)
        if not running:
            del self._running[peer.serial]


def _this_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None, "gRPC runs each call in a task"
    return task
