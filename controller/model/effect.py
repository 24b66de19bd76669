"""Define the effects of the brain: values that the runtime performs, in the order in which they were returned.

What is `Held` waits until the journal has what came before it; `line` is how `heddle replay` prints a decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from heddle.controller.model import lines
from heddle.controller.model.cabling import CablingPolicy, Peer
from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.found_cabling import Rejoined
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import NO_MOVES, MoveLimit
from heddle.controller.model.placement import Placement, Shape
from heddle.controller.model.plan import Amend, Certificate, JobFlows, JobPlan
from heddle.controller.model.rule import Step, SwitchRules
from heddle.controller.model.traits import Held, Line, Printed, Wording
from heddle.probing.flow import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Solve(Printed):
    """Plan `requests` beside the jobs in `kept`, outside of the loop's process; `event.Solved` returns the result.

    Flows of kept jobs move as far as `limit` allows, on behalf of the job `subject`. `background` is the load in bit/s
    that traffic of no job puts on links. What `has_happened` cannot be refused: a job may then exceed its
    `require_utilisation`. `numbers` has the job number of every job with pins. A `preview` uses another worker, and so
    does a request to `converge`, which plans the jobs in `kept` all again. An `urgent` request does not wait for one
    before it. With `amend` only the flows that it names get other paths. On a fabric that hashes, running flows from
    the leaves in `confirm` have their ports confirmed. `degraded` are the rates in bit/s that bad cables have left, by
    id.
    """

    line: ClassVar[Wording] = lines.solve
    token: int
    requests: tuple[JobRequest, ...]
    kept: tuple[tuple[JobRequest, JobFlows], ...]
    health: Health
    limit: MoveLimit = NO_MOVES
    subject: str = ""
    has_happened: bool = False
    background: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    preview: bool = False
    urgent: bool = False
    amend: Amend | None = None
    confirm: frozenset[str] = frozenset()
    degraded: Mapping[str, int] = field(default_factory=dict)
    converge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPorts(Printed):
    """Find by probes the source ports that lead over the paths of flows; `event.PortsFound` returns them.

    A flow has at most `ways` paths. A search that is still under way ends: nothing waits for it any more.
    """

    line: ClassVar[Wording] = lambda e: Line(f"find the source ports of {len(e.flows)} flows by probes")
    token: int
    flows: tuple[Wanted, ...]
    ways: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile(Printed):
    """Compile the underlay for a state of the fabric, outside of the loop's process; `event.Compiled` returns it.

    `before` is the underlay now, compiled for `base`. `pinned` are the jobs with pins: request, flows, number, and
    whether some pins are missing, because their flows were on failed links.
    """

    line: ClassVar[Wording] = lambda e: Line("compile the underlay for what is out of use now")
    token: int
    health: Health
    base: Health
    before: Mapping[str, SwitchRules]
    pinned: tuple[tuple[JobRequest, JobFlows, int, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Printed):
    """Find places for a job beside the jobs in `kept`, in a worker thread; `event.Suggested` returns the result.

    `degraded` are the rates in bit/s that bad cables have left, by id.
    """

    line: ClassVar[Wording] = lambda e: Line(f"find places for {e.shape.ranks} ranks beside {len(e.kept)} jobs")
    token: int
    shape: Shape
    kept: tuple[tuple[JobRequest, JobFlows], ...]
    health: Health
    degraded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Install(Printed):
    """Send these steps, each followed by barriers; `event.Installed` or `event.InstallFailed` returns the result.

    They are sent after so many milliseconds: hosts then follow what was published before.
    """

    line: ClassVar[Wording] = lines.install
    token: int
    steps: tuple[Step, ...]
    after_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp(Printed):
    """End an installation that waits for switches that lag: other work waits. `event.InstallFailed` names them."""

    line: ClassVar[Wording] = lambda e: Line("end the installation without the switches that lag")
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules(Printed):
    """Read a switch's rules; `event.RulesRead` returns them, no event follows where the switch has disconnected.

    An `audit` compares them with what was installed; it is the number of the newest installation when it began.
    """

    line: ClassVar[Wording] = lambda e: None
    switch: str
    audit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The response to a drain: how many flows moved, of which jobs, and the certificate of the plan without the target.

    With `undrain` the target has returned to use.
    """

    flows_moved: int
    certificate: Certificate
    undrain: bool = False
    jobs: tuple[str, ...] = ()


Response = JobPlan | int | tuple[Placement, ...] | Drained
"""A job's plan, the number of flows released, places for a job, the generation of a network change, or a drain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist(Printed):
    """Write values to the journal, by kind and id; None where one is gone.

    Effects of this turn and later ones that are `Held` wait until it is written.
    """

    line: ClassVar[Wording] = lambda e: Line(f"write {len(e.values)} values to the journal")
    values: Mapping[tuple[str, str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake(Printed):
    """Post an `event.Due` after so many milliseconds."""

    line: ClassVar[Wording] = lambda e: None
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Held):
    """Return a response or an error to a caller."""

    line: ClassVar[Wording] = lines.reply
    reply: int
    outcome: Response | HeddleError


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce(Held):
    """Publish a job's new generation or state to its watchers."""

    line: ClassVar[Wording] = lambda e: lines.about(f"publish {lines.generation(e.plan)}", e.plan.job_id)
    plan: JobPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChanged(Printed):
    """Publish a new topology to its watchers."""

    line: ClassVar[Wording] = lambda e: None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Printed):
    """Write a line to the log; `severity` is info, warning or error."""

    line: ClassVar[Wording] = lambda e: lines.about(f"{e.severity}: {e.subject}: {e.text}", e.subject)
    severity: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnose(Printed):
    """Compare the heard cabling with the fabric's, in a worker thread; `event.Diagnosed` returns the verdict.

    `down` are the ports that are down, `before` what they heard last, `health` what is out of use for other reasons,
    `left_out` the cables that are out of use for their cabling: at most a share of `max_percent` of all may be.
    """

    line: ClassVar[Wording] = lambda e: Line(f"diagnose the cabling from what {len(e.heard)} ports hear")
    token: int
    heard: Mapping[PortRef, Peer]
    before: Mapping[PortRef, Peer]
    down: frozenset[PortRef]
    health: Health
    left_out: frozenset[str]
    policy: CablingPolicy
    max_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow(Printed):
    """Put the fabric in force with cables as they were found: this life ends, or `event.NotFollowed` says why not."""

    line: ClassVar[Wording] = lambda e: Line(f"follow {sum(len(each.gone) for each in e.found)} cables as found")
    token: int
    found: tuple[Rejoined, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Printed):
    """Publish that a condition of a kind is raised, or cleared."""

    line: ClassVar[Wording] = lambda e: Line(f"{e.kind} {'raised' if e.raised else 'cleared'}: {e.text}")
    kind: str
    subject: str
    text: str
    raised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworksChanged(Held):
    """Notify gateways and hosts of a new generation of virtual networks."""

    line: ClassVar[Wording] = lambda e: Line(f"publish generation {e.generation} of the virtual networks")
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession(Printed):
    """End a gateway's session, because the same gateway has attached again."""

    line: ClassVar[Wording] = lambda e: Line(f"end session {e.session} of {e.gateway_id}")
    gateway_id: str
    session: int


Effect = (
    Solve
    | FindPorts
    | Compile
    | Place
    | Install
    | GiveUp
    | ReadRules
    | Reply
    | Announce
    | TopologyChanged
    | NetworksChanged
    | EndSession
    | Note
    | Wake
    | Persist
    | Diagnose
    | Follow
    | Condition
)
