"""Say why a switch cannot be used by new jobs: the rule that it has refused and its error, or that it lags."""

from collections.abc import Iterable, Iterator

from heddle.controller.brain.install import path_switches
from heddle.controller.brain.lacking import refused_by
from heddle.controller.brain.state import State

LAGS = "it has not acknowledged its newest rules yet"


def fault_of(state: State, switch: str) -> str:
    """Return what is wrong with the rules of a connected switch; "" where nothing is known to be."""
    if why := refused_by(state, switch):
        return f"it lacks rules that it should hold: {why}"
    return LAGS if state.switches[switch].lagging else ""


def faults_on(state: State, links: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each switch on a path whose rules are not as they should be."""
    for switch in sorted(path_switches(links) & state.switches.keys()):
        if fault := fault_of(state, switch):
            yield f"Switch {switch}: {fault}."
