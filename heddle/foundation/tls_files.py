"""TLS contexts from PEM files, read again when the files change: certificates last a day, and processes for months.

A handshake uses the files of its moment. Files that cannot be used are reported once, and the former ones stay in use.
Nothing here waits: files are read up to a limit, and a FIFO is refused.
"""

import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from heddle.foundation.certificate import (
    CertificateError,
    OwnCertificate,
    Peer,
    PeerRefusedError,
    denied_serials,
    is_of_authority,
    own_certificate,
    peer_in,
    serial_text,
)
from heddle.foundation.identity import Identity, Role
from heddle.foundation.regular_file import read_regular

MAX_PEM_BYTES = 1 << 20
MAX_DENIED_BYTES = 16 << 20
MAX_REMEMBERED = 4_096
_DER = 2
"""`_ssl.ENCODING_DER`."""
T = TypeVar("T")
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where a process finds its certificate with its chain, the key, the authorities it trusts, and the deny list."""

    certificate: Path
    key: Path
    ca: Path
    denied: Path | None = None


def files_in(directory: Path) -> TlsFiles:
    """Return the files of a directory that `heddle pki issue` has written; those of a client, without a deny list."""
    return TlsFiles(certificate=directory / "cert.pem", key=directory / "key.pem", ca=directory / "ca.pem")


class Reloaded(Generic[T]):
    """What is read from files; read again when one of them was replaced or changed.

    A later state of the files that cannot be used is reported once by `report`, and the former value stays in use.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], T], report: Callable[[str], None]) -> None:
        """Read the files; raises CertificateError."""
        self._paths, self._read, self._report = paths, read, report
        self._stamps = self._stamps_now()  # before reading: a change meanwhile is seen at the next call
        self._value = read()

    def __call__(self) -> T:
        """Return what the files hold now."""
        stamps = self._stamps_now()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._value = self._read()
            except CertificateError as error:
                self._report(f"{error}; the former content stays in use")
        return self._value

    def _stamps_now(self) -> list[Stamp]:
        return [_stamp(path) for path in self._paths]


class Tls:
    """The TLS of one process: its certificate, the authority that it trusts, and the identities that it denies.

    Methods may be called by any thread.
    """

    def __init__(self, files: TlsFiles, report: Callable[[str], None]) -> None:
        """Read the files; raises CertificateError. `report` gets a line for each later problem with them."""
        self._own = Reloaded((files.certificate, files.key, files.ca), lambda: _Own(files), report)
        self._ours: set[bytes] = set()
        """Certificates that an authority of ours issued."""
        denied = files.denied
        self._denied = Reloaded((denied,), lambda: _read_denied(denied), report) if denied is not None else frozenset

    def own(self) -> OwnCertificate:
        """Return the certificate, key and authorities of a handshake now, as PEM (gRPC makes its own contexts)."""
        return self._own().certificate

    @property
    def identity(self) -> Identity:
        """Return the identity that this process shows."""
        return self.own().peer.identity

    def server_context(self) -> ssl.SSLContext:
        """Return the context of a listener: it demands a certificate; each handshake uses the files of its moment."""
        context = self._own().server()

        def switch(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self._own().serving  # the certificate and the trusted authorities

        context.sni_callback = switch  # is called without SNI too
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return the context of one connection to a server, whose host name or address it checks."""
        return self._own().client()

    def denied(self) -> frozenset[int]:
        """Return the serial numbers that are denied now; a session whose peer's serial is among them ends."""
        return self._denied()

    def peer(self, connection: ssl.SSLObject | ssl.SSLSocket, *roles: Role) -> Peer:
        """Return the peer of an established connection, of one of the `roles` if any; raises PeerRefusedError."""
        certificate = connection.getpeercert(binary_form=True)
        if not certificate:
            raise PeerRefusedError("the peer showed no certificate")
        return self.admitted(certificate, *roles, chain=_verified_chain(connection))

    def admitted(self, certificate: bytes, *roles: Role, chain: bytes = b"") -> Peer:
        """Return the holder of a verified certificate (PEM or DER) if it is of this fabric, of a role, and not denied.

        `chain` is what the peer sent (PEM). Raises PeerRefusedError.
        """
        found, own = peer_in(certificate), self.own()
        fabric = own.peer.identity.fabric
        if found.identity.fabric != fabric:
            raise PeerRefusedError(f"{found.identity.uri} is of another fabric; this one is {fabric}")
        if found.serial in self.denied():
            raise PeerRefusedError(f"{found.identity.uri}: its certificate {serial_text(found.serial)} is denied")
        if roles and found.identity.role not in roles:
            raise PeerRefusedError(f"{found.identity.uri}: must be {' or '.join(roles)}")
        self._check_issuer(certificate, chain, own)
        return found

    def _check_issuer(self, certificate: bytes, chain: bytes, own: OwnCertificate) -> None:
        """Raise PeerRefusedError for a certificate that is of an intermediate authority.

        What has passed once stays good for the sessions that it has: they outlive a change of the authorities, and the
        next handshake uses the new ones.
        """
        if certificate in self._ours:
            return
        if not is_of_authority(certificate, chain, own.authorities):
            uri = peer_in(certificate).identity.uri
            raise PeerRefusedError(f"{uri}: its certificate is of an intermediate authority that tls.ca has not")
        if len(self._ours) >= MAX_REMEMBERED:
            self._ours.clear()
        self._ours.add(certificate)


def _verified_chain(connection: ssl.SSLObject | ssl.SSLSocket) -> bytes:
    """Return the certificates by which a peer's was verified, its own first, as PEM (public only in Python 3.13)."""
    found = connection._sslobj.get_verified_chain()  # type: ignore[union-attr]
    return "".join(ssl.DER_cert_to_PEM_cert(one.public_bytes(_DER)) for one in found or ()).encode()


def named_tls(directory: str | None, report: Callable[[str], None]) -> Tls | None:
    """Return the TLS of a client whose files are in a directory, None for none; raises CertificateError."""
    return Tls(files_in(Path(directory)), report) if directory else None


class _Own:
    """The checked content of the files of one moment."""

    def __init__(self, files: TlsFiles) -> None:
        chain, key, authorities = (read_pem(path) for path in (files.certificate, files.key, files.ca))
        try:
            self.certificate = own_certificate(chain, key, authorities)
            self.serving = self.server()
        except (CertificateError, ssl.SSLError) as error:
            raise CertificateError(f"{files.certificate}, {files.key}, {files.ca}: {error}") from None

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.num_tickets = 0  # each session has a full handshake, which checks the certificate's dates
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        return self._filled(context)

    def client(self) -> ssl.SSLContext:
        return self._filled(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))  # CERT_REQUIRED and check_hostname

    def _filled(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        own = self.certificate
        with _in_memory(own.chain) as chain, _in_memory(own.key) as key:
            context.load_cert_chain(chain, key)
        context.load_verify_locations(cadata=own.authorities.decode("ascii", "replace"))
        return context


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yield the path of a file in memory: ssl reads certificate and key from paths only, and files may have changed."""
    number = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(number, content)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def read_pem(path: Path) -> bytes:
    """Return the content of a PEM file; raises CertificateError."""
    try:
        return read_regular(path, MAX_PEM_BYTES)
    except (OSError, ValueError) as error:
        raise CertificateError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _read_denied(path: Path) -> frozenset[int]:
    try:
        return denied_serials(read_regular(path, MAX_DENIED_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
    except CertificateError as error:
        raise CertificateError(f"{path}: {error}") from None


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
