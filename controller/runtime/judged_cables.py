"""Post which cables are bad by all that judges them: telemetry, the probes of the ping mesh, and denied paths."""

from dataclasses import replace
from enum import StrEnum

from heddle.controller.model.event import JudgedCable
from heddle.controller.runtime.loop import Loop
from heddle.controller.views.bad_cables import judged_by_all

DENIED_SHARE = 0.001
"""More than none: flows without another path keep theirs."""


class JudgedBy(StrEnum):
    """What judges cables."""

    TELEMETRY = "telemetry"
    PROBES = "probes"
    HOSTS = "hosts"


def denied_cable(cable: str, hosts: tuple[str, ...]) -> JudgedCable:
    """Return what hosts say of a cable over which they deny paths: nothing passes, so it has next to nothing left."""
    return JudgedCable(cable=cable, loss=1.0, rate_share=DENIED_SHARE, denied_by=hosts)


class JudgedCables:
    """The newest report of each source."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._newest: dict[JudgedBy, tuple[JudgedCable, ...]] = {}

    def begin(self) -> None:
        """Begin with what was known before the start: the first report of each source replaces what it said then."""
        known = [bad.found for bad in self._loop.state.bad_cables.values()]
        self._newest = {
            JudgedBy.TELEMETRY: tuple(replace(each, probed=(), denied_by=()) for each in known if each.ports),
            JudgedBy.PROBES: tuple(
                JudgedCable(cable=each.cable, loss=each.loss, probed=each.probed) for each in known if each.probed
            ),
            JudgedBy.HOSTS: tuple(denied_cable(each.cable, each.denied_by) for each in known if each.denied_by),
        }

    def report(self, source: JudgedBy, cables: tuple[JudgedCable, ...]) -> None:
        """Take all cables that a source says are bad; post what differs from what the loop knows."""
        self._newest[source] = cables
        judged = judged_by_all(self._newest.values())
        if judged.cables != tuple(bad.found for bad in self._loop.state.bad_cables.values()):
            self._loop.post(judged)
