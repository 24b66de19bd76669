"""One of two gateways is killed while TCP connections run through it: for how long nothing arrives, and what is lost.

Every byte of every connection is numbered and checked. The gap of a kill is the longest silence of any connection's
either end; TCP's own patience is part of it: a sender tries again after 200, 600 and 1,400 ms.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from benchmarks.pair.gateways import Death, Gateways
from benchmarks.pair.site import FLOATING, SERVER, Site
from benchmarks.pair.streams import Route, Streams

KILLS = 10
WATCHED_S = 2.0
"""For so long after a kill silences are measured; longer where one lasts."""
CALM_S = 0.5
LONGEST_S = 60.0
Found = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A pair, and what is done to it."""

    name: str
    mode: str
    death: Death
    ways: Mapping[str, Sequence[str]]
    """By host, the gateways that it sends to."""
    kills: int = KILLS


ONE = {"host1": ("gw1",), "host2": ("gw1",)}
EACH = {"host1": ("gw1",), "host2": ("gw2",)}
PLANS = (
    *(Plan(name=f"active-standby, {death.value}", mode="active-standby", death=death, ways=ONE) for death in Death),
    Plan(name="active-active, both", mode="active-active", death=Death.BOTH, ways=EACH),
    Plan(name="active-active, power", mode="active-active", death=Death.POWER, ways=EACH),
)


def routes(site: Site) -> list[Route]:
    """Return the connections: by NAT from tenants of the same address, by a floating IP, between peers."""
    pid = site.pid
    nat = ("red1", "red1", "red1", "blue1", "green1")
    return [
        *(Route(name=f"{who} by NAT {n}", client=pid(who), server=pid("internet"), address=str(SERVER), port=7001 + n)
          for n, who in enumerate(nat)),
        Route(name="floating IP", client=pid("internet"), server=pid("red2"), address=str(FLOATING), port=7020),
        Route(name="peers", client=pid("red1"), server=pid("green1"), address="10.9.0.1", port=7030),
    ]  # fmt: skip


@contextmanager
def running(plan: Plan, folder: Path, **partner: Any) -> Iterator[tuple[Gateways, Streams]]:
    """Have a pair at a site with connections through it."""
    site = Site(plan.ways)
    try:
        gateways = Gateways(site, folder, mode=plan.mode, **partner)
        streams = Streams()
        try:
            gateways.until(gateways.in_step, "the pair is in step")
            for route in routes(site):
                streams.open(route)
            gateways.until(lambda: all(end.bytes for end in streams.ends), "every connection talks")
            yield gateways, streams
        finally:
            streams.close()
            gateways.close()
    finally:
        site.close()


def kill(
    gateways: Gateways, streams: Streams, death: Death, *, calm_s: float = CALM_S, watched_s: float = WATCHED_S
) -> Found:
    """Kill whoever serves, measure, and have it back; `calm_s` twice before, `watched_s` after it, at the least."""
    time.sleep(calm_s)
    streams.forget()
    time.sleep(calm_s)
    calm = max(end.silence_ns() for end in streams.ends)
    victim = gateways.serving()
    streams.forget()
    begun = time.monotonic()
    gateways.die(victim, death)
    time.sleep(watched_s)
    while any(time.monotonic_ns() - end.last_ns > CALM_S * 1e9 and not end.ended for end in streams.ends):
        if time.monotonic() - begun > LONGEST_S:
            break
        time.sleep(0.01)
    silences = {end.name: end.silence_ns() / 1e6 for end in streams.ends}
    gateways.recover(victim, death)
    return {"victim": victim, "calm_ms": calm / 1e6, "gap_ms": max(silences.values()), "silences_ms": silences}


def measured(plan: Plan, folder: Path, **partner: Any) -> Found:
    """Kill one of a pair again and again."""
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
    """Go through all plans, print a line each."""
    if os.geteuid() != 0:
        print("no root: nothing is measured", file=out)
        return {}
    columns = f"{'kills':>5} {'gap median':>10} {'gap max':>8} {'silence':>8} {'calm':>5} {'alive':>6} {'wrong':>5}"
    print(
        "milliseconds without a byte; gap: of the connection that waited longest, silence: of the median one", file=out
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
