"""Kill one of two gateways under TCP connections: the time without a received byte, and the bytes lost.

Every byte of every connection is numbered and checked. The gap of a kill is the longest time in which an end of a
connection receives nothing. It includes TCP's retransmission timeouts, 200, 600 and 1,400 ms after the loss.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from tests.support.pair.gateways import Death
from tests.support.pair.takeover import CALM_S, EACH, ONE, Found, Plan, kill, running

PLANS = (
    *(Plan(name=f"active-standby, {death.value}", mode="active-standby", death=death, vteps_of=ONE) for death in Death),
    Plan(name="active-active, both", mode="active-active", death=Death.BOTH, vteps_of=EACH),
    Plan(name="active-active, power", mode="active-active", death=Death.POWER, vteps_of=EACH),
)


def measured(plan: Plan, folder: Path, **partner: Any) -> Found:
    """Kill one gateway of a pair `plan.kills` times."""
    with running(plan, folder, **partner) as (gateways, streams):
        kills = [kill(gateways, streams, plan.death) for _ in range(plan.kills)]
        time.sleep(CALM_S)
        gaps = [one["gap_ms"] for one in kills]
        each = [silence for one in kills for silence in one["silences_ms"].values()]
        return {
            "kills": len(kills),
            "gap_median_ms": statistics.median(gaps),
            "gap_max_ms": max(gaps),
            "silence_median_ms": statistics.median(each),
            "calm_max_ms": max(one["calm_ms"] for one in kills),
            "connections": len(streams.ends) // 2,
            "connections_alive": sum(not end.ended for end in streams.ends) // 2,
            "ended": sorted({f"{end.name}: {end.ended}" for end in streams.ends if end.ended}),
            "bytes": sum(end.bytes for end in streams.ends),
            "bytes_wrong": sum(end.wrong for end in streams.ends),
            "each": kills,
        }


def run(out: TextIO, plans: Sequence[Plan] = PLANS) -> Found:
    """Measure all plans and print a line for each."""
    if os.geteuid() != 0:
        print("not root: nothing is measured", file=out)
        return {}
    columns = f"{'kills':>5} {'gap median':>10} {'gap max':>8} {'silence':>8} {'calm':>5} {'alive':>6} {'wrong':>5}"
    print(
        "milliseconds without a received byte; gap: the longest of all connections, silence: the median connection",
        file=out,
    )
    print(f"  {'':24} {columns}", file=out)
    found: Found = {}
    for plan in plans:
        with tempfile.TemporaryDirectory() as folder:
            row = found[plan.name] = measured(plan, Path(folder))
        alive = f"{row['connections_alive']}/{row['connections']}"
        print(
            f"  {plan.name:24} {row['kills']:5} {row['gap_median_ms']:10.0f} {row['gap_max_ms']:8.0f} "
            f"{row['silence_median_ms']:8.0f} {row['calm_max_ms']:5.0f} {alive:>6} {row['bytes_wrong']:5}",
            file=out,
            flush=True,
        )
    return found
