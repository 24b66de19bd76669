"""Bad cables by several sources, over a restart."""

from types import SimpleNamespace
from typing import Any

from heddle.controller.brain.begin import begin
from heddle.controller.brain.durable import KnownBadCable, restored
from heddle.controller.brain.settings import Settings
from heddle.controller.model.event import CablesJudged, JudgedCable
from heddle.controller.runtime.judged_cables import JudgedBy, JudgedCables
from tests.unit.brain.driver import small_fabric

COUNTED = JudgedCable(cable="leaf2:2>spine2:2", loss=0.01, ports=("leaf2:2",), lossy=("leaf2:2",))
PROBED = JudgedCable(cable="leaf1:1>spine1:1", loss=0.02, probed=("spine1:1>leaf1:1",))


def started_again(**settings):
    """Return what judges cables after a restart, and what it posts."""
    known = {each.cable: KnownBadCable(found=each, left_out=False) for each in (COUNTED, PROBED)}
    values: dict[str, Any] = {"known_bad_cable": known, "bad_cable": dict.fromkeys(known, 10**8)}
    posted: list[CablesJudged] = []
    loop: Any = SimpleNamespace(state=restored(begin(small_fabric(), Settings(**settings)), values, 0), post=posted.append)
    judged = JudgedCables(loop)
    judged.begin()
    return judged, posted


def test_after_a_restart_each_source_clears_what_it_said_alone():
    judged, posted = started_again()
    judged.report(JudgedBy.PROBES, ())
    judged.report(JudgedBy.TELEMETRY, ())
    assert posted == [CablesJudged(cables=(COUNTED,)), CablesJudged(cables=())]


def test_what_probes_showed_is_kept_over_a_restart_also_where_telemetry_may_not_move_flows():
    judged, posted = started_again(acts_on_telemetry=False)
    judged.report(JudgedBy.TELEMETRY, ())
    assert all(each.cables == (PROBED,) for each in posted)
    judged.report(JudgedBy.PROBES, ())
    assert posted[-1] == CablesJudged(cables=())
