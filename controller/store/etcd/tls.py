"""TLS to etcd: the certificate that this program shows, read again when its files change, and what a refusal means.

Neither end needs an identity of the fabric here: etcd may have an authority of its own, and should (docs/security.md).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import grpc

from heddle.foundation.certificate import CertificateError, key_pair_end
from heddle.foundation.tls_files import Reloaded, TlsFiles, read_pem

HTTP, HTTPS = "http://", "https://"
_EXPIRED = "certificate has expired"
_CLOSED = ("Socket closed", "reset by peer")


class Shown(NamedTuple):
    """The credentials that the files of one moment hold, and when the certificate ends."""

    credentials: grpc.ChannelCredentials
    not_after: datetime


class EtcdTls:
    """The certificate, key and authority towards etcd."""

    def __init__(self, files: TlsFiles, report: Callable[[str], None]) -> None:
        """Read the files; raises CertificateError. `report` gets a line for each later problem with them."""
        self._files = files
        self.shown = Reloaded((files.certificate, files.key, files.ca), lambda: _read(files), report)

    def cause(self, details: str) -> str | None:
        """Return why a member was not connected to, if its end of TLS or ours refused; `details` is gRPC's text."""
        if "CERTIFICATE_VERIFY_FAILED" in details:
            why = details.rpartition("CERTIFICATE_VERIFY_FAILED: ")[2].removesuffix(": OK")
            if _EXPIRED in why:
                return f"its certificate is refused ({why}); issue another: etcd reads its files without a restart"
            return f"its certificate is refused ({why}); {self._files.ca} has to be its authority's"
        if "Unwrap failed" in details:  # an alert, after our end of the handshake was done (TLS 1.3)
            ended = (end := self.shown().not_after) < datetime.now(UTC)
            why = f"it ended {end:%Y-%m-%d %H:%M} UTC" if ended else "its authority must be etcd's trusted-ca-file"
            return f"it refuses the certificate {self._files.certificate}; {why}"
        if "Handshake read failed" in details or "WRONG_VERSION_NUMBER" in details:
            return f"it speaks no TLS; name it as {HTTP}…"
        return None


def plain_cause(details: str) -> str | None:
    """Return why a member that was called without TLS did not reply, if that may be TLS."""
    if any(text in details for text in _CLOSED):
        return f"it ends connections; if it speaks TLS, name it as {HTTPS}…"
    return None


def address_in(endpoint: str) -> str:
    """Return the ADDR:PORT of an endpoint, which may be a URL."""
    return endpoint.removeprefix(HTTP).removeprefix(HTTPS)


def has_tls(endpoint: str) -> bool:
    """Return whether a member is to be called by TLS."""
    return endpoint.startswith(HTTPS)


def _read(files: TlsFiles) -> Shown:
    chain, key, authorities = (read_pem(path) for path in (files.certificate, files.key, files.ca))
    try:
        not_after = key_pair_end(chain, key, authorities)
    except CertificateError as error:
        raise CertificateError(f"{files.certificate}, {files.key}, {files.ca}: {error}") from None
    return Shown(grpc.ssl_channel_credentials(authorities, key, chain), not_after)
