"""The packet engine and the VPC gateway beside their peers: kernels in memory, whole devices on veth pairs.

Devices on veth pairs are compared by processor time, alternating on the same machine: read the ratios first.
"""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any, TextIO

import numpy as np

from heddle.benchmarks.gateway.in_memory import numpy_packets
from heddle.benchmarks.gateway.in_memory.c_loop import CLoops, compiler
from heddle.benchmarks.gateway.in_memory.cases import ENCAPSULATE, NAMES, case
from heddle.benchmarks.gateway.in_memory.cases import run as run_ours
from heddle.benchmarks.gateway.in_memory.compare import compared
from heddle.benchmarks.gateway.wire import latencies
from heddle.benchmarks.gateway.wire.course import SINK_IP
from heddle.benchmarks.gateway.wire.devices import absent, available
from heddle.benchmarks.gateway.wire.drains import BASE, Ratio, measured
from heddle.benchmarks.gateway.wire.latencies import RATE
from heddle.benchmarks.gateway.wire.loads import RUNS, SHARE, SLOTS, loads
from heddle.benchmarks.gateway.wire.ours import VNI
from heddle.benchmarks.gateway.wire.traffic import FLOWS, TARGET_NET, TARGETS
from heddle.dataplane.engine.burst import new_rows

LENGTHS = (64, 1500, 4200)
SHORT = LENGTHS[0]
LOAD_SECONDS = 10.0
BATCHES = (64, 1024)
SCAPY_FRAMES = 200
Found = dict[str, Any]


def run(out: TextIO, parts: Sequence[str] = (), load_seconds: float = LOAD_SECONDS) -> Found:
    """Measure the named parts (default: all); without root only the part `memory`.

    Args:
        out: for tables.
        parts: keys of PARTS.
        load_seconds: duration of the part `load` at 80 % of capacity, for each kind of port.
    """
    wanted = list(parts) or list(PARTS)
    if os.geteuid() != 0 and not parts:
        print("not root: only the part memory is measured", file=out)
        wanted = ["memory"]
    found: Found = {}
    for name in wanted:
        steal, begun = _stolen_s(), time.monotonic()
        found[name] = load(out, load_seconds) if name == "load" else PARTS[name](out)
        share = (_stolen_s() - steal) / (time.monotonic() - begun) / (os.cpu_count() or 1)
        found[f"{name}_steal_share"] = share
        print(f"  steal time of this machine meanwhile: {share:.2%}\n", file=out, flush=True)
    return found


def memory(out: TextIO) -> list[Found]:
    """Measure nanoseconds per packet of each kernel, beside C, NumPy and scapy."""
    loops = CLoops() if compiler() else None
    if loops is None:
        print("no C compiler: its column is left out", file=out)
    print(f"in memory, {FLOWS} flows, ns of processor time per packet: median (best)", file=out)
    print(f"  {'':28} {'bytes':>5} {'heddle':>16} {'C -O3':>16} {'ratio':>6}", file=out)
    found: list[Found] = []
    for kind, name in enumerate(NAMES):
        for length in LENGTHS:
            row = compared(kind, length, loops)
            found.append({"what": name, **asdict(row)})
            ours = f"{row.ours_ns:.1f} ({row.ours_best_ns:.1f})"
            theirs = f"{row.c_ns:.1f} ({row.c_best_ns:.1f})"
            print(f"  {name:28} {length:5} {ours:>16} {theirs:>16} {row.ratio:6.2f}", file=out, flush=True)
    for length in LENGTHS:
        found += _peers(out, length)
    return found


def _peers(out: TextIO, length: int) -> list[Found]:
    """Measure the encapsulation by NumPy and scapy, and compare each frame with ours."""
    right, rows = case(ENCAPSULATE, length), new_rows()
    run_ours(right, rows, 1)
    found: list[Found] = []
    for batch in BATCHES:
        theirs = case(ENCAPSULATE, length)
        keys, hops = numpy_packets.sorted_keys(theirs.tables)
        took = []
        for _ in range(5):
            before = time.process_time_ns()
            for first in range(0, FLOWS, batch):
                numpy_packets.encapsulate(theirs, keys, hops, first, batch)
            took.append((time.process_time_ns() - before) / FLOWS)
        if (theirs.frames.memory != right.frames.memory).any():
            raise RuntimeError("NumPy's frames differ from ours")
        found.append({"what": f"NumPy, {batch} at once", "length": length, "ns": statistics.median(took)})
    with suppress(ModuleNotFoundError):
        found.append({"what": "scapy", "length": length, "ns": _scapy_ns(length, right.frames.memory)})
    for row in found:
        print(f"  {NAMES[ENCAPSULATE] + ', ' + row['what']:54} {length:5} {row['ns']:10,.0f}", file=out, flush=True)
    return found


def _scapy_ns(length: int, right: np.ndarray) -> float:
    from heddle.benchmarks.gateway.in_memory.scapy_packets import encapsulate

    theirs = case(ENCAPSULATE, length)
    hop = theirs.tables.next_hops[0]
    source = int(hop["source_mac"]).to_bytes(6, "big").hex(":")
    endpoints = {
        f"10.1.0.{1 + n}": ((0x0200_0001_0000 + n).to_bytes(6, "big").hex(":"), source) for n in range(TARGETS)
    }
    assert TARGET_NET == 0x0A010000
    starts = theirs.frames.starts[:SCAPY_FRAMES].tolist()
    frames = [theirs.frames.memory[start : start + length].tobytes() for start in starts]
    before = time.process_time_ns()
    made = [encapsulate(frame, endpoints, VNI) for frame in frames]
    took = (time.process_time_ns() - before) / SCAPY_FRAMES
    for start, mine in zip(starts, made, strict=True):
        ours = right[start - 50 : start + length].tobytes()
        if ours[:34] + ours[36:] != mine[:34] + mine[36:]:  # except the source port, each one's own hash
            raise RuntimeError(f"scapy's frame to {SINK_IP} differs from ours")
    return took


def _wire(out: TextIO, length: int) -> list[Found]:
    """Measure all devices at one length."""
    for line in absent():
        print(line, file=out)
    print(f"on wires, {length} bytes, us of processor time per packet; ratios are per round:", file=out)
    print("their median, in brackets its 95 % confidence interval; `whole` includes the delivery", file=out)
    heads = f"{'median':>7} {'best':>7} {'Mpps':>6} {'to ' + BASE:24} {'to plain forwarding':18} {'whole':>7}"
    print(f"  {'':32} {heads} to {BASE}", file=out)
    rows = measured(length, available(length))
    for row in rows:
        own = f"{_figure(row.us)} {_figure(row.best_us)} {_figure(row.mpps)[1:]}"
        ratios = f"{_ratio(row.to_base):24} {_ratio(row.to_plain):18}"
        whole = f"{_figure(row.whole_us)} {_ratio(row.whole_to_base)}"
        print(f"  {row.device:32} {own} {ratios} {whole}", file=out, flush=True)
    return [asdict(row) for row in rows]


def _figure(value: float | None) -> str:
    return f"{'' if value is None else format(value, '.3f'):>7}"


def _ratio(ratio: Ratio | None) -> str:
    return "" if ratio is None else f"{ratio.median:.2f} [{ratio.low:.2f} {ratio.high:.2f}]"


def latency(out: TextIO) -> list[Found]:
    """Measure the latency of single frames."""
    print(
        f"latency, {SHORT} bytes, {RATE:,.0f} packets per second, microseconds through the device: best run of",
        file=out,
    )
    print(f"{latencies.RUNS} by its p99, in brackets the p99 of all", file=out)
    print(f"  {'':40} {'p50':>7} {'p99':>7} {'max':>9} {'lost':>5}", file=out)
    found = []
    for row in latencies.latencies(SHORT):
        best, others = row.best, " ".join(f"{run.p99_us:.0f}" for run in row.runs)
        figures = f"{best.p50_us:7.1f} {best.p99_us:7.1f} {best.max_us:9.1f} {best.lost:5}"
        print(f"  {row.device:40} {figures}  [{others}]", file=out, flush=True)
        found.append({**asdict(row), "best": asdict(best)})
    return found


def load(out: TextIO, seconds: float = LOAD_SECONDS) -> list[Found]:
    """Measure a gateway's capacity, and its losses at 80 % of it."""
    what = f"capacity, then {seconds:.0f} s at {SHARE:.0%} of it, up to {RUNS} times"
    print(f"load, {SHORT} bytes, whole gateway, a ring of {SLOTS:,} frames: {what}", file=out)
    found = []
    for row in loads(SHORT, seconds):
        bound = ", limited by the generator" if row.is_bound_by_generator else ""
        ratings = " ".join(f"{one.forwarded_pps / 1e3:,.0f}" for one in row.ratings)
        print(
            f"  {row.ratings[0].device}: {row.capacity_pps / 1e3:,.0f} kpps, the median of [{ratings}]{bound}",
            file=out,
        )
        for one in row.runs:
            missed = f"{one.missed:,} missed (ring full), {one.dropped:,} dropped {one.why or ''}"
            line = f"{one.sent:,} sent in {one.seconds:.1f} s, {one.sunk:,} received, {one.lost:,} lost: {missed}"
            print(f"    {line}", file=out, flush=True)
        found.append({"capacity_pps": row.capacity_pps, **asdict(row)})
    return found


def _stolen_s() -> float:
    """Return the steal time of all processors in seconds."""
    with suppress(OSError, IndexError):
        return int(Path("/proc/stat").read_text().split("\n")[0].split()[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def kernel(out: TextIO) -> list[Found]:
    """Measure real clients through the gateway, and through Linux on the same veths."""
    try:
        from heddle.benchmarks.gateway import beside_kernel
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] != "tests":
            raise
        print("the part kernel needs Heddle's source tree: left out", file=out)
        return []
    if lacking := [name for name in ("iperf", "nft") if which(name) is None]:
        print(f"{', '.join(lacking)} not found: the part kernel is left out", file=out)
        return []
    print("beside the kernel, offloads off, medians; seconds of processor time per GB of payload: of the", file=out)
    print("gateway's processes; of all, clients and servers included; in brackets its ratio to Linux", file=out)
    print(f"  {'':28} {'':26} {'Gbit/s':>7} {'lost %':>7} {'own':>7} {'all':>15} {'RTT ms':>7}", file=out)
    rows = beside_kernel.carried()
    base = {row.traffic: row.whole_s for row in rows if row.device == beside_kernel.LINUX}
    for row in rows:
        whole = f"{row.whole_s:.2f} ({row.whole_s / base[row.traffic]:.2f})"
        figures = f"{row.gbit_s:7.3f} {row.lost_percent:7.2f} {row.own_s:7.2f} {whole:>15} {row.rtt_ms:7.3f}"
        print(f"  {row.traffic:28} {row.device:26} {figures}", file=out, flush=True)
    return [asdict(row) for row in rows]


PARTS: dict[str, Callable[[TextIO], Any]] = {
    "memory": memory,
    **{f"wire-{length}": partial(_wire, length=length) for length in LENGTHS},
    "latency": latency,
    "load": load,
    "kernel": kernel,
}
