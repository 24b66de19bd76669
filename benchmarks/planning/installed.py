"""Planners of other distributions beside ours: the same flows, judged by the checker that knows no planner."""

from dataclasses import replace

import numpy as np

from heddle.benchmarks.planning.cases import Case
from heddle.benchmarks.planning.peers.problem import Answer, Problem
from heddle.controller.config.write import fabric_document
from heddle.controller.model.error import HeddleError, PlannerError
from heddle.library.by_planner import demands_of, hops_of
from heddle.planners.installed import run
from heddle.planners.problem import Problem as Given
from heddle.testing.checked import failed_names
from heddle.testing.plans.contract_network import Network
from heddle.testing.plans.plan_checker import path_violations


def answer_of(planner: str, case: Case, problem: Problem, seed: int, limit_s: float) -> tuple[Answer, float]:
    """Return the checked paths of an installed planner and its processor time in seconds; raises HeddleError."""
    given = _given(case, problem, seed)
    found = run(planner, given, limit_s)
    network = Network({**fabric_document(case.fabric), "failed": failed_names(given.fabric)})
    for demand in given.demands:
        wrong = path_violations(network, demand.flow_id, found.paths[demand.flow_id], demand.src_nic, demand.dst_nic)
        if wrong:
            raise PlannerError(f"planner {planner}: {wrong[0]}")
    hops = hops_of(problem.topology, [found.paths[demand.flow_id] for demand in given.demands])
    return Answer.of(problem, hops), found.processor_s


def failure_of(error: HeddleError) -> str:
    """Return the line that a table shows instead of figures."""
    return str(error).split("\n")[0]


def _given(case: Case, problem: Problem, seed: int) -> Given:
    alone = np.full(len(problem.flows), -1, dtype=np.int64)
    loaded = np.flatnonzero(problem.base)
    ids = problem.topology.link_ids
    return Given(
        fabric=replace(case.fabric, failed=case.health),
        demands=demands_of(problem.topology, case.jobs, problem.flows, alone),
        other_bps={ids[link]: int(problem.base[link]) for link in loaded.tolist()},
        seed=seed,
    )
