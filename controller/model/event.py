"""What happens to the brain: each event is a value that an edge posts into the inbox.

`reply` numbers are the shell's own: an effect `Reply` carries the same number back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from controller.model.error import HeddleError
from controller.model.job import JobRequest
from controller.model.placement import Placement, Shape
from controller.model.plan import Infeasible, Plan
from controller.model.rule import SwitchRules
from dataplane.config.network import BorderRule, Peering, Vpc


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A job asks for paths; `preview` reserves and installs nothing."""

    reply: int
    request: JobRequest
    preview: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggest:
    """A job without a place asks where to run; nothing is reserved or installed."""

    reply: int
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """A job extends its lease; 0 means the default."""

    reply: int
    job_id: str
    lease_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A job ends."""

    reply: int
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchUp:
    """A switch is connected; `ports` tells which of its ports are up, `installed` what it holds already."""

    switch: str
    ports: Mapping[int, bool]
    installed: SwitchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDown:
    """A switch's session ended; its rules stay where they are (fail-static)."""

    switch: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PortStatus:
    """A port of a connected switch changed."""

    switch: str
    port: int
    up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRead:
    """What a switch holds, read again after a failed installation."""

    switch: str
    installed: SwitchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """The planner's answer to `effect.Solve` of the same token."""

    token: int
    outcome: Plan | Infeasible | HeddleError
    solve_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """The answer to `effect.Place` of the same token."""

    token: int
    outcome: tuple[Placement, ...] | Infeasible | HeddleError


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """Every switch of `effect.Install` has answered its last barrier."""

    token: int
    install_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallFailed:
    """A switch refused a change, went away or did not answer in time."""

    token: int
    switch: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyVpc:
    """A VPC, sound in itself, is there or replaced; `vteps` are those of its endpoints."""

    reply: int
    vpc: Vpc
    vteps: frozenset[IPv4Address]
    more: bool = False
    """More of the same network follows: a controller that has told nothing yet waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVpc:
    """A VPC goes."""

    reply: int
    vpc_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPeering:
    """Two VPCs reach each other."""

    reply: int
    peering: Peering
    more: bool = False
    """More of the same network follows: a controller that has told nothing yet waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePeering:
    """They do no more."""

    reply: int
    peering: Peering


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyBorder:
    """All that VPCs may open towards the provider's networks."""

    reply: int
    rules: tuple[BorderRule, ...]
    more: bool = False
    """More of the same network follows: a controller that has told nothing yet waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayUp:
    """A gateway, or a host's VTEP agent, is attached by a session of this number."""

    reply: int
    session: int
    gateway_id: str
    vtep: IPv4Address
    is_host: bool = False
    generation: int = 0
    """What it runs, by its own word; 0 for nothing."""
    host_vtep: IPv4Address | None = None
    """Where hosts send, if not to its VTEP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDown:
    """A session ended; what it was told stays there (fail-static)."""

    session: int
    gateway_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetGateway:
    """A gateway that went away will not come back."""

    reply: int
    gateway_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAnswered:
    """A gateway runs a generation now, or says in `refused` why it cannot."""

    session: int
    gateway_id: str
    generation: int
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed: leases are looked at, and who waits too long for gateways."""


Event = (
    Submit
    | Suggest
    | Renew
    | Release
    | SwitchUp
    | SwitchDown
    | PortStatus
    | RulesRead
    | Solved
    | Suggested
    | Installed
    | InstallFailed
    | ApplyVpc
    | DeleteVpc
    | ApplyPeering
    | DeletePeering
    | ApplyBorder
    | GatewayUp
    | GatewayDown
    | ForgetGateway
    | GatewayAnswered
    | Tick
)
