"""Steer by rules in switches: an underlay that reads source ports, pins, and barriers before a job runs."""

from collections.abc import Iterable
from typing import Any

from heddle.controller.brain.install import Outcome, path_switches
from heddle.controller.brain.state import Job, State
from heddle.controller.brain.steering.interface import Explanation, Steering, Step, paths_in
from heddle.controller.brain.steering.openflow.compiling import compiled, start_compile
from heddle.controller.brain.steering.openflow.pins import with_pins
from heddle.controller.brain.steering.openflow.tracing import explained
from heddle.controller.model.effect import Solve
from heddle.controller.model.event import Compiled
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.plan import FlowPlan, Replan
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.rule import SwitchRules
from heddle.controller.planner.ground.jit import Flags
from heddle.controller.planner.ports.reading import PortReader, strayed
from heddle.controller.rules.compile import compile_fabric


class OpenFlowSteering(Steering):
    """Rules in switches, whose barrier replies a new job awaits."""

    def underlay(self, fabric: Fabric, layout: SteeringLayout, health: Health) -> dict[str, SwitchRules]:
        """Return the rules by which a source port selects a path."""
        return compile_fabric(fabric, layout, health, ())

    def start_compile(self, state: State, now: int) -> Outcome:
        """Compile in a process of its own."""
        return start_compile(state, now)

    def completed(self, fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
        """Add the pins, and the rates while switches move flows."""
        return with_pins(fabric, problem, plan)

    def on_event(self, state: State, event: Any, now: int) -> Step:
        """Use a new underlay."""
        return Step(*compiled(state, event, now)) if isinstance(event, Compiled) else Step(state)

    def awaited(self, links: Iterable[str]) -> frozenset[str]:
        """Return the switches on the paths, also those where nothing changes."""
        return path_switches(links)

    def strayed(self, reader: PortReader, job: Job) -> Flags:
        """Return which flows the rules of a fabric would lead elsewhere: rules read the path from the port."""
        return strayed(reader, paths_in(reader, job), by_port=True, stranded=job.stranded)

    def explained(self, state: State, job: Job, flow: FlowPlan) -> Explanation:
        """Trace the flow through the wanted rules."""
        return explained(state, flow)
