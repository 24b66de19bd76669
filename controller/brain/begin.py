"""Begin: the state of a controller that knows its fabric and nothing else."""

from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import State, SwitchState
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.steering import layout_of


def begin(fabric: Fabric, settings: Settings | None = None, started_unix_ms: int | None = None) -> State:
    """Return the initial state: no switch connected, no job, the underlay compiled.

    Jobs are numbered from the time of the start, where it is given: pins of an earlier process mostly have other
    numbers, so that listings do not name a wrong job.
    """
    layout = layout_of(fabric)
    first = 1 if started_unix_ms is None else started_unix_ms // 100 % (1 << 23) + 1
    return State(
        fabric=fabric,
        layout=layout,
        settings=settings or Settings(),
        health=fabric.failed,
        compiled_for=fabric.failed,
        underlay=steering_of(fabric).underlay(fabric, layout, fabric.failed),
        switches={switch.id: SwitchState() for switch in fabric.switches},
        started_unix_ms=started_unix_ms,
        next_job_number=first,
    )
