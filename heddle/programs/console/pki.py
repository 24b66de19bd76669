"""Do what `heddle pki` says: one line or a JSON object of the result."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from heddle.controller.model.error import InputError
from heddle.controller.pki import directory as store
from heddle.controller.pki.files import SECRET, write
from heddle.foundation.certificate import CertificateError, denied_serials, serial_text
from heddle.foundation.identity import Identity, Role
from heddle.foundation.tls_files import files_in

PAIR_KEY_BYTES = 32
_DNS = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")


def init(directory: Path, fabric: str, *, as_json: bool) -> None:
    """Create an authority; raises HeddleError."""
    made = store.init(directory, _identity(fabric, Role.OPERATOR, "any").fabric, _now())
    end = made.current.certificate.not_valid_after_utc
    _print(
        {"directory": str(directory), "fabric": fabric, "not_after": end.isoformat()}, as_json,
        f"{directory}: the authority of fabric {fabric}, until {end:%Y-%m-%d}; keep a copy of {store.AUTHORITY}",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The holder of a certificate, as given: its role and name, names of a server, addresses of a server or VTEP."""

    role: str
    name: str
    dns: Sequence[str]
    ips: Sequence[str]


def issue(directory: Path, holder: Holder, *, out: Path, hours: float, replace: bool, as_json: bool) -> None:
    """Issue a certificate; raises HeddleError."""
    for host in holder.dns:
        if _DNS.fullmatch(host) is None:
            raise InputError(f"--dns: {host!r} is no DNS name such as c1.example.net")
    addresses = [_address(ip) for ip in holder.ips]
    with store.opened(directory) as authority:
        identity = _identity(authority.current.fabric, _role(holder.role), holder.name)
        valid_for = timedelta(hours=hours)
        peer = authority.issue(identity, out, _now(), valid_for, replace=replace, dns=holder.dns, ips=addresses)
    files = files_in(out)
    document = {
        "uri": identity.uri, "serial": serial_text(peer.serial), "not_after": peer.not_after.isoformat(),
        "certificate": str(files.certificate), "key": str(files.key), "ca": str(files.ca),
    }  # fmt: skip
    end = f"{peer.not_after:%Y-%m-%d %H:%M} UTC"
    _print(document, as_json, f"{files.certificate}: {identity.uri}, until {end}, serial {serial_text(peer.serial)}")


def rotate(directory: Path, *, end: bool, force: bool, as_json: bool) -> None:
    """Begin or end a rotation; raises HeddleError."""
    with store.opened(directory) as authority:
        if end:
            authority.end_rotation(_now(), force=force)
            text = "only the new authority is trusted; issue certificates so that holders know"
        elif force:
            raise InputError("--force belongs to --end")
        else:
            authority.rotate(_now())
            text = f"a new authority issues; once all have new certificates: heddle pki rotate {directory} --end"
        serial = serial_text(authority.current.certificate.serial_number)
    _print({"directory": str(directory), "authority": serial, "rotating": not end}, as_json, f"{directory}: {text}")


def deny(directory: Path, role: str | None, name: str | None, *, serials: Sequence[str], as_json: bool) -> None:
    """Revoke certificates; raises HeddleError."""
    if bool(serials) == (role is not None) or (role is None) != (name is None):
        raise InputError("name the holder by ROLE and NAME, or a certificate by --serial")
    now = _now()
    stamp = f"denied {now:%Y-%m-%dT%H:%M:%SZ}"
    with store.opened(directory) as authority:
        denied = [(_serial(text), stamp) for text in serials]
        if role is not None and name is not None:
            identity = _identity(authority.current.fabric, _role(role), name)
            found = store.certificates_of(authority, identity, now)
            denied = [(one.serial, f"{identity.uri}, {stamp}") for one in found]
        authority.deny(denied, now)
    listed = [serial_text(serial) for serial, _ in denied]
    files = f"{directory / store.DENIED} to controllers, {directory / store.CRL} to mosquitto and etcd"
    _print({"denied": listed}, as_json, f"denied {', '.join(listed)}; copy {files}")


def pair_key(file: Path) -> None:
    """Write a secret of a pair; raises HeddleError."""
    if file.exists():
        raise InputError(f"{file} exists; nothing was changed")
    write(file, (secrets.token_hex(PAIR_KEY_BYTES) + "\n").encode(), SECRET)
    print(f"{file}: written; copy it to the partner")


def _now() -> datetime:
    return datetime.now(UTC)


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise InputError(f"ROLE: {text!r} is none; the roles are {', '.join(Role)}") from None


def _identity(fabric: str, role: Role, name: str) -> Identity:
    try:
        return Identity(fabric, role, name)
    except ValueError as error:
        raise InputError(str(error)) from None


def _address(text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError:
        raise InputError(f"--ip: {text!r} is no IP address; a name belongs to --dns") from None


def _serial(text: str) -> int:
    try:
        (serial,) = denied_serials(text)
    except (CertificateError, ValueError):
        raise InputError(f"--serial: {text!r} is no serial number in hexadecimal") from None
    return serial


def _print(document: Mapping[str, object], as_json: bool, text: str) -> None:
    print(json.dumps(document) if as_json else text)
