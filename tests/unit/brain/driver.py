"""Run the brain without a network: perform its effects at once on switches that are plain values."""

from collections.abc import Callable
from dataclasses import dataclass, field

from heddle.controller.brain.begin import begin
from heddle.controller.brain.cabling.judging import judge
from heddle.controller.brain.decide import decide
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import State, wanted
from heddle.controller.brain.steering.openflow.compiling import compile_beside
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import (
    Announce,
    Compile,
    Condition,
    Diagnose,
    Effect,
    FindPorts,
    GiveUp,
    Install,
    Note,
    Place,
    ReadRules,
    Reply,
    Response,
    Solve,
)
from heddle.controller.model.error import HeddleError
from heddle.controller.model.event import (
    Diagnosed,
    Event,
    Installed,
    InstallFailed,
    InstallLags,
    PortsFound,
    PortStatus,
    RulesRead,
    Solved,
    Submit,
    Suggested,
    SwitchCaughtUp,
    SwitchDown,
    SwitchUp,
    Tick,
)
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair, Steering
from heddle.controller.model.plan import Infeasible, JobPlan, Replan
from heddle.controller.model.rule import SwitchRules
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.planner.placement.suggest import suggest
from heddle.controller.recording.batch import Turn
from tests.fakes.probing.hashing_switches import HashingSwitches
from tests.support.fabrics.rule_changes import apply_changes


def small_fabric(spines: int = 2, leaves: int = 4, hosts_per_leaf: int = 2) -> Fabric:
    """Two tiers, as the contract numbers them, 1 Gbit/s everywhere."""
    switches = [Switch(id=f"spine{s}", role=Role.SPINE, datapath_id=s) for s in range(1, spines + 1)]
    switches += [Switch(id=f"leaf{n}", role=Role.LEAF, datapath_id=spines + n) for n in range(1, leaves + 1)]
    cables = [
        Cable(lower=PortRef(f"leaf{n}", s), upper=PortRef(f"spine{s}", n), capacity_bps=10**9)
        for n in range(1, leaves + 1)
        for s in range(1, spines + 1)
    ]
    nics = [
        Nic(
            id=f"h{h + 1}-n0",
            host=f"h{h + 1}",
            ip=0x0A000001 + h,
            mac=0x020000000001 + h,
            port=PortRef(f"leaf{h // hosts_per_leaf + 1}", spines + 1 + h % hosts_per_leaf),
            capacity_bps=10**9,
        )
        for h in range(leaves * hosts_per_leaf)
    ]
    return Fabric(name="small", switches=tuple(switches), cables=tuple(cables), nics=tuple(nics))


def shift_job(job_id: str, ranks: int = 8, by: int = 2, **more: object) -> JobRequest:
    """Every rank sends to the one `by` further on: with two hosts a leaf, every flow crosses leaves."""
    pairs = tuple(RankPair(src_rank=i, dst_rank=(i + by) % ranks) for i in range(ranks))
    wanted_flows = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs)
    steering = more.pop("steering", Steering.SOURCE_PORT)
    assert isinstance(steering, Steering)
    return JobRequest(
        job_id=job_id,
        ranks=tuple(f"h{i + 1}-n0" for i in range(ranks)),
        collectives=(wanted_flows,),
        steering=steering,
        **more,  # type: ignore[arg-type]
    )


@dataclass
class Driver:
    """Feeds events to the brain and performs what it returns; `refuse` names switches that fail installations.

    Those in `mute` process what they get and reply to no barrier; `speak` ends that.
    """

    fabric: Fabric
    settings: Settings = field(default_factory=Settings)
    now: int = 1_000_000
    refuse: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    hold: tuple[type, ...] = ()
    on_turn: Callable[[Turn], None] = lambda turn: None
    hashing: HashingSwitches | None = None

    def __post_init__(self) -> None:
        self.state: State = begin(self.fabric, self.settings)
        self.planner, self.previewer = OnlinePlanner(self.fabric), OnlinePlanner(self.fabric)
        self.held: dict[str, SwitchRules] = {switch.id: SwitchRules() for switch in self.fabric.switches}
        self.replies: dict[int, list[Response | HeddleError]] = {}
        self.announced: list[JobPlan] = []
        self.notes: list[Note] = []
        self.conditions: dict[str, str] = {}
        """The conditions that are raised: the kind of each by its text."""
        self.effects: list[Effect] = []
        self.waiting: list[Effect] = []
        self.stuck: dict[int, tuple[Install, int]] = {}
        """By token: an installation that waits for a mute switch, and the number of its steps that were sent."""
        self.behind: set[str] = set()
        """Mute switches that an installation has left behind."""

    def connect_all(self) -> None:
        """Let every switch connect with all ports up."""
        for switch in self.fabric.switches:
            self.feed(SwitchUp(switch=switch.id, ports={}, installed=self.held[switch.id]))

    def feed(self, event: Event) -> None:
        """Decide one event and everything that follows from it."""
        events = [event]
        while events:
            before, event = self.state, events.pop(0)
            self.state, effects = decide(before, event, self.now)
            self.on_turn(Turn(before=before, unix_ms=self.now, events=(event,), effects=effects))
            self.effects += effects
            for effect in effects:
                events += self.perform(effect) if not isinstance(effect, self.hold) else self._keep(effect)

    def port_up(self, switch: str, port: int) -> None:
        """Let a port come up, and its hold time pass."""
        self.feed(PortStatus(switch=switch, port=port, up=True))
        self.now += self.settings.hold_ms << 6
        self.feed(Tick())

    def _keep(self, effect: Effect) -> list[Event]:
        self.waiting.append(effect)
        return []

    def release_held(self) -> None:
        """Perform the effects that were held back."""
        waiting, self.waiting, self.hold = self.waiting, [], ()
        for effect in waiting:
            for event in self.perform(effect):
                self.feed(event)

    def perform(self, effect: Effect) -> list[Event]:
        """Perform one effect and return what comes of it."""
        act: Callable[[Effect], list[Event]] = getattr(self, f"_{type(effect).__name__.lower()}", lambda _: [])
        return act(effect)

    def _solve(self, effect: Solve) -> list[Event]:
        outcome: Replan | Infeasible | HeddleError
        planner = self.previewer if effect.preview or effect.converge else self.planner
        try:
            outcome = planner.solve(
                effect.requests, health=effect.health, kept=effect.kept, limit=effect.limit, subject=effect.subject,
                background=effect.background, degraded=effect.degraded, has_happened=effect.has_happened,
                amend=effect.amend, converge=effect.converge,
            )  # fmt: skip
        except HeddleError as error:
            outcome = error
        if isinstance(outcome, Replan):
            outcome = steering_of(self.fabric).completed(self.fabric, effect, outcome)
        return [Solved(token=effect.token, outcome=outcome, solve_ns=5)]

    def _findports(self, effect: FindPorts) -> list[Event]:
        assert self.hashing is not None
        return [PortsFound(token=effect.token, found=self.hashing.found(effect.flows, effect.ways), search_ns=11)]

    def _compile(self, effect: Compile) -> list[Event]:
        return [compile_beside(self.fabric, effect)]

    def _diagnose(self, effect: Diagnose) -> list[Event]:
        return [Diagnosed(token=effect.token, verdict=judge(self.fabric, effect))]

    def _condition(self, effect: Condition) -> list[Event]:
        if effect.raised:
            assert effect.text not in self.conditions
            self.conditions[effect.text] = effect.kind
        else:
            del self.conditions[effect.text]
        return []

    def _place(self, effect: Place) -> list[Event]:
        try:
            outcome = suggest(
                self.fabric, effect.shape, health=effect.health, kept=effect.kept, degraded=effect.degraded
            )
        except HeddleError as error:
            return [Suggested(token=effect.token, outcome=error)]
        return [Suggested(token=effect.token, outcome=outcome)]

    def _install(self, effect: Install) -> list[Event]:
        return self._sent(effect, 0)

    def _sent(self, effect: Install, first: int) -> list[Event]:
        """Send the steps from a number on; those after one with a mute switch wait."""
        for number, step in enumerate(effect.steps[first:], first + 1):
            for switch, changes in step.changes.items():
                if self.refuses(switch):
                    mute = frozenset(step.changes.keys() & self.mute)
                    self.behind |= mute
                    reason = "refused by the test"
                    return [InstallFailed(token=effect.token, switch=switch, reason=reason, lagging=mute)]
                self.held[switch] = apply_changes(self.held[switch], changes)
            if mute := frozenset(step.changes.keys() & self.mute):
                self.stuck[effect.token] = effect, number
                return [InstallLags(token=effect.token, switches=mute)]
        return [Installed(token=effect.token, install_ns=7)]

    def refuses(self, switch: str) -> bool:
        """Return whether a switch fails an installation now."""
        return switch in self.refuse

    def _giveup(self, effect: GiveUp) -> list[Event]:
        if effect.token not in self.stuck:
            return []
        install, sent = self.stuck.pop(effect.token)
        mute = frozenset(install.steps[sent - 1].changes.keys() & self.mute)
        self.behind |= mute
        return [InstallFailed(token=effect.token, switch=min(mute), reason="no reply to its barrier yet", lagging=mute)]

    def speak(self, switch: str) -> None:
        """Let a mute switch reply to its barriers."""
        self.mute.discard(switch)
        for token, (install, sent) in list(self.stuck.items()):
            if not install.steps[sent - 1].changes.keys() & self.mute:
                del self.stuck[token]
                for event in self._sent(install, sent):
                    self.feed(event)
        if switch in self.behind:
            self.behind.discard(switch)
            self.feed(SwitchCaughtUp(switch=switch))

    def miss_barrier(self, switch: str) -> None:
        """End the session of a mute switch, as a barrier that is missed does."""
        self.session_ends(switch, SwitchDown(switch=switch, reason="no reply to a barrier"))

    def session_ends(self, switch: str, event: Event) -> None:
        """Feed the event that ends a session, and then the failures of what waited for it."""
        self.behind.discard(switch)
        failed = []
        for token, (install, sent) in list(self.stuck.items()):
            mute = frozenset(install.steps[sent - 1].changes.keys() & self.mute)
            if switch in mute:
                del self.stuck[token]
                self.behind |= mute - {switch}
                reason = "no reply to a barrier"
                failed.append(InstallFailed(token=token, switch=switch, reason=reason, lagging=mute - {switch}))
        for each in (event, *failed):
            self.feed(each)

    def _readrules(self, effect: ReadRules) -> list[Event]:
        return [RulesRead(switch=effect.switch, installed=self.held[effect.switch], audit=effect.audit)]

    def _reply(self, effect: Reply) -> list[Event]:
        self.replies.setdefault(effect.reply, []).append(effect.outcome)
        return []

    def _announce(self, effect: Announce) -> list[Event]:
        self.announced.append(effect.plan)
        return []

    def _note(self, effect: Note) -> list[Event]:
        self.notes.append(effect)
        return []

    def reply_to(self, reply: int) -> Response | HeddleError:
        """Return the only reply to a caller."""
        (only,) = self.replies[reply]
        return only

    def differing(self) -> list[str]:
        """Return the switches that do not hold the wanted rules."""
        return [switch for switch in self.held if _set(self.held[switch]) != _set(wanted(self.state, switch))]


def _set(rules: SwitchRules) -> tuple[frozenset[object], frozenset[object]]:
    return frozenset(rules.rules), frozenset(rules.groups)


def submitted(driver: Driver, request: JobRequest, reply: int = 1) -> JobPlan:
    """Submit a job and return its plan."""
    driver.feed(Submit(reply=reply, request=request))
    plan = driver.reply_to(reply)
    assert isinstance(plan, JobPlan), plan
    return plan
