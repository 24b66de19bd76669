"""Define the events of the brain: values that edges (gRPC, OpenFlow, the clock) post into the inbox.

`reply` identifies a caller: the effect `Reply` carries the same number back. `tenant` is the tenant that an event
is of; None may change everything. A `Change` survives a restart; `line` is what `heddle replay` prints of an event.
Events of virtual networks are in `network_event`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from heddle.controller.model import lines
from heddle.controller.model.cabling import Peer, Verdict
from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.job import JobRequest
from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyNetwork,
    ApplyPeering,
    ApplyVpc,
    BackEndsReported,
    DeleteLoadBalancer,
    DeletePeering,
    DeleteVpc,
    DropUnknownVpcs,
    ForgetGateway,
    GatewayAcked,
    GatewayDown,
    GatewayUp,
)
from heddle.controller.model.placement import Placement, Shape
from heddle.controller.model.plan import Infeasible, Replan, SeveredPins
from heddle.controller.model.rule import SwitchRules
from heddle.controller.model.tenant import Tenant
from heddle.controller.model.traits import Change, Line, Printed, Wording
from heddle.probing.flow import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit(Change):
    """Plan and install a job; a `preview` reserves and installs nothing.

    `checked`: the edge has found no problem in the request, which takes a second for a large one.
    """

    line: ClassVar[Wording] = lines.submit
    reply: int
    request: JobRequest
    preview: bool = False
    checked: bool = False
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggest(Printed):
    """Suggest NICs for a job; nothing is reserved or installed. `checked` as for Submit.

    `withheld` are NICs that are not suggested: those of other tenants.
    """

    line: ClassVar[Wording] = lambda e: Line(f"caller {e.reply}: suggest places for {e.shape.ranks} ranks")
    reply: int
    shape: Shape
    checked: bool = False
    withheld: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw(Printed):
    """A caller left before its reply: it has cancelled its call, or the call's deadline has passed."""

    line: ClassVar[Wording] = lambda e: Line(f"caller {e.reply} left")
    reply: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew(Printed):
    """Extend a job's lease; 0 means the default."""

    line: ClassVar[Wording] = lambda e: lines.about(f"caller {e.reply}: renew job {e.job_id}", e.job_id)
    reply: int
    job_id: str
    lease_ms: int = 0
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Change):
    """End a job."""

    line: ClassVar[Wording] = lambda e: lines.about(f"caller {e.reply}: release job {e.job_id}", e.job_id)
    reply: int
    job_id: str
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchUp(Printed):
    """A switch has connected; `ports` holds each port's state (True: up), `installed` the rules it holds already."""

    line: ClassVar[Wording] = lambda e: Line(f"switch {e.switch} connected, {len(e.installed.rules)} rules installed")
    switch: str
    ports: Mapping[int, bool]
    installed: SwitchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDown(Printed):
    """A switch's session has ended; its rules stay installed (fail-static)."""

    line: ClassVar[Wording] = lambda e: Line(f"switch {e.switch} disconnected: {e.reason}")
    switch: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PortStatus(Printed):
    """A port of a connected switch has changed its state."""

    line: ClassVar[Wording] = lambda e: Line(f"port {e.switch}:{e.port} {'up' if e.up else 'down'}")
    switch: str
    port: int
    up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRead(Printed):
    """The rules of a switch, read again after a failed installation, or for an `audit`."""

    line: ClassVar[Wording] = lambda e: None if e.audit else Line(f"rules of {e.switch} read: {len(e.installed.rules)}")
    switch: str
    installed: SwitchRules
    audit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Change):
    """Take a cable or a switch out of use without loss, or return it (`undrain`); a `dry_run` only replies as if."""

    line: ClassVar[Wording] = lines.drain
    reply: int
    target: str
    undrain: bool = False
    dry_run: bool = False


class FlowsOfJob(NamedTuple):
    """The planned flows of one job on a link: their number, and the ids of the first few."""

    job_id: str
    flows: int
    flow_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HotLink:
    """A link out of a switch port whose egress queue is congested or drops, or was lately; rates in bit/s.

    `planned_bps` is what the flows of `jobs` may send there, from `senders` NICs, and `excess_bps` what other traffic
    there was. `priority` is None for the whole port.
    """

    port: str
    link: str
    priority: int | None
    measured_bps: int
    planned_bps: int
    excess_bps: int
    senders: int = 0
    jobs: tuple[FlowsOfJob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Congested(Printed):
    """The congested links at the end of a sampling period, none if all is well.

    `calm` were congested lately and are not now. `over` are NICs that send more than their jobs' plans, and by how much
    in bit/s; `stale` are ports whose condition is the last known one. `storms` are NICs that send pause without end.
    """

    line: ClassVar[Wording] = lines.congested
    hot: tuple[HotLink, ...]
    calm: tuple[HotLink, ...] = ()
    over: tuple[tuple[str, int], ...] = ()
    stale: tuple[str, ...] = ()
    storms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCable:
    """A bad cable by its id: the share of frames that it loses, the share of its rate that it has, its bad ports.

    Of these, those that lose frames, and those that are slow. `probed` are its directions in which probes of the ping
    mesh were lost, `denied_by` the hosts whose NICs deny paths over it.
    """

    cable: str
    loss: float = 0.0
    rate_share: float = 1.0
    ports: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    probed: tuple[str, ...] = ()
    denied_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CablesJudged(Printed):
    """All cables that telemetry, probes or hosts say are bad, the worst first; a cable that is not named is sound."""

    line: ClassVar[Wording] = lines.cables_judged
    cables: tuple[JudgedCable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved(Printed):
    """The planner's reply to the `effect.Solve` of the same token."""

    line: ClassVar[Wording] = lines.solved
    token: int
    outcome: Replan | Infeasible | HeddleError
    solve_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsFound(Printed):
    """What the search of the `effect.FindPorts` of the same token has found, and the time that it took."""

    line: ClassVar[Wording] = lines.ports_found
    token: int
    found: Found
    search_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsAstray(Printed):
    """Samples of running flows have seen ports that lead elsewhere than planned, of flows from these leaves."""

    leaves: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled(Printed):
    """The reply to the `effect.Compile` of the same token.

    `underlay` has the rules by switch, `differing` the switches where they differ from those before, and `pins` the
    pins of jobs that have flows on failed links, or had them before.
    """

    line: ClassVar[Wording] = lambda e: lines.about(f"underlay compiled: {len(e.differing)} switches differ", *e.pins)
    token: int
    underlay: Mapping[str, SwitchRules]
    differing: frozenset[str]
    pins: Mapping[str, SeveredPins]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested(Printed):
    """The planner's reply to the `effect.Place` of the same token."""

    line: ClassVar[Wording] = lines.suggested
    token: int
    outcome: tuple[Placement, ...] | Infeasible | HeddleError


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed(Printed):
    """Every switch of the `effect.Install` has replied to its last barrier."""

    line: ClassVar[Wording] = lambda e: Line(f"acknowledged in {e.install_ns / 1e6:.1f} ms")
    token: int
    install_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallFailed(Printed):
    """A switch refused a change or left; the `lagging` ones get nothing more before their `SwitchCaughtUp`."""

    line: ClassVar[Wording] = lambda e: Line(f"installation failed on {e.switch}: {e.reason}")
    token: int
    switch: str
    reason: str
    lagging: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallLags(Printed):
    """Some switches have not replied to a barrier of the `effect.Install` for long; it goes on waiting for them."""

    line: ClassVar[Wording] = lambda e: Line(f"no reply to a barrier yet from {', '.join(sorted(e.switches))}")
    token: int
    switches: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCaughtUp(Printed):
    """A switch that lagged when its installation ended has acknowledged all that was sent to it."""

    line: ClassVar[Wording] = lambda e: Line(f"{e.switch} has caught up")
    switch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Printed):
    """Ports of switches hear other peers than before; None is a port that has gone down, and hears nothing."""

    line: ClassVar[Wording] = lambda e: Line(f"{len(e.changes)} ports hear another neighbour")
    changes: Mapping[PortRef, Peer | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed(Printed):
    """The reply to the `effect.Diagnose` of the same token; None where the diagnosis failed."""

    line: ClassVar[Wording] = lambda e: Line(f"cabling: {len(e.verdict.causes) if e.verdict else 'no'} causes found")
    token: int
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFollowed(Printed):
    """The reply to the `effect.Follow` of the same token, where the fabric in force stays."""

    line: ClassVar[Wording] = lambda e: Line(f"the cabling as found is not followed: {e.reason}")
    token: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Printed):
    """Time has passed: leases and the deadlines of waiting callers are checked."""

    line: ClassVar[Wording] = lambda e: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due(Printed):
    """The time of an `effect.Wake` has come: ports return after their hold times, and what was put off begins."""

    line: ClassVar[Wording] = lambda e: None


Event = (
    Submit | Suggest | Withdraw | Renew | Release | Drain | SwitchUp | SwitchDown | PortStatus | RulesRead | Congested |
    CablesJudged | Solved | PortsFound | PortsAstray | Compiled | Suggested | Installed | InstallFailed | InstallLags |
    SwitchCaughtUp | ApplyVpc | DeleteVpc | ApplyPeering | DeletePeering | ApplyBorder | ApplyLoadBalancer |
    DeleteLoadBalancer | ApplyNetwork | BackEndsReported | GatewayUp | GatewayDown | ForgetGateway |
    DropUnknownVpcs | GatewayAcked | Heard | Diagnosed | NotFollowed | Tick |
    Due
)  # fmt: skip
