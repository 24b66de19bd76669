"""Measure one case in a process of its own, each method in a fork of it: time, memory, link utilisation, rates.

The parent of the forks holds the fabric, the flows and all compiled kernels; a method's memory is what its fork adds.
Times are processor time: no method waits, and other load of the machine is not counted.

`python -m heddle.benchmarks.planning.measure` reads a `Request` as JSON and prints a JSON line for the case and each
method.
"""

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heddle.benchmarks.planning.cases import FAMILIES, Case, cases, two_tiers
from heddle.benchmarks.planning.cases import permutation as permutation_job
from heddle.benchmarks.planning.installed import answer_of, failure_of
from heddle.benchmarks.planning.methods import METHODS, OURS, Method
from heddle.benchmarks.planning.peers.problem import Answer, Problem, problem_of
from heddle.benchmarks.planning.quality import own_bound
from heddle.controller.model.error import HeddleError
from heddle.controller.model.health import Health
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.ground.jit import Floats
from heddle.controller.planner.proof.bound import lower_bound
from heddle.controller.planner.proof.fluid import max_min_rates
from heddle.controller.planner.solve import draft
from heddle.controller.planner.warm import warm
from heddle.planners.installed import LIMIT_S

MAX_RUNS = 5
STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A measurement: family of cases, approximate number of flows, methods, and time to repeat runs for the best.

    `planners` are installed ones by name, each of which may take `limit_s` seconds.
    """

    family: str
    flows: int
    methods: tuple[str, ...]
    seed: int = 1
    enough_s: float = 2.0
    planners: tuple[str, ...] = ()
    limit_s: float = LIMIT_S


def measured(request: Request) -> Iterator[dict[str, Any]]:
    """Measure in a child process; yield the description of the case, then a row per method."""
    # One thread only: a fork does not copy the others.
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "heddle.benchmarks.planning.measure"]
    pipe = subprocess.PIPE
    # A session of its own, so that killing its group ends the forks as well.
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=environ, start_new_session=True
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(asdict(request)))
            child.stdin.close()
            for line in child.stdout:
                yield json.loads(line)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    if child.returncode:
        raise RuntimeError(f"measuring {request.family} at {request.flows} flows ended with status {child.returncode}")


def rows(request: Request) -> Iterator[dict[str, Any]]:
    """Measure in this process; `measured` calls it in a child."""
    assert request.family in FAMILIES
    ((_, case),) = cases(request.flows, seed=request.seed, names=(request.family,))
    problem = problem_of(case.fabric, case.jobs, health=case.health, base_share=case.base_share)
    bound = _bound(problem)
    quantum = float(problem.demand.max(initial=0.0) / problem.capacity.min(initial=np.inf))
    yield {
        "case": case.name,
        "family": request.family,
        "flows": len(problem.flows),
        "hosts": len(case.fabric.nics),
        "switches": len(case.fabric.switches),
        "lower_bound": bound,
        "allowed_ratio": 1 + quantum / bound if case.quantum_above else case.target,
    }
    _warm(request)
    for name in request.methods:
        yield {"method": name, **_in_a_fork(partial(_row, request, name, case, problem, bound))}
    for name in request.planners:
        yield {"method": f"planner {name}", **_row_of_planner(request, name, case, problem, bound)}


def _bound(problem: Problem) -> float:
    whole = np.zeros(len(problem.topology.capacity))
    whole[: len(problem.base)] = problem.base
    cuts = own_bound(problem.topology, problem.live, problem.flows, whole)
    return max(cuts, lower_bound(problem.topology, problem.live, problem.flows).value)


def _warm(request: Request) -> None:
    """Load or compile the methods' kernels, so that their time and memory exclude it."""
    warm()
    fabric = two_tiers(8, 2)
    job = permutation_job(fabric, 1, np.random.default_rng(0))
    for name in request.methods:
        with suppress(ModuleNotFoundError):
            problem = problem_of(fabric, (job,), health=Health())
            _shares(problem, METHODS[name].paths(problem, 0))


def _in_a_fork(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run in a fork and return its result; raises RuntimeError if the fork fails."""
    sys.stdout.flush()
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(receive)
            gc.disable()  # a garbage collection would count as time of the run
            with os.fdopen(send, "w") as pipe:
                json.dump(work(), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)  # skip the parent's cleanup in this copy of the process
    os.close(send)
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not text:
        raise RuntimeError(f"a method ended with status {os.waitstatus_to_exitcode(status)}")
    result: dict[str, Any] = json.loads(text)
    return result


def _row(request: Request, name: str, case: Case, problem: Problem, bound: float) -> dict[str, Any]:
    method = METHODS[name]
    before = _start_peak()
    try:
        answer, seconds = _best(request, method, problem)
    except ModuleNotFoundError as missing:
        return {"missing": missing.name}
    peak = _peak_mb()
    worst, mean = _shares(problem, answer)
    full = answer.max_utilisation(problem)
    return {
        "paths_s": seconds if method.timed else None,
        "solve_s": _draft_s(request, case) if name == OURS and case.base_share is None else None,
        "max_utilisation": full,
        "ratio": full / bound if bound else 1.0,
        "memory_mb": None if peak is None or before is None else peak - before,
        "worst_share": worst,
        "mean_share": mean,
    }


def _row_of_planner(request: Request, name: str, case: Case, problem: Problem, bound: float) -> dict[str, Any]:
    """Return the figures of an installed planner, which runs once, in a process of its own; or why there are none."""
    try:
        answer, seconds = answer_of(name, case, problem, request.seed, request.limit_s)
    except HeddleError as error:
        return {"failed": failure_of(error)}
    worst, mean = _shares(problem, answer)
    full = answer.max_utilisation(problem)
    return {
        "paths_s": seconds,
        "solve_s": None,
        "max_utilisation": full,
        "ratio": full / bound if bound else 1.0,
        "memory_mb": None,
        "worst_share": worst,
        "mean_share": mean,
    }


def _best(request: Request, method: Method, problem: Problem) -> tuple[Answer, float]:
    """Return the answer and the best time of a few runs, each without cached results of the others."""
    times: list[float] = []
    while True:
        fresh = replace(problem)
        started = time.process_time()
        answer = method.paths(fresh, request.seed)
        times.append(time.process_time() - started)
        if sum(times) > request.enough_s or len(times) == MAX_RUNS or not method.timed:
            return answer, min(times)


def _draft_s(request: Request, case: Case) -> float:
    """Return the best time of planning: expanding jobs, paths, ports and rates."""
    times: list[float] = []
    while not times or (sum(times) < request.enough_s and len(times) < MAX_RUNS):
        started = time.process_time()
        drafted = draft(case.fabric, case.jobs, health=case.health)
        times.append(time.process_time() - started)
        if isinstance(drafted, Infeasible):
            raise RuntimeError(f"{case.name} has no plan: {drafted.why}")
    return min(times)


def _shares(problem: Problem, answer: Answer) -> tuple[float, float]:
    """Return the worst and the mean share of demand that flows get at max-min fair rates."""
    topology, flows = problem.topology, problem.flows
    first = topology.first_nic_link
    source, target = flows.src_nic[answer.row] + first, flows.dst_nic[answer.row] + first + topology.nics
    capacity: Floats = topology.capacity.astype(np.float64)
    capacity[:first] = np.maximum(capacity[:first] - problem.base, 0.0)
    rates = max_min_rates(np.column_stack((source, answer.hops, target)), capacity, answer.demand)
    return float((rates / answer.demand).min(initial=1.0)), float(rates.sum() / max(answer.demand.sum(), 1.0))


def _start_peak() -> float | None:
    """Release free memory, reset the peak counter and return the resident memory in MB."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return _status_mb("VmRSS")
    return None


def _peak_mb() -> float | None:
    with suppress(OSError):
        return _status_mb("VmHWM")
    return None


def _status_mb(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    given = json.load(sys.stdin)
    for row in rows(Request(**{**given, **{key: tuple(given[key]) for key in ("methods", "planners")}})):
        print(json.dumps(row), flush=True)
