"""Open gRPC channels to a controller: TLS where a certificate is given and the address is no socket file.

A channel keeps the certificate that it was opened with. Who keeps a session for days opens a channel for each attempt.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc
import grpc.aio

if TYPE_CHECKING:
    from heddle.foundation.tls_files import Tls  # cryptography takes as long to import as most commands run

Options = Sequence[tuple[str, int]]
UNIX = "unix:"


def channel_to(server: str, options: Options = (), tls: "Tls | None" = None) -> grpc.Channel:
    """Return a channel to ADDR:PORT or unix:/PATH."""
    if tls is None or server.startswith(UNIX):
        return grpc.insecure_channel(server, options=list(options))
    return grpc.secure_channel(server, _credentials(tls), options=list(options))


def aio_channel_to(server: str, options: Options = (), tls: "Tls | None" = None) -> grpc.aio.Channel:
    """Return a channel for asyncio to ADDR:PORT or unix:/PATH."""
    if tls is None or server.startswith(UNIX):
        return grpc.aio.insecure_channel(server, options=list(options))
    return grpc.aio.secure_channel(server, _credentials(tls), options=list(options))


def _credentials(tls: "Tls") -> grpc.ChannelCredentials:
    """Return the files of this moment. gRPC checks that the server's name or address is in its certificate."""
    own = tls.own()
    return grpc.ssl_channel_credentials(own.authorities, own.key, own.chain)
