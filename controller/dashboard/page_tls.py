"""The page over TLS: its certificate, and the certificates of operators and viewers in place of a password."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from heddle.foundation.certificate import CertificateError, Peer
from heddle.foundation.identity import Role
from heddle.foundation.regular_file import read_regular
from heddle.foundation.tls_files import MAX_PEM_BYTES, Reloaded, Tls

READERS = (Role.OPERATOR, Role.VIEWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFiles:
    """PEM files: the server's certificate and key; `ca`: the authority whose certificates callers may show."""

    certificate: Path
    key: Path
    ca: Path | None = None


class PageTls:
    """The TLS of the page; `callers` knows the fabric's certificates, None if callers show none."""

    def __init__(self, files: PageFiles, callers: Tls | None, report: Callable[[str], None]) -> None:
        """Read the files; raises CertificateError. They are read again when they change."""
        paths = [path for path in (files.certificate, files.key, files.ca) if path is not None]
        self.context = Reloaded(paths, lambda: _context(files), report)
        self._callers = callers

    def holder(self, connection: ssl.SSLObject) -> Peer | None:
        """Return the operator or viewer whose certificate was shown, None without one; raises PeerRefusedError."""
        if self._callers is None or connection.getpeercert(binary_form=True) is None:
            return None
        return self._callers.peer(connection, *READERS)

    def is_denied(self, holder: Peer | None) -> bool:
        """Return whether a certificate has come onto the deny list."""
        return holder is not None and self._callers is not None and holder.serial in self._callers.denied()


def _context(files: PageFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # each connection has a full handshake, which checks the certificate's dates
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    try:
        for path in filter(None, (files.certificate, files.key, files.ca)):
            read_regular(path, MAX_PEM_BYTES)  # OpenSSL would wait for a FIFO's other end
        context.load_cert_chain(files.certificate, files.key, password="")
        if files.ca is not None:
            context.load_verify_locations(files.ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise CertificateError(f"{files.certificate}, {files.key}: {error}") from None
    return context
