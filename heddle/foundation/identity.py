"""Identities of the processes and people of a fabric, as their certificates name them (SPIFFE ID, RFC 5280 4.2.1.6)."""

import re
from dataclasses import dataclass
from enum import StrEnum

TLS_VARIABLE = "HEDDLE_TLS"
"""The environment variable that names a client's directory of `heddle pki issue`."""
SCHEME = "spiffe://heddle/"
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")  # a common name has at most 64 characters


class Role(StrEnum):
    """What the holder of a certificate is."""

    OPERATOR = "operator"
    VIEWER = "viewer"
    TENANT = "tenant"
    AGENT = "agent"
    GATEWAY = "gateway"
    SWITCH = "switch"
    CONTROLLER = "controller"
    SERVICE = "service"
    """The broker or etcd: a server that calls no one."""

    @property
    def serves(self) -> bool:
        """Return whether others connect to it; only such a certificate is good for the server's end of TLS."""
        return self in (Role.CONTROLLER, Role.SERVICE)


@dataclass(frozen=True, slots=True)
class Identity:
    """A role and a name in one fabric; the names of a fabric, and of a holder, are letters, digits, `.`, `_`, `-`."""

    fabric: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        """Raise ValueError for a part that is no name."""
        for what, text in (("fabric", self.fabric), ("name", self.name)):
            if _PART.fullmatch(text) is None:
                raise ValueError(f"{what} {text!r}: must be 1 to 48 letters, digits, '.', '_', '-'")

    @property
    def uri(self) -> str:
        """Return the URI of the certificate's subject alternative name: `spiffe://heddle/FABRIC/ROLE/NAME`."""
        return f"{SCHEME}{self.fabric}/{self.role}/{self.name}"

    @property
    def common_name(self) -> str:
        """Return the certificate's common name: `ROLE:NAME`, which is also the MQTT user name."""
        return f"{self.role}:{self.name}"


def identity_in(uri: str) -> Identity:
    """Return the identity that a URI names; raises ValueError."""
    parts = uri.removeprefix(SCHEME).split("/")
    if not uri.startswith(SCHEME) or len(parts) != 3 or parts[1] not in list(Role):
        raise ValueError(f"{uri!r} names no identity: {SCHEME}FABRIC/ROLE/NAME, with a role of {', '.join(Role)}")
    return Identity(parts[0], Role(parts[1]), parts[2])
