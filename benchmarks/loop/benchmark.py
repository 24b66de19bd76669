"""The closed loop against a real controller process and switches that decode its bytes; README of `benchmarks/`.

Wall times: run it on a machine that does nothing else, and compare figures of one run only.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, TextIO

import numpy as np

from heddle.benchmarks.loop import (
    admission,
    arrivals,
    bad_switch,
    churn,
    convergence,
    costs,
    failures,
    growth,
    hostile,
    neighbours,
    previews,
    queued,
    ratios,
    restarts,
    toggles,
)
from heddle.benchmarks.loop.figures import line, progress, spread
from heddle.benchmarks.loop.world import world
from heddle.benchmarks.planning.cases import two_tiers
from heddle.benchmarks.planning.events.arrivals import FABRICS, Scene
from tests.support.fabrics.small_fabrics import spine_leaf

SEED = 1
FAILURES = 16
SMALL = "kind: spine_leaf, spines: 4, leaves: 8, hosts_per_leaf: 4"
ADMITTING = "kind: spine_leaf, spines: 16, leaves: 64, hosts_per_leaf: 48"
MANY = "kind: spine_leaf, spines: 8, leaves: 56, hosts_per_leaf: 2"
LARGE = "kind: spine_leaf, spines: 64, leaves: 128, hosts_per_leaf: 8"
GOALS_MS = {"PIN 100": 50, "PIN 1000": 200, "SOURCE_PORT 100": 50, "SOURCE_PORT 1000": 50}


def cables_fail(out: TextIO) -> dict[str, Any]:
    """Measure the time from port status to exceptions, and to new paths acknowledged and published."""
    found: dict[str, Any] = {}
    with world(SMALL) as one:
        for steering in ("PIN", "SOURCE_PORT"):
            for pairs in (50, 500):
                rows = failures.measured(one, SEED, steering, pairs, 2, FAILURES)
                name = f"{steering} {2 * pairs}"
                found[name] = {"goal_p99_ms": GOALS_MS[name], "affected": spread([row.affected for row in rows])}
                for step in ("exceptions_ms", "pins_ms", "published_ms"):
                    values = [value for row in rows if (value := getattr(row, step)) is not None]
                    if values:
                        found[name][step] = spread(values)
                        line(out, f"{name} flows: {step.removesuffix('_ms')}", found[name][step])
    return found


def jobs_arrive(out: TextIO) -> dict[str, Any]:
    """Measure how many jobs a second are admitted beside none, and beside a thousand."""
    found = {}
    with world(ADMITTING) as one:
        for rate in admission.measured(one, SEED, running=1_000):
            found[f"{rate.running} running"] = {"per_second": rate.per_second, "alone_ms": spread(rate.alone_ms)}
            print(f"  beside {rate.running} jobs: {rate.per_second:.1f} jobs a second (goal 100)", file=out, flush=True)
            line(out, "one caller alone", spread(rate.alone_ms))
    return found


def journal_costs(out: TextIO) -> dict[str, Any]:
    """Compare SubmitJob with and without a journal, beside no other job."""
    found = {}
    for name, is_journaled in (("without a journal", False), ("with a journal", True)):
        with world(ADMITTING, is_journaled=is_journaled) as one:
            rate = admission.measured(one, SEED, running=0)[0]
        found[name] = {"per_second": rate.per_second, "alone_ms": spread(rate.alone_ms)}
        print(f"  {name}: {rate.per_second:.1f} jobs a second", file=out, flush=True)
        line(out, f"one caller alone, {name}", spread(rate.alone_ms))
    return found


def identity_costs(out: TextIO) -> dict[str, Any]:
    """Compare SubmitJob of controllers side by side: plain, with a journal, and with a journal and mutual TLS."""
    with ExitStack() as running:
        worlds = {name: running.enter_context(world(SMALL, **more)) for name, more in costs.KINDS.items()}
        times_ms = costs.measured(worlds, SEED)
    found: dict[str, Any] = {name: spread(values) for name, values in times_ms.items()}
    plain = np.array(times_ms[costs.PLAIN])
    for name, values in times_ms.items():
        line(out, name, found[name])
        row = found[name]
        row["to_plain"] = {
            "p50": row["p50"] / found[costs.PLAIN]["p50"], "p99": row["p99"] / found[costs.PLAIN]["p99"],
            "paired_ms": float(np.median(np.array(values) - plain)),
        }  # fmt: skip
        ratios_of = row["to_plain"]
        print(
            f"    to plain: p50 {ratios_of['p50']:.2f}, p99 {ratios_of['p99']:.2f}; "
            f"median of the pairs' differences {ratios_of['paired_ms']:+.2f} ms",
            file=out,
        )
    return found


def controller_restarts(out: TextIO) -> dict[str, Any]:
    """Measure how long a killed controller takes to be reconciled again with all switches, beside 1,000 jobs."""
    with world(LARGE, is_journaled=True) as one:
        rows = restarts.measured(one, SEED, jobs=1_000, rounds=3)
    found: dict[str, Any] = {"goal_max_ms": 2_000, "jobs": rows[0].jobs, "changes": sum(row.changes for row in rows)}
    print(f"  {found['jobs']} jobs, {found['changes']} changes of rules sent", file=out, flush=True)
    for step in RESTART_STEPS:
        found[step] = spread([getattr(row, step) for row in rows])
        line(out, RESTART_STEPS[step], found[step])
    return found


RESTART_STEPS = {
    "ready_ms": "kill to ready",
    "reconciled_ms": "last Hello to reconciled (goal 2,000)",
    "processor_ms": "processor time of the controller",
}


def ports_toggle(out: TextIO) -> dict[str, Any]:
    """Measure how late the loop's tasks are while 10,000 toggles arrive within a second."""
    with world(LARGE, program="heddle.benchmarks.loop.probed") as one:
        lag = toggles.measured(one, SEED, toggles=10_000, pairs=2_000)
    found: dict[str, Any] = {"goal_max_ms": 50, "seconds": lag.seconds}
    for step in ("idle_ms", "toggling_ms", "settling_ms"):
        found[step] = spread(getattr(lag, step))
        line(out, f"late, {step.removesuffix('_ms')}", found[step])
    return found


def loop_lags(out: TextIO) -> dict[str, Any]:
    """Measure how late the loop's tasks are while single cables fail and return under 100,000 flows."""
    with world(LARGE, program="heddle.benchmarks.loop.probed") as one:
        lag = toggles.lag_of_failures(one, SEED, pairs=50_000, failures=4)
    found: dict[str, Any] = {"goal_p99_ms": 10, "goal_max_ms": 50}
    for step in ("idle_ms", "failing_ms"):
        found[step] = spread(getattr(lag, step))
        line(out, f"late, {step.removesuffix('_ms')}", found[step])
    return found


def callers_preview(out: TextIO) -> dict[str, Any]:
    """Measure failures and health calls while callers preview jobs of 50,000 flows."""
    with world(SMALL) as one:
        beside = previews.beside_previews(one, SEED, 50, 2, FAILURES)
    found: dict[str, Any] = {
        "exceptions_ms": spread([row.exceptions_ms for row in beside.failures]),
        "published_ms": spread([row.published_ms for row in beside.failures]),
        "health_ms": spread(beside.health_ms),
        "previews": beside.previews,
    }
    for step in ("exceptions_ms", "published_ms", "health_ms"):
        line(out, f"beside previews: {step.removesuffix('_ms')}", found[step])
    return found


def callers_are_hostile(out: TextIO) -> dict[str, Any]:
    """Measure failures and health calls while processes send all kinds of requests that once stopped the controller."""
    with world(SMALL) as one:
        beside = hostile.beside_hostile_requests(one, SEED, 50, 2, FAILURES)
    found: dict[str, Any] = {"goal_health_p99_ms": 100, "goal_published_p99_ms": 200, "replies": {}}
    for step in ("exceptions_ms", "published_ms"):
        found[step] = spread([getattr(row, step) for row in beside.failures])
        line(out, f"beside hostile requests: {step.removesuffix('_ms')}", found[step])
    for kind, replies in beside.replies.items():
        found["replies"][kind] = {**replies.codes, "ms": spread(replies.times_ms)}
        codes = ", ".join(f"{count} {code}" for code, count in sorted(replies.codes.items()))
        line(out, kind, found["replies"][kind]["ms"])
        print(f"    {codes}", file=out, flush=True)
    return found


def submissions_wait(out: TextIO) -> dict[str, Any]:
    """Measure failures behind 10,000 submissions: in the brain's turns, and through the service."""
    with world(SMALL, limits=queued.LIMITS, max_waiting=str(queued.MAX_WAITING)) as one:
        turns = asyncio.run(queued.in_the_inbox(one.fabric))
        rows = queued.behind_submissions(one, SEED, 50, 2, FAILURES)
    print(
        f"  the brain alone, processor time: the failure {turns.failure_ms:.1f} ms, all {turns.all_ms:.0f} ms", file=out
    )
    found: dict[str, Any] = {"goal_published_p99_ms": 200, "brain": turns._asdict()}
    for step in ("exceptions_ms", "published_ms"):
        found[step] = spread([getattr(row, step) for row in rows])
        line(out, f"behind submissions: {step.removesuffix('_ms')}", found[step])
    return found


def neighbours_load(out: TextIO) -> dict[str, Any]:
    """Measure a second client's calls while another client loads every port."""
    found: dict[str, Any] = {"goal_p99_ms": 200}
    with world(SMALL) as one:
        for kind, count in neighbours.LOADS.items():
            times_ms = neighbours.measured(one, kind)
            found[kind] = {name: spread(values) for name, values in times_ms.items()}
            for name, row in found[kind].items():
                line(out, f"{kind} {count or ''}".strip() + f": {name}", row)
        found["stopped"] = unread = neighbours.stopped(one)
        print(
            f"  {unread['calls']} unread GetJob of {unread['flows']} flows: {unread['grown_mb']:.0f} MB more", file=out
        )
    return found


def switch_is_at_fault(out: TextIO) -> dict[str, Any]:
    """Measure SubmitJob of jobs that avoid a leaf, while that leaf has each fault and other jobs need it."""
    found: dict[str, Any] = {"goal_p99_ms": 1_000}
    with world(MANY, rules_within_s=600.0) as one:
        for fault in bad_switch.FAULTS:
            beside = bad_switch.measured(one, fault)
            found[fault] = {**spread(beside.elsewhere_ms), "over_it": dict(beside.over_it)}
            line(out, f"a leaf's fault: {fault}; jobs elsewhere", found[fault])
            over_it = ", ".join(f"{count} {code}" for code, count in sorted(beside.over_it.items()))
            print(f"    jobs over it: {over_it or 'none was answered meanwhile'}", file=out, flush=True)
    return found


def plans_compare(out: TextIO) -> dict[str, Any]:
    """Compare the fullest link after failures with that of a full plan."""
    rows = list(ratios.measured(spine_leaf(4, 8, 32, 100_000_000_000), SEED, jobs=8, failures=4))
    found = {}
    for limit in ratios.LIMITS:
        of_limit = [row for row in rows if row.limit == limit]
        found[limit] = {
            "ratio": spread([row.utilisation for row in of_limit]),
            "moved": spread([row.moved for row in of_limit]),
        }
        mean = float(np.mean([row.utilisation for row in of_limit]))
        largest, moved = found[limit]["ratio"]["max"], found[limit]["moved"]["p50"]
        print(f"  {limit:16} mean {mean:.3f}, max {largest:.3f} of a full plan's, {moved:.0f} moved", file=out)
    return found


def jobs_churn(out: TextIO, arrivals: int = 1_000) -> dict[str, Any]:
    """Compare the fullest link over its bound with the default moves and with none, on 1,024 GPUs."""
    found: dict[str, Any] = {}
    for fabric in ("2 tiers", "3 tiers"):
        scene = Scene(fabric=fabric, placement="random", sends="rings", qps=1)
        for moves, settings in (("default moves", churn.BY_DEFAULT), ("no moves", churn.NEVER_MOVE)):
            drawn, name = FABRICS[fabric](), f"{fabric}, {moves}"
            loop = churn.Loop(drawn, settings, churn.in_this_process(drawn))
            rows = churn.churn(loop, scene, arrivals, SEED, progress=progress(name))
            found[name] = _churned(out, name, rows)
    return found


def jobs_arrive_and_leave(out: TextIO, count: int = 70, seeds: Sequence[int] = (1, 2, 3)) -> dict[str, Any]:
    """Measure the fullest link that clients see while jobs arrive and leave, for each of some seeds."""
    found: dict[str, Any] = {"goal_mean": 1.10}
    for seed in seeds:
        with world(arrivals.SHAPE, rules_within_s=arrivals.RULES_WITHIN_S) as one:
            rows = list(arrivals.measured(one, seed, count, progress(f"seed {seed}")))
        fullest, submit_ms = [row.fullest for row in rows], spread([row.submit_ms for row in rows])
        mean, used = float(np.mean(fullest)), float(np.mean([row.used for row in rows]))
        found[f"seed {seed}"] = {
            "mean": mean, "used": used,
            "differs_from_certificate": sum(abs(row.fullest - row.certified) > 1e-9 for row in rows),
            "fullest": spread(fullest), "submit_ms": submit_ms,
        }  # fmt: skip
        print(
            f"  seed {seed}: fullest link {mean:.3f} on average (goal 1.10), {used:.0%} of the GPUs in use",
            file=out,
            flush=True,
        )
        line(out, f"seed {seed}: SubmitJob", submit_ms)
    return found


def decisions_scale(out: TextIO, arrivals: int = 600, cables: int = 50) -> dict[str, Any]:
    """Measure the time from an event to its effects on 16,384 GPUs, with the default moves."""
    scene, drawn = Scene(fabric="", placement="random", sends="rings", qps=1), two_tiers(16_384, 64)
    with churn.in_its_process(drawn) as planner:
        loop = churn.Loop(drawn, churn.BY_DEFAULT, planner)
        rows = churn.churn(loop, scene, arrivals, SEED, cables, progress("16,384 GPUs"))
    return {"goal_p99_ms": 20, **_churned(out, "16,384 GPUs", rows)}


def _churned(out: TextIO, name: str, rows: Sequence[churn.Decision]) -> dict[str, Any]:
    """Print and return the figures of each kind of event."""
    print(f"  {name}, {np.mean([row.used for row in rows]):.0%} of the GPUs in use", file=out)
    found: dict[str, Any] = {"used": float(np.mean([row.used for row in rows]))}
    for event in dict.fromkeys(row.event for row in rows):
        of_event = [row for row in rows if row.event == event]
        steps = {step: spread([getattr(row, step) for row in of_event]) for step in ("ratio", "moved", *STEPS)}
        ratio, moved = (float(np.mean([getattr(row, step) for row in of_event])) for step in ("ratio", "moved"))
        found[event] = {"mean_ratio": ratio, "mean_moved": moved, **steps}
        print(
            f"  {event:12} fullest link {ratio:.3f} of its bound, p99 {steps['ratio']['p99']:.3f}; "
            f"{moved:.1f} moves, at most {steps['moved']['max']:.0f}",
            file=out,
        )
        for step, text in STEPS.items():
            if steps[step]["max"]:
                line(out, f"{event}: {text}", steps[step])
    return found


STEPS = {"ms": "event to effects", "planner_ms": "of these the planner", "rules_ms": "rules of the underlay, beside"}
PARTS: dict[str, tuple[str, Callable[[TextIO], dict[str, Any]]]] = {
    "failures": ("a cable fails under planned flows, 4 x 8 x 32", cables_fail),
    "admission": ("SubmitJob by 8 callers, rings of two NICs of their own, 16 x 64 x 3,072", jobs_arrive),
    "journal": ("SubmitJob by 8 callers with a journal and without, 16 x 64 x 3,072", journal_costs),
    "identity": ("SubmitJob plain, with a journal, with a journal and mutual TLS, 4 x 8 x 32", identity_costs),
    "restart": ("a controller with 1,000 jobs is killed and starts again, 64 x 128 x 1,024", controller_restarts),
    "apply": ("a rack more is put in force beside 1,000 jobs, 64 x 128 x 1,024", growth.run),
    "toggles": ("10,000 port toggles in a second, 64 x 128 x 1,024, 2,000 flows", ports_toggle),
    "lag": ("single cables fail and return, 64 x 128 x 1,024, 100,000 flows", loop_lags),
    "previews": ("a cable fails under 100 pinned flows beside previews of 50,000 flows, 4 x 8 x 32", callers_preview),
    "hostile": ("a cable fails under 100 pinned flows beside hostile requests, 4 x 8 x 32", callers_are_hostile),
    "queued": ("a cable fails under 100 flows behind 10,000 SubmitJobs, 4 x 8 x 32", submissions_wait),
    "neighbours": ("a second client beside one that loads every port, 4 x 8 x 32 (goal: p99 200)", neighbours_load),
    "fault": ("a leaf is silent, refuses, lies, reboots; jobs that avoid it (goal: p99 1,000)", switch_is_at_fault),
    "churn": ("1,000 jobs arrive and leave, rings on random GPUs of 1,024", jobs_churn),
    "arrivals": (
        "rings on random GPUs arrive and leave over gRPC, 3 tiers, 1,024 GPUs 88 % full",
        jobs_arrive_and_leave,
    ),
    "convergence": ("rings with all-to-alls on random GPUs of 1,024 arrive and leave, and converge", convergence.run),
    "churn-converges": ("1,000 rings as in churn, 3 tiers, 10 s apart, and converge", convergence.rings_converge),
    "recurs": ("a job comes and goes every 5 s between rings with all-to-alls, 3 tiers", convergence.job_recurs),
    "decisions": ("jobs arrive and leave, 50 cables fail and return, 256 leaves x 64 spines", decisions_scale),
    "ratios": ("the fullest link after 1 to 4 failures, 4 x 8 x 32", plans_compare),
}


def run(out: TextIO, parts: Sequence[str] = ()) -> dict[str, object]:
    """Measure the parts, all by default."""
    print(f"seed {SEED}, {os.cpu_count()} cores; milliseconds{'':25}count       p50       p99       max", file=out)
    found: dict[str, object] = {"seed": SEED, "cores": os.cpu_count()}
    for name in parts or PARTS:
        title, measure = PARTS[name]
        print(f"{name}: {title}", file=out, flush=True)
        found[name] = measure(out)
    return found
