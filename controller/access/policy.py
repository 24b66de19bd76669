"""Tenants and users as frozen values: what `controller.config.policy_file` reads from the policy file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from heddle.controller.model.tenant import Quota
from heddle.foundation.identity import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPolicy:
    """What one tenant may use; `nics` None is every NIC of the fabric.

    `vteps` are addresses of hosts beside the fabric's NICs, `public` those for NAT and floating addresses, `vlans`
    those of direct connects.
    """

    nics: frozenset[str] | None = frozenset()
    vteps: tuple[IPv4Network, ...] = ()
    public: tuple[IPv4Network | IPv6Network, ...] = ()
    vlans: frozenset[int] = frozenset()
    quota: Quota = field(default_factory=Quota)

    def may_publish(self, address: IPv4Address | IPv6Address) -> bool:
        """Return whether the tenant may use a public address."""
        return any(address in prefix for prefix in self.public)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The tenants by name, and the roles of users who log in to the page."""

    tenants: Mapping[str, TenantPolicy] = field(default_factory=dict)
    users: Mapping[str, Role] = field(default_factory=dict)

    def role_of_user(self, user: str | None) -> Role:
        """Return the role of a user of the page: operator where the file names no users, else viewer by default."""
        return self.users.get(user or "", Role.VIEWER) if self.users else Role.OPERATOR
