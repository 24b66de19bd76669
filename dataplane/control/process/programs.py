"""The programs that a data process can run: a gateway or a balancer, on the same ports, rings and counters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heddle.dataplane.config.local import Limits, LocalConfig
from heddle.dataplane.engine.graph import Graph

GATEWAY, BALANCER = "gateway", "balancer"
Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """What the processes around a packet program must know of it."""

    name: str
    graph_of: Callable[[LocalConfig], Graph]
    layout: Callable[[Limits], Mapping[str, tuple[tuple[int, ...], Any]]]
    """Shape and type of the arrays of the state."""
    state_of: Callable[[Arrays], Any]
    tables_of: Callable[[Arrays, Arrays], Any]
    """Tables from the arrays of a generation and from those that are changed in place."""
    begin: Callable[[Any, int], None]
    """Prepare the state of a new data process, at a monotonic time in nanoseconds."""
    run: Callable[..., int]
    exchange: Callable[..., None]
    """Exchange connection records with the partner."""


def program_named(name: str) -> Program:
    """Return a program; only its own modules are imported."""
    return {GATEWAY: _gateway, BALANCER: _balancer}[name]()


def _gateway() -> Program:
    from heddle.dataplane.gateway.graph import graph_of
    from heddle.dataplane.gateway.memory.exchange import exchange
    from heddle.dataplane.gateway.memory.state import STARTED_NS, layout, state_of
    from heddle.dataplane.gateway.run import run
    from heddle.dataplane.tables.schema import Tables

    def begin(state: Any, now_ns: int) -> None:
        state.counts[STARTED_NS] = now_ns

    return Program(GATEWAY, graph_of, layout, state_of, lambda made, kept: Tables(**made), begin, run, exchange)


def _balancer() -> Program:
    from heddle.dataplane.balancer.graph import graph_of
    from heddle.dataplane.balancer.memory.exchange import exchange
    from heddle.dataplane.balancer.memory.state import layout, state_of
    from heddle.dataplane.balancer.run import run
    from heddle.dataplane.balancer.tables.schema import Tables

    def tables_of(made: Arrays, kept: Arrays) -> Any:
        return Tables(**{**made, "slots": kept["slots"]})

    return Program(BALANCER, graph_of, layout, state_of, tables_of, lambda state, now_ns: None, run, exchange)
