"""The load balancer beside its peers and its targets, by parts: `speed`, `processor`, `changes`, `flood`, `deaths`."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from heddle.benchmarks.balancer.changes import LIMIT_MS, SERVICES, Trial, churned, deaths, flooded, killed, median_ms
from heddle.benchmarks.balancer.processor import costs
from heddle.benchmarks.balancer.proxies import available
from heddle.benchmarks.balancer.wire import speeds
from heddle.benchmarks.gateway.wire.balancer_packets import LIVE
from tests.support.processes.balancer_processes import ENDS

Found = dict[str, Any]
MIN_OF_PLAIN, MIN_CONNECTIONS_PER_S, MAX_P99 = 0.8, 200_000, 1.5
"""Targets."""
QUICK_S, QUICK_ROUNDS = 8.0, 5


def run(out: TextIO, parts: Sequence[str] = (), *, quick: bool = False) -> Found:
    """Measure the named parts (default: all) and print a table for each; `quick` only shows that they work."""
    if os.geteuid() != 0:
        print("not root: nothing is measured", file=out)
        return {}
    found: Found = {}
    for name in parts or PARTS:
        before = os.getloadavg()[0]
        found[name] = PARTS[name](out, quick)
        found[f"{name}_load_average"] = before, os.getloadavg()[0]
        print(f"  load average before and after: {before:.1f} {os.getloadavg()[0]:.1f}\n", file=out, flush=True)
    return found


def speed(out: TextIO, quick: bool) -> list[Found]:
    """Measure processor time per packet with LIVE connections, beside plain forwarding."""
    print(f"{LIVE:,} live connections in random order, us of processor time per packet: median (best)", file=out)
    columns = f"{'us':>15} {'Mpps':>6} {'plain, us':>9} {'of plain forwarding':>19} {'new connections/s':>17}"
    print(f"  {'':44} {columns}   targets: {MIN_OF_PLAIN} live, {MIN_CONNECTIONS_PER_S:,} new", file=out)
    found = []
    for each in speeds(rounds=QUICK_ROUNDS) if quick else speeds():
        row = each.row
        us, of_plain = f"{row.us:.3f} ({row.best_us:.3f})", f"{each.plain_us:9.3f} {each.of_plain:19.2f}"
        new = f"{each.connections_per_s:,.0f}" if each.connections_per_s else ""
        print(f"  {row.device:44} {us:>15} {row.mpps:6.3f} {of_plain} {new:>17}", file=out, flush=True)
        found.append({**asdict(each), "of_plain": each.of_plain})
    return found


def processor(out: TextIO, quick: bool) -> list[Found]:
    """Measure the processor time per byte beside HAProxy, nginx and Linux."""
    for line in available()[1]:
        print(line, file=out)
    print(
        "real clients and servers; seconds of processor time per GB: the balancer's processes; everything; beyond",
        file=out,
    )
    print("a transfer without a balancer", file=out)
    print(f"  {'':36} {'offloads':9} {'way':9} {'Gbit/s':>6} {'own':>7} {'all':>7} {'beyond':>7}", file=out)
    found = []
    for row in costs(1.0, 1) if quick else costs():
        figures = f"{row.gbit_s:6.2f} {row.own_s:7.3f} {row.whole_s:7.3f} {row.beyond_s:7.3f}"
        print(f"  {row.route:36} {'on' if row.offloads else 'off':9} {row.way:9} {figures}", file=out, flush=True)
        found.append(asdict(row))
    return found


def changes(out: TextIO, quick: bool) -> list[Found]:
    """Change back ends under connections, and kill one of two balancers."""
    return _trials(
        out, [*(churned(QUICK_S) if quick else churned()), *killed()], "changes, or downloads of 7 that went on"
    )


def flood(out: TextIO, quick: bool) -> list[Found]:
    """Flood a service with SYNs."""
    rows = flooded(QUICK_S) if quick else flooded()
    found = _trials(out, rows, "SYNs sent")
    for service in SERVICES.values():
        quiet, loud = (row.p99_ms for row in rows if row.service == service)
        print(f"  p99 of {service}: {loud / quiet:.2f} x (target {MAX_P99})", file=out)
    return found


def _trials(out: TextIO, rows: Sequence[Trial], did: str) -> list[Found]:
    print("wrk with kept connections; errors are resets, timeouts and wrong replies", file=out)
    print(f"  {'':26} {'':14} {'requests':>9} {'errors':>6} {'p99 ms':>8} {did:>10}", file=out)
    for row in rows:
        figures = f"{row.requests:9,} {row.errors:6} {row.p99_ms:8.2f} {row.did:10,}"
        print(f"  {row.what:26} {row.service:14} {figures}", file=out, flush=True)
    return [asdict(row) for row in rows]


def dead(out: TextIO, quick: bool) -> Found:
    """Let back ends die, and measure until new connections go past them."""
    found = deaths(len(ENDS)) if quick else deaths()
    print(f"ms until a dead back end is out (target {LIMIT_MS}): median, worst", file=out)
    for name, times in found.items():
        print(f"  {name:10} {median_ms(times):8.0f} {times[-1]:8.0f}", file=out, flush=True)
    return {**found, "limit_ms": LIMIT_MS}


PARTS: dict[str, Callable[[TextIO, bool], Any]] = {
    "speed": speed, "processor": processor, "changes": changes, "flood": flood, "deaths": dead,
}  # fmt: skip
