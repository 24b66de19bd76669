"""Name classes in recordings by where they were when they were first recorded, wherever they are now.

A module or class that moves takes one row of `_MOVED`: recordings of before and after it are then read alike, and
digests of decisions and the fingerprint of all recorded classes stay equal.
"""

from functools import cache
from typing import Any

_PREFIX = "heddle."
"""The import package, which the names have not."""
_MOVED = {
    "controller.brain.settings.Settings": "controller.brain.state.Settings",
    "controller.brain.port_search": "controller.brain.hash_ports.port_search",
    "controller.model.network_event": "controller.model.event",
    "controller.model.port_layout": "controller.model.steering",
    "controller.brain.virtual_networks": "controller.brain.networks.state",
    "controller.planner.ground.clos": "controller.planner.clos",
    "controller.planner.ground.expand": "controller.planner.expand",
    "controller.planner.ground.turns": "controller.planner.incast.turns",
    "controller.planner.ground.flow_table": "controller.planner.flow_table",
    "controller.planner.ground.loads": "controller.planner.proof.loads",
    "foundation.network.Network": "dataplane.config.network.Realm",
    "controller.recording.batch": "controller.runtime.recording.batch",
    "controller.recording.pickling": "controller.runtime.recording.pickling",
}
"""By a module, or a class with its module, as it is called now (without the prefix): its name in recordings."""


def recorded(module: str, name: str) -> tuple[str, str]:
    """Return the module and the name by which recordings know a class or function of ours."""
    now = module.removeprefix(_PREFIX)
    moved = _MOVED.get(f"{now}.{name}")
    if moved is None:
        return _MOVED.get(now, now), name
    before, _, former = moved.rpartition(".")
    return before, former


@cache
def recorded_name(named: Any) -> tuple[str, str]:
    """Return `recorded` of a class or function."""
    return recorded(named.__module__, named.__qualname__)
