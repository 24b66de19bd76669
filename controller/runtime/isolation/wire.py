"""The messages between the controller and the process that verifies isolation.

The process keeps the VPCs, so that each is sent once and again when it changes: one may have thousands of endpoints.
"""

from collections.abc import Mapping
from typing import NamedTuple

from heddle.controller.brain.virtual_networks import Networks
from heddle.dataplane.config.network import Vpc


class Learn(NamedTuple):
    """A VPC that is new or has changed."""

    vpc: Vpc


class Forget(NamedTuple):
    """A VPC that is gone."""

    vpc_id: str


class Verify(NamedTuple):
    """A request: verify the tables of gateway or balancer `name`. `networks` has everything but VPCs."""

    name: str
    networks: Networks
    partner: str
    provider_networks: tuple[tuple[str, tuple[str, ...]], ...]
    """The realm and prefixes of each network that it said to have."""
    tables: bytes


class Found(NamedTuple):
    """The reply: as in `controller.views.isolation.Checked`."""

    failure: str = ""
    vpcs: frozenset[str] = frozenset()
    differing: Mapping[str, tuple[str, ...]] = {}
    total: int = 0
    is_whole: bool = True
