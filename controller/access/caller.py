"""Derive the caller of a gRPC call from its connection, never from what a request says.

Over TLS the caller is the identity in the client's certificate, which has been verified, with its fabric. Without TLS
the server listens on loopback or on a socket file of mode 0600, and the caller is the operator of this machine: gRPC
gives no credentials of a unix socket's peer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from heddle.foundation.identity import SCHEME, Role, identity_in

LOCAL = "local"
"""The name of the operator who is on this machine."""
_TLS = "ssl"


class UnknownCallerError(Exception):
    """The connection names no identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A role and a name; `peer` is where the call comes from, for the audit trail.

    `addresses` are in the certificate: the VTEPs of an agent or gateway.
    """

    role: Role
    name: str
    peer: str = ""
    addresses: frozenset[IPv4Address] = frozenset()

    @property
    def who(self) -> str:
        """Return the caller as logs name it: `ROLE:NAME`."""
        return f"{self.role}:{self.name}"


def caller_of(peer: str, auth: Mapping[str, Iterable[bytes]]) -> Caller:
    """Return the caller of a connection; `auth` is gRPC's auth context.

    Raises UnknownCallerError for a TLS peer without exactly one identity.
    """
    if _TLS not in _texts(auth, "transport_security_type"):
        return Caller(role=Role.OPERATOR, name=LOCAL, peer=peer)
    uris = [name for name in _texts(auth, "x509_subject_alternative_name") if name.startswith(SCHEME)]
    try:
        (uri,) = uris
        found = identity_in(uri)
    except ValueError:
        raise UnknownCallerError(f"the certificate names no identity: {SCHEME}FABRIC/ROLE/NAME") from None
    return Caller(role=found.role, name=found.name, peer=peer, addresses=frozenset(_addresses(auth)))


def _addresses(auth: Mapping[str, Iterable[bytes]]) -> Iterator[IPv4Address]:
    for text in _texts(auth, "peer_ip"):
        try:
            yield IPv4Address(text)
        except ValueError:
            continue  # IPv6: no VTEP


def _texts(auth: Mapping[str, Iterable[bytes]], key: str) -> list[str]:
    return [value.decode("utf-8", "replace") for value in auth.get(key, ())]
