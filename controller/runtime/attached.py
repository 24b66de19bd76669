"""The programs that are attached to a controller, and what they have reported last."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from heddle.controller.model.event import JudgedCable
from heddle.controller.model.observed import NO_REPORTS, Reports
from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.controller.runtime.gateways import Gateways


@dataclass(slots=True, kw_only=True)
class ReportedFlows:
    """The newest report of each host's queue pairs, and counts of what hosts have reported, by name."""

    newest: Reports = NO_REPORTS
    counts: Counter[str] = field(default_factory=Counter)
    judge: Callable[[tuple[JudgedCable, ...]], None] | None = None
    """Takes the cables over which hosts deny paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """Sessions of gateways and probe agents, and reports of hosts."""

    probe_agents: ProbeAgents
    gateways: Gateways = field(default_factory=Gateways)
    flows: ReportedFlows = field(default_factory=ReportedFlows)
