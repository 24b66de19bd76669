"""The least maximum utilisation of jobs with phases, by linear and integer programming (HiGHS through scipy).

The oracle shares no code with the planner's search: it enumerates the paths of each pair of leaves, and its variables
are the number of flows on each path, per group of equal flows, and each job's heaviest phase on each link.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import networkx
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_matrix

from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows

UNIT_BPS = 1e9
"""Loads are in Gbit/s inside the program: the solver's tolerances are absolute."""
LOWER = 0.999
"""A plan this much below another counts as better: a smaller difference may be one of rounding."""
INFEASIBLE = 2
"""The status of `milp` where it has proven that there is no solution."""


class Optimum(NamedTuple):
    """The value of the best solution found, infinite if there is none, and what the solver proved no plan can beat."""

    found: float
    proven: float


class Within(NamedTuple):
    """A limit: the utilisation of each link by these jobs alone."""

    jobs: frozenset[int]
    level: float


class _Group(NamedTuple):
    """Flows of one size between two leaves, in one phase of one job."""

    source: int
    target: int
    job: int
    phase: int
    demand_bps: int


def optimum(
    topology: Topology, live: Live, flows: Flows, *, whole: bool, limit_s: float, within: Sequence[Within] = (),
    below: float = np.inf,
) -> Optimum:  # fmt: skip
    """Return the optimum over all paths; flows may be split unless `whole`. The solver stops after `limit_s`.

    With `below` it only searches for some plan below that utilisation, which is often refuted much sooner than an
    optimum is proven.
    """
    groups = _groups(topology, flows)
    program = _Program()
    graph = _graph(topology, live)
    loads: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    for group, count in groups.items():
        variables = []
        for path in _paths(topology, graph, group.source, group.target):
            variable = program.variable(whole=whole)
            variables.append((variable, 1.0))
            for link in path:
                loads.setdefault((link, group.job, group.phase), []).append((variable, group.demand_bps / UNIT_BPS))
        program.equal(variables, count)
    heaviest: dict[tuple[int, int], int] = {}
    for (link, job, _), terms in loads.items():
        if (link, job) not in heaviest:
            heaviest[link, job] = program.variable()
        program.at_most([*terms, (heaviest[link, job], -1.0)])
    level = program.variable(cost=1.0)
    for link in {link for link, _ in heaviest}:
        loaded = {job: variable for (place, job), variable in heaviest.items() if place == link}
        width = float(topology.capacity[link]) / UNIT_BPS
        program.at_most([*((variable, 1.0) for variable in loaded.values()), (level, -width)])
        for limit in within:
            some = [(variable, 1.0) for job, variable in loaded.items() if job in limit.jobs]
            if some:
                program.at_most(some, limit.level * width * (1 + 1e-9))
    return program.solved(limit_s) if below == np.inf else program.refuted(level, below, limit_s)


def _groups(topology: Topology, flows: Flows) -> dict[_Group, int]:
    groups: dict[_Group, int] = {}
    for f in range(len(flows)):
        source, target = int(topology.nic_leaf[flows.src_nic[f]]), int(topology.nic_leaf[flows.dst_nic[f]])
        if source != target:
            group = _Group(source, target, int(flows.job[f]), int(flows.phase[f]), int(flows.demand_bps[f]))
            groups[group] = groups.get(group, 0) + 1
    return groups


def _graph(topology: Topology, live: Live) -> networkx.MultiGraph:
    graph = networkx.MultiGraph()
    for cable in np.flatnonzero(live.links[: topology.cables]).tolist():
        graph.add_edge(int(topology.lower[cable]), int(topology.upper[cable]), key=cable)
    return graph


def _paths(topology: Topology, graph: networkx.MultiGraph, source: int, target: int) -> list[list[int]]:
    """Return the links of all shortest paths between two leaves; they turn at the lowest tier that reaches both."""
    paths = []
    for nodes in networkx.all_shortest_paths(networkx.Graph(graph), source, target):
        choices: list[list[int]] = [[]]
        for a, b in pairwise(nodes):
            cables = [key + (0 if topology.tier[a] < topology.tier[b] else topology.cables) for key in graph[a][b]]
            choices = [[*choice, cable] for choice in choices for cable in cables]
        paths += choices
    return paths


class _Program:
    """A mixed-integer program under construction: minimise the cost with variables at least 0."""

    def __init__(self) -> None:
        self._cost: list[float] = []
        self._whole: list[int] = []
        self._upper: list[list[tuple[int, float]]] = []
        self._equal: list[list[tuple[int, float]]] = []
        self._values: list[float] = []
        self._limits: list[float] = []

    def variable(self, *, cost: float = 0.0, whole: bool = False) -> int:
        self._cost.append(cost)
        self._whole.append(int(whole))
        return len(self._cost) - 1

    def equal(self, terms: list[tuple[int, float]], value: float) -> None:
        self._equal.append(terms)
        self._values.append(value)

    def at_most(self, terms: list[tuple[int, float]], value: float = 0.0) -> None:
        self._upper.append(terms)
        self._limits.append(value)

    def _matrix(self, rows: list[list[tuple[int, float]]]) -> csr_matrix:
        entries = [(number, column, value) for number, row in enumerate(rows) for column, value in row]
        numbers, columns, values = zip(*entries, strict=True)
        return csr_matrix((values, (numbers, columns)), shape=(len(rows), len(self._cost)))

    def solved(self, limit_s: float) -> Optimum:
        if not self._equal:
            return Optimum(0.0, 0.0)
        answer = self._answer(np.array(self._cost), np.inf, limit_s)
        dual = answer.mip_dual_bound if any(self._whole) else answer.fun
        return Optimum(np.inf if answer.fun is None else float(answer.fun), 0.0 if dual is None else float(dual))

    def refuted(self, level: int, below: float, limit_s: float) -> Optimum:
        """Search for any solution whose variable `level` is at most `LOWER` times `below`."""
        upper = np.full(len(self._cost), np.inf)
        upper[level] = below * LOWER
        answer = self._answer(np.zeros(len(self._cost)), upper, limit_s)
        found = np.inf if answer.x is None else float(answer.x[level])
        return Optimum(found, below * LOWER if answer.status == INFEASIBLE else 0.0)

    def _answer(self, cost: NDArray[np.float64], upper: NDArray[np.float64] | float, limit_s: float) -> OptimizeResult:
        constraints = [
            LinearConstraint(self._matrix(self._upper), -np.inf, self._limits),
            LinearConstraint(self._matrix(self._equal), self._values, self._values),
        ]
        return milp(
            cost, constraints=constraints, integrality=self._whole, bounds=Bounds(0, upper),
            options={"time_limit": limit_s},
        )  # fmt: skip
