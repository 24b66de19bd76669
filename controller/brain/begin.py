"""Begin: the state of a controller that knows its fabric and nothing else."""

from dataclasses import replace

from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import State, SwitchState
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.steering import layout_of


def begin(fabric: Fabric, settings: Settings | None = None, started_unix_ms: int | None = None) -> State:
    """Return the initial state: no switch connected, no job, the underlay compiled."""
    layout = layout_of(fabric)
    state = State(
        fabric=fabric,
        layout=layout,
        settings=settings or Settings(),
        health=fabric.failed,
        compiled_for=fabric.failed,
        underlay=steering_of(fabric).underlay(fabric, layout, fabric.failed),
        switches={switch.id: SwitchState() for switch in fabric.switches},
    )
    return state if started_unix_ms is None else started_at(state, started_unix_ms)


def started_at(state: State, unix_ms: int) -> State:
    """Return an initial state with the time of the start, from which jobs are numbered.

    Pins of an earlier process mostly have other numbers, so that listings do not name a wrong job.
    """
    return replace(state, started_unix_ms=unix_ms, next_job_number=unix_ms // 100 % (1 << 23) + 1)
