"""Certificates for tests: an authority per fabric, and the files of a holder."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from heddle.controller.pki.authority import LIFETIME, Authority, issued, key_pem, new_authority, new_key
from heddle.foundation.identity import Identity, Role
from heddle.foundation.tls_files import TlsFiles, files_in


def authority(fabric: str = "blue") -> Authority:
    """Return a new authority."""
    return new_authority(fabric, now=datetime.now(UTC))


def files_of(
    by: Authority,
    role: Role,
    name: str,
    folder: Path,
    *,
    age: timedelta = timedelta(0),
    lifetime: timedelta = LIFETIME,
    trusted: tuple[Authority, ...] = (),
    denied: Path | None = None,
    vteps: Sequence[str] = (),
) -> TlsFiles:
    """Write certificate, key and authorities of a new holder; servers are `localhost`, 127.0.0.1 and ::1."""
    folder.mkdir(parents=True, exist_ok=True)
    key = new_key()
    certificate = issued(
        by,
        Identity(by.fabric, role, name),
        key.public_key(),
        now=datetime.now(UTC) - age,
        lifetime=lifetime,
        dns=["localhost"] if role.serves else [],
        ips=[ip_address(ip) for ip in (("127.0.0.1", "::1") if role.serves else vteps)],
    )
    files = replace(files_in(folder), denied=denied)
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    files.key.write_bytes(key_pem(key))
    files.ca.write_bytes(b"".join(one.certificate.public_bytes(Encoding.PEM) for one in trusted or (by,)))
    return files
