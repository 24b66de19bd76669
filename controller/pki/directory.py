"""The directory of a fabric's authority, and the changes that `heddle pki` makes to it.

    authority.pem  the authority: key, certificate, and that certificate as the previous authority signed it (mode 0600)
    previous.pem   the previous authority while its certificates may be in use (mode 0600)
    ca.pem         the certificates that holders trust: of both
    denied         serial numbers of revoked certificates, for `tls.denied` of controllers
    crl.pem        the same as signed lists, for mosquitto and etcd
    issued         a line for each certificate that is valid: serial number, holder, end, authority

`authority.pem` and `denied` are the truth; ca.pem and crl.pem are written anew from them by every change, so that a
change that was cut off is completed by the next.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from heddle.controller.model.error import InputError, NotFoundError, PrerequisiteError
from heddle.controller.pki.authority import Authority, crossed, issued, key_pem, new_authority, new_key, revocations
from heddle.controller.pki.files import PUBLIC, SECRET, make_directory, read, write
from heddle.foundation.certificate import CertificateError, Peer, PeerRefusedError, denied_serials, peer_in, serial_text
from heddle.foundation.identity import Identity, identity_in
from heddle.foundation.tls_files import files_in

AUTHORITY, PREVIOUS, CA, DENIED, CRL, ISSUED = (
    "authority.pem", "previous.pem", "ca.pem", "denied", "crl.pem", "issued",
)  # fmt: skip
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_DENIED_HEADER = b"# Serial numbers of revoked certificates, a line each; written by `heddle pki deny`.\n"


class Issued(NamedTuple):
    """A line of `issued`."""

    serial: int
    identity: Identity
    not_after: datetime
    authority: int
    """The serial number of the authority's certificate."""

    def line(self) -> str:
        """Return the line."""
        end = self.not_after.strftime(_TIME)
        return f"{serial_text(self.serial)} {self.identity.uri} {end} {serial_text(self.authority)}\n"


class AuthorityDirectory:
    """The directory of one fabric's authority, which this process alone changes."""

    def __init__(self, path: Path) -> None:
        """Read the authority; raises InputError."""
        self.path = path
        self.current, self._cross = _authority_in(path / AUTHORITY)
        old = _authority_in(path / PREVIOUS)[0] if (path / PREVIOUS).exists() else None
        # A rotation that was cut off has left the authority itself there.
        self.previous = old if old is not None and old.certificate != self.current.certificate else None

    def issue(
        self, identity: Identity, out: Path, now: datetime, lifetime: timedelta, *, replace: bool,
        dns: Sequence[str] = (), ips: Sequence[IPv4Address | IPv6Address] = (),
    ) -> Peer:  # fmt: skip
        """Write a holder's cert.pem, key.pem and ca.pem to `out`, for servers denied and crl.pem as well.

        Raises InputError where files of another holder are there, or of this one without `replace`.
        """
        files = files_in(out)
        _refuse_replacing(files.certificate, files.key, identity, replace=replace)
        key = new_key()
        certificate = issued(self.current, identity, key.public_key(), now=now, lifetime=lifetime, dns=dns, ips=ips)
        chain = [certificate] + ([self._cross] if self._cross is not None else [])
        entry = Issued(certificate.serial_number, identity, certificate.not_valid_after_utc, _serial(self.current))
        make_directory(out)
        self._log([*self.valid(now), entry])  # first: a certificate that is not in the list cannot be denied by name
        write(files.key, key_pem(key), SECRET)
        write(files.certificate, b"".join(map(_pem, chain)), PUBLIC)
        write(files.ca, self._trusted(), PUBLIC)
        if identity.role.serves:
            write(out / DENIED, read(self.path / DENIED), PUBLIC)
            write(out / CRL, self._revocations(now), PUBLIC)
        return peer_in(_pem(certificate))

    def valid(self, now: datetime) -> list[Issued]:
        """Return the issued certificates that have not ended; raises InputError."""
        path, found = self.path / ISSUED, []
        for number, line in enumerate(read(path).decode("utf-8", "replace").splitlines(), 1):
            try:
                serial, uri, end, authority = line.split()
                not_after = datetime.strptime(end, _TIME).replace(tzinfo=UTC)
                found.append(Issued(int(serial, 16), identity_in(uri), not_after, int(authority, 16)))
            except ValueError:
                raise InputError(f"{path}: line {number} is damaged; remove it, and deny by --serial") from None
        return [one for one in found if one.not_after > now]

    def rotate(self, now: datetime) -> None:
        """Replace the authority. Certificates of the old one stay good; raises InputError within a rotation."""
        if self.previous is not None:
            remedy = f"end that by `heddle pki rotate {self.path} --end`"
            raise InputError(f"{self.path}: the previous authority is still trusted; {remedy}")
        old, new = self.current, new_authority(self.current.fabric, now=now)
        self._cross = crossed(new, old, now=now)
        write(self.path / PREVIOUS, _authority_pem(old, None), SECRET)
        write(self.path / AUTHORITY, _authority_pem(new, self._cross), SECRET)
        self.current, self.previous = new, old
        self.publish(now)

    def end_rotation(self, now: datetime, *, force: bool) -> None:
        """Trust the previous authority no more; raises InputError while holders need it, if not `force`."""
        if self.previous is None:
            raise InputError(f"{self.path}: no rotation is under way; `heddle pki rotate {self.path}` begins one")
        left = self._dependent(now)
        if left and not force:
            last = max(left, key=lambda one: one.not_after)
            raise InputError(
                f"{self.path}: {len(left)} valid certificates are of the previous authority alone, the last until "
                f"{last.not_after:%Y-%m-%d %H:%M} UTC ({last.identity.uri}); issue them anew, or --force"
            )
        write(self.path / AUTHORITY, _authority_pem(self.current, None), SECRET)
        (self.path / PREVIOUS).unlink()
        self._cross = self.previous = None
        self.publish(now)

    def deny(self, serials: Sequence[tuple[int, str]], now: datetime) -> None:
        """Revoke certificates: serial numbers, each with a comment."""
        known = denied_in(self.path / DENIED)
        lines = [f"{serial_text(serial)}  # {text}\n" for serial, text in serials if serial not in known]
        before = read(self.path / DENIED)
        if before and not before.endswith(b"\n"):
            before += b"\n"
        write(self.path / DENIED, before + "".join(lines).encode(), PUBLIC)
        self.publish(now)

    def publish(self, now: datetime) -> None:
        """Write what follows from the authorities and the deny list."""
        write(self.path / CA, self._trusted(), PUBLIC)
        write(self.path / CRL, self._revocations(now), PUBLIC)

    def _dependent(self, now: datetime) -> list[Issued]:
        """Return the valid certificates of holders that have none of the current authority and are not denied."""
        valid, denied = self.valid(now), denied_in(self.path / DENIED)
        current = _serial(self.current)
        renewed = {one.identity for one in valid if one.authority == current}
        return [one for one in valid if one.identity not in renewed and one.serial not in denied]

    def _authorities(self) -> list[Authority]:
        return [self.current] + ([self.previous] if self.previous is not None else [])

    def _trusted(self) -> bytes:
        return b"".join(_pem(one.certificate) for one in self._authorities())

    def _revocations(self, now: datetime) -> bytes:
        """Return a list by each authority, each with all serials: etcd reads the first of a file only."""
        serials = denied_in(self.path / DENIED)
        return b"".join(revocations(one, serials, now=now).public_bytes(Encoding.PEM) for one in self._authorities())

    def _log(self, entries: Sequence[Issued]) -> None:
        write(self.path / ISSUED, "".join(one.line() for one in entries).encode(), SECRET)


def init(path: Path, fabric: str, now: datetime) -> AuthorityDirectory:
    """Create the directory with a new authority; raises InputError where there is one."""
    make_directory(path)
    with locked(path):
        if (path / AUTHORITY).exists():
            raise InputError(f"{path / AUTHORITY} exists; nothing was changed. `heddle pki rotate {path}` replaces it")
        write(path / DENIED, _DENIED_HEADER, PUBLIC)
        write(path / ISSUED, b"", SECRET)
        write(path / AUTHORITY, _authority_pem(new_authority(fabric, now=now), None), SECRET)
        made = AuthorityDirectory(path)
        made.publish(now)
        return made


@contextmanager
def opened(path: Path) -> Iterator[AuthorityDirectory]:
    """Open a directory for changes, which wait for those of another process; raises InputError."""
    if not (path / AUTHORITY).exists():
        raise InputError(f"{path}: holds no authority; create it by `heddle pki init {path} --fabric NAME`")
    with locked(path):
        yield AuthorityDirectory(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a directory; only a user who may read the directory can hold it."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise PrerequisiteError(f"{path}: cannot be opened ({error.strerror})") from None
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def denied_in(path: Path) -> frozenset[int]:
    """Return the serial numbers of a deny list's file; raises InputError."""
    try:
        return denied_serials(read(path).decode("utf-8", "replace"))
    except CertificateError as error:
        raise InputError(f"{path}: {error}") from None


def certificates_of(directory: AuthorityDirectory, identity: Identity, now: datetime) -> list[Issued]:
    """Return the valid certificates of a holder; raises NotFoundError for none."""
    found = [one for one in directory.valid(now) if one.identity == identity]
    if not found:
        raise NotFoundError(f"{directory.path}: {identity.uri} has no valid certificate from here; see --serial")
    return found


def _refuse_replacing(certificate: Path, key: Path, identity: Identity, *, replace: bool) -> None:
    """Raise InputError where files would be lost."""
    if certificate.exists():
        try:
            holder = peer_in(read(certificate)).identity.uri
        except PeerRefusedError:
            holder = "no holder of ours"
        if holder != identity.uri:
            raise InputError(f"{certificate} is of {holder}; name another directory by --out")
    for path in (certificate, key):
        if path.exists() and not replace:
            raise InputError(f"{path} exists; --replace writes a new one in its place")


def _authority_in(path: Path) -> tuple[Authority, x509.Certificate | None]:
    content = read(path)
    try:
        key = load_pem_private_key(content, password=None)
        certificate, *cross = x509.load_pem_x509_certificates(content)
    except (ValueError, TypeError):
        raise InputError(f"{path}: damaged; restore it from a copy") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InputError(f"{path}: the key is not that of the certificate; restore it from a copy")
    return Authority(certificate, key), (cross[0] if cross else None)


def _authority_pem(authority: Authority, cross: x509.Certificate | None) -> bytes:
    return key_pem(authority.key) + _pem(authority.certificate) + (_pem(cross) if cross is not None else b"")


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _serial(authority: Authority) -> int:
    return authority.certificate.serial_number
