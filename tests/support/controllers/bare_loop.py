"""A control loop without servers, and what its HTTP interface reads."""

from typing import Any

from heddle.controller.brain.state import State
from heddle.controller.dashboard.sources import Sources
from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.controller.runtime.attached import Attached
from heddle.controller.runtime.clock import SystemClock
from heddle.controller.runtime.feeds import Feeds
from heddle.controller.runtime.limits.shares import Shares
from heddle.controller.runtime.loop import Loop, Performers
from heddle.controller.runtime.port_search import PortSearch
from heddle.controller.runtime.ports import Clock
from heddle.controller.runtime.telemetry import Telemetry


def bare_loop(state: State, planner: Any = None, compiler: Any = None, clock: Clock | None = None) -> Loop:
    """Return a loop without edges, whose planner and compiler need to be given only where they are called."""
    clock = clock or SystemClock()
    performers = Performers(planner=planner, compiler=compiler, port_search=PortSearch(clock), feeds=Feeds(clock=clock))
    return Loop(state, performers, clock=clock)


def sources_of(state: State, telemetry: Telemetry) -> Sources:
    """Return what the HTTP interface reads of a controller with this state and telemetry."""
    feeds = Feeds(clock=SystemClock(), telemetry=telemetry)
    attached = Attached(probe_agents=ProbeAgents(feeds.note))
    return Sources(loop=bare_loop(state), feeds=feeds, attached=attached, previews=Shares("previews", 1))
