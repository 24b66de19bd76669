"""A fabric whose switches lose sessions, ports and rules, with a brain whose effects are performed late, in any order.

What is true of the network (sessions, ports that are cut, rules held) is kept apart from what the brain knows of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide
from heddle.controller.model.effect import Compile, Effect, Install, Place, ReadRules, Solve
from heddle.controller.model.event import (
    Congested,
    Event,
    InstallFailed,
    PortStatus,
    SwitchDown,
    SwitchUp,
    Tick,
)
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.health import Health
from heddle.controller.model.rule import Cookie, CookieKind, FlowRule, SwitchRules
from heddle.controller.planner.online import OnlinePlanner
from tests.unit.brain.driver import Driver

OUTSIDE = (Solve, Compile, Install, ReadRules, Place)
"""The effects that take time: others are performed at once."""
QUIET_MS = 70_000
"""Longer than every hold time, pause and grace time."""


@dataclass
class FaultyFabric(Driver):
    """A Driver with `sessions` (0: none) by switch, `down` ports, and `late` effects and events."""

    delays: frozenset[type] = frozenset()
    late: list[tuple[Effect | Event, Mapping[str, int]]] = field(default_factory=list)
    down: set[PortRef] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sessions: dict[str, int] = dict.fromkeys(self.held, 0)
        self.begun = 0
        ports = [end for cable in self.fabric.cables for end in (cable.lower, cable.upper)]
        self.ports: list[PortRef] = [*ports, *(nic.port for nic in self.fabric.nics)]
        self.older_pins: set[tuple[str, FlowRule]] = set()
        self.sent_in: dict[int, Mapping[str, int]] = {}
        """By the token of an installation: the sessions in which it is sent."""
        self.at_sending: Mapping[str, int] = {}

    def feed(self, event: Event) -> None:
        """Decide one event and what follows at once from it; what is delayed is kept."""
        events = [event]
        while events:
            self.state, effects = decide(self.state, events.pop(0), self.now)
            for effect in effects:
                if isinstance(effect, OUTSIDE) and type(effect) in self.delays:
                    self.late.append((effect, dict(self.sessions)))
                else:
                    events += self.perform(effect)

    def something_late_happens(self, place: int, *, replied: bool) -> None:
        """Perform a late effect, whose result may be late too, or deliver a late event; `place` is any number."""
        if not self.late:
            return
        what, sessions = self.late.pop(place % len(self.late))
        if not isinstance(what, OUTSIDE):
            self.feed(cast(Event, what))
            return
        for event in self._outside(what, sessions):
            first = isinstance(event, InstallFailed) and event.lagging  # before `SwitchCaughtUp`
            if replied or first:
                self.feed(event)
            else:
                self.late.append((event, sessions))

    def _outside(self, effect: Effect, sessions: Mapping[str, int]) -> list[Event]:
        """Perform an effect that was returned in these sessions; what a later session gets is not part of it."""
        if isinstance(effect, ReadRules):
            lives = self.sessions[effect.switch] == sessions[effect.switch] != 0
            return super().perform(effect) if lives else []
        if isinstance(effect, Install):
            self.sent_in[effect.token] = dict(sessions)
        return super().perform(effect)

    def _sent(self, effect: Install, first: int) -> list[Event]:
        self.at_sending = self.sent_in[effect.token]
        return super()._sent(effect, first)

    def refuses(self, switch: str) -> bool:
        """Return whether a switch refuses changes, or has not the session any more to which they were sent."""
        return switch in self.refuse or not self.sessions[switch] == self.at_sending[switch] != 0

    def perform(self, effect: Effect) -> list[Event]:
        """Perform an effect at once."""
        return self._outside(effect, self.sessions)

    def connect(self, switch: str) -> None:
        """Begin a session, in place of the one before, if any."""
        self.begun += 1
        self.sessions[switch] = self.begun
        ports = {port.number: port not in self.down for port in self.ports if port.switch == switch}
        self.session_ends(switch, SwitchUp(switch=switch, ports=ports, installed=self.held[switch]))

    def connect_all(self) -> None:
        """Begin a session with every switch."""
        for switch in self.held:
            self.connect(switch)

    def lose(self, switch: str, kept: float = 1.0) -> None:
        """End a session; the switch keeps that fraction of its rules."""
        rules, groups = self.held[switch].rules, self.held[switch].groups
        if kept < 1:
            self.held[switch] = SwitchRules(
                rules=rules[: int(kept * len(rules))], groups=groups[: int(kept * len(groups))]
            )
            self._forget_older_pins(switch)
        if self.sessions[switch]:
            self.sessions[switch] = 0
            self.session_ends(switch, SwitchDown(switch=switch, reason="lost by the test"))

    def turn(self, port: PortRef, *, up: bool) -> None:
        """Cut or repair a port, as far as the state of its cable changes; connected ends report it."""
        ends = [port, *self._peer(port)]
        (self.down.difference_update if up else self.down.update)(ends)
        for end in ends:
            if self.sessions[end.switch]:
                self.feed(PortStatus(switch=end.switch, port=end.number, up=up))

    def _peer(self, port: PortRef) -> list[PortRef]:
        cable = self.fabric.cable_by_port.get(port)
        return [end for end in (cable.lower, cable.upper) if end != port] if cable is not None else []

    def strange(self, switch: str, place: int) -> None:
        """Let a stranger delete one rule of a switch, change one, and add one."""
        rules = list(self.held[switch].rules)
        if not rules:
            return
        gone = rules.pop(place % len(rules))
        rules.append(replace(gone, priority=gone.priority + 1, cookie=place % 7, actions=()))
        if len(rules) > 1:
            rules[0] = replace(rules[0], actions=rules[1].actions)
        by_key = {rule.key: rule for rule in rules}
        self.held[switch] = SwitchRules(rules=tuple(by_key.values()), groups=self.held[switch].groups)
        self._forget_older_pins(switch)

    def restart(self) -> None:
        """Start another controller process: it knows no job; switches have received a part of what was under way."""
        for effect, sessions in self.late:
            if isinstance(effect, Install):
                self._outside(replace(effect, steps=effect.steps[:1]), sessions)
        self.late.clear()
        self.stuck.clear()
        self.behind.clear()
        self.sessions = dict.fromkeys(self.held, 0)
        self.state = begin(self.fabric, self.settings, self.now)
        self.planner, self.previewer = OnlinePlanner(self.fabric), OnlinePlanner(self.fabric)
        self.older_pins = {
            (switch, rule) for switch, rules in self.held.items() for rule in rules.rules if _is_pin(rule.cookie)
        }
        self.connect_all()

    def _forget_older_pins(self, switch: str) -> None:
        self.older_pins = {pin for pin in self.older_pins if pin[0] != switch}

    def lost_pins(self) -> list[str]:
        """Return the pins from before the start that no longer exist; those that another has replaced do not count."""
        there = {(switch, rule.key): rule for switch, rules in self.held.items() for rule in rules.rules}
        self.older_pins = {
            (switch, rule) for switch, rule in self.older_pins if there.get((switch, rule.key), rule) == rule
        }
        return sorted(str(rule) for switch, rule in self.older_pins if (switch, rule.key) not in there)

    def calm_down(self) -> None:
        """End all disturbances but cuts: what is late happens, switches connect, and time passes."""
        self.delays, self.refuse = frozenset(), set()
        for switch in sorted(self.mute):
            self.speak(switch)
        self._settle()
        for switch in self.held:
            if not self.sessions[switch] or self.state.switches[switch].failures:
                self.connect(switch)
        for _ in range(3):
            self.now += QUIET_MS
            self.feed(Congested(hot=()))
            self.feed(Tick())
            self._settle()

    def _settle(self) -> None:
        while self.late:
            self.something_late_happens(0, replied=True)

    @property
    def dead(self) -> Health:
        """Return what is out of use in truth."""
        cables = {self.fabric.cable_by_port[port].id for port in self.down if port in self.fabric.cable_by_port}
        nics = {self.fabric.nic_by_port[port].id for port in self.down if port in self.fabric.nic_by_port}
        return self.fabric.failed.union(Health(down_cables=frozenset(cables), down_nics=frozenset(nics)))


def _is_pin(cookie: int) -> bool:
    unpacked = Cookie.unpack(cookie)
    return unpacked is not None and unpacked.kind is CookieKind.PIN
