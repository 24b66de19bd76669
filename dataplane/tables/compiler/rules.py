"""The rows of security groups and of the border firewall; the rows of a VPC and direction are contiguous."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from heddle.dataplane.config.addresses import contains, wide, wide_length
from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.config.network import BorderRule, Direction, NetworkConfig, Prefix, Protocol, SecurityRule, Vpc
from heddle.dataplane.jit import Rows
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.compiler.hops import words_of
from heddle.foundation.network import Network

LAST_PORT = 65_535
FULL = (1 << 128) - 1


class PrefixRule(NamedTuple):
    """A rule for one remote prefix."""

    allow: bool
    protocol: Protocol
    remote: Prefix
    port_min: int
    port_max: int


class Slice(NamedTuple):
    """A range of rows of `Tables.rules`."""

    first: int
    rows: int


class Slices(NamedTuple):
    """The rules that apply to a VPC's packets."""

    inward: Slice
    outward: Slice
    border: Slice


class Rules:
    """Collects the rules of a generation; VPCs that no border rule names share the border's rows."""

    def __init__(self, local: LocalConfig, network: NetworkConfig) -> None:
        self._rules: list[PrefixRule] = []
        self._prefixes: dict[Network, list[Prefix]] = {realm: [] for realm in Network}
        for provider in local.provider_networks:
            self._prefixes[provider.realm] += provider.prefixes
        named = {rule.vpc for rule in network.border}
        shared = self._border(network.border, "*")
        self._of: dict[str, Slices] = {}
        for vpc in network.vpcs:
            border = self._border(network.border, vpc.id) if vpc.id in named else shared
            self._of[vpc.id] = Slices(
                self._group(vpc.rules, Direction.IN), self._group(vpc.rules, Direction.OUT), border
            )

    def of(self, vpc: Vpc) -> Slices:
        """Return the ranges of a VPC's rules."""
        return self._of[vpc.id]

    def _group(self, rules: Sequence[SecurityRule], direction: Direction) -> Slice:
        return self._add(
            PrefixRule(rule.allow, rule.protocol, rule.remote, rule.port_min, rule.port_max)
            for rule in rules
            if rule.direction is direction
        )

    def _border(self, rules: Sequence[BorderRule], vpc: str) -> Slice:
        return self._add(
            PrefixRule(rule.allow, rule.protocol, common, rule.port_min, rule.port_max)
            for rule in rules
            if rule.vpc in ("*", vpc)
            for prefix in self._prefixes[rule.realm]
            for common in _intersection(rule.remote, prefix)
        )

    def _add(self, rules: Iterable[PrefixRule]) -> Slice:
        first = len(self._rules)
        self._rules += rules
        return Slice(first, len(self._rules) - first)

    def rows(self) -> Rows:
        """Return RULE rows."""
        found = np.zeros(len(self._rules), dtype=schema.RULE)
        masks = [FULL << (128 - wide_length(rule.remote)) & FULL for rule in self._rules]
        found["remote_hi"], found["remote_lo"] = words_of([wide(rule.remote.network_address) for rule in self._rules])
        found["mask_hi"], found["mask_lo"] = words_of(masks)
        found["allow"] = [rule.allow for rule in self._rules]
        found["protocol"] = [rule.protocol for rule in self._rules]
        found["port_min"] = [0 if rule.protocol is Protocol.ICMP else rule.port_min for rule in self._rules]
        found["port_max"] = [LAST_PORT if rule.protocol is Protocol.ICMP else rule.port_max for rule in self._rules]
        found["family"] = [rule.remote.version for rule in self._rules]
        return found


def _intersection(one: Prefix, other: Prefix) -> tuple[Prefix, ...]:
    """Return the intersection of two prefixes: the longer of them, or nothing."""
    if contains(one, other):
        return (other,)
    return (one,) if contains(other, one) else ()
