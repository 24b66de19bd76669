"""The input of every document of the page: the newest frozen values of the controller at one time."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from heddle.controller.brain.state import State
from heddle.controller.dashboard.documents.shapes.state import TelemetryAge
from heddle.controller.dashboard.sources import Sources
from heddle.controller.model.observed import Reports
from heddle.controller.runtime.feeds import Announced
from heddle.controller.runtime.telemetry import TelemetryTick
from heddle.controller.views.isolation import Checked


class GatewayReport(NamedTuple):
    """The messages (of the gRPC API) that a gateway sent last in its session."""

    hello: Any
    counters: Any
    last_seen_unix_ms: int


class Moment(NamedTuple):
    """The controller's state, the newest tick of telemetry (None where there is none), and what others reported."""

    now_unix_ms: int
    state: State
    tick: TelemetryTick | None
    telemetry_configured: bool
    reports: Reports
    announced: tuple[Announced, ...] = ()
    gateways: Mapping[str, GatewayReport] = {}
    checked: Mapping[str, Checked] = {}

    @classmethod
    def of(cls, sources: Sources, *, is_whole: bool = False) -> "Moment":
        """Return the moment that is now; `is_whole`: with generations of jobs and reports of gateways."""
        loop, feeds, attached = sources.loop, sources.feeds, sources.attached
        found = cls(
            loop.now_unix_ms(), loop.state, feeds.telemetry.ticks.value, feeds.telemetry.configured,
            attached.flows.newest, checked=dict(attached.gateways.checked),
        )  # fmt: skip
        if not is_whole:
            return found
        gateways = {
            name: GatewayReport(session.hello, session.counters, session.last_seen_unix_ms)
            for name, session in attached.gateways.by_id.items()
        }
        return found._replace(announced=tuple(feeds.announced), gateways=gateways)

    def telemetry(self, age_ms: int | None) -> TelemetryAge:
        """Return what the page says of telemetry of this age."""
        acts = self.state.settings.acts_on_telemetry
        return {"configured": self.telemetry_configured, "age_ms": age_ms, "acts": acts}

    @property
    def age_ms(self) -> int | None:
        """Return the age of the newest tick."""
        return None if self.tick is None else max(0, self.now_unix_ms - self.tick.snapshot.now_ns // 1_000_000)
