"""The age of a counter, from its time at the switch to the end of the scan that evaluated it, in a whole lab.

4 spines, 8 leaves and 32 hosts; first no host sends, then one, then 7 and 31 to one. One agent reads all switches and
NICs every 100 ms and publishes over a real mosquitto to a collector in a process of its own. Ages are in sampling
periods; the age at the message's arrival is printed for comparison. Needs root. Agent, broker and collector have a
higher priority than the lab's processes, since in a real fabric they do not compete with NICs and switches for CPUs.
"""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from heddle.benchmarks.fabric.incast import ACK_EVERY, ACK_TIMEOUT_NS, Incast, Mode, requests
from heddle.controller.config.telemetry import ports_of
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.host.priorities import TELEMETRY_NICENESS, set_niceness
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.telemetry.collector.bus import Broker
from heddle.telemetry.collector.collector import Collector
from heddle.telemetry.collector.mqtt import MqttBus
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.observer import Observer, Scan
from heddle.telemetry.samples.decode import TIMESTAMP
from heddle.telemetry.samples.ports import PortTable
from heddle.telemetry.warm import warm
from tests.support.fabrics.small_fabrics import spine_leaf
from tests.support.processes.mosquitto import mosquitto

SHAPE = Incast("31 to 1, 10 Mbit/s", 4, 8, 32, 10_000_000)
MODE = Mode("PFC and DCQCN", pfc=True, dcqcn=True)
PERIOD_MS, GOAL_PERIODS = 100, 1.5
SETTLE_S, SECONDS = 2.0, 15.0
LOADS = {"no traffic": 0, "one sender": 1, "7 to one": 7, "31 to one": 31}


class RecordingObserver(Observer):
    """An observer that records the age of each sample at the end of its scan."""

    def __init__(self, ports: PortTable) -> None:
        super().__init__("lab", ports, DetectorSettings(period_ms=PERIOD_MS))
        self.is_switch = np.array([":" in name for name in ports.names])
        self.ages_ms: dict[bool, list[float]] = {True: [], False: []}
        self.arrival_ms: dict[bool, list[float]] = {True: [], False: []}
        self._taken: list[tuple[Any, Any, int]] = []
        self._store = self.window.store
        self.window.store = self._record  # type: ignore[method-assign]

    def _record(self, rows: Any, positions: Any, at: Any, now_ns: int) -> Any:
        self._taken.append((rows.heads[positions, TIMESTAMP].astype(np.int64), at, now_ns))
        return self._store(rows, positions, at, now_ns)

    def scan(self, now_ns: int) -> Scan:
        """Scan, then record the ages."""
        scan = super().scan(now_ns)
        done_ns = time.time_ns()
        for stamps, at, arrived_ns in self._taken:
            for stamp, is_switch in zip(stamps.tolist(), self.is_switch[at].tolist(), strict=True):
                self.ages_ms[is_switch].append((done_ns - stamp) / 1e6)
                self.arrival_ms[is_switch].append((arrived_ns - stamp) / 1e6)
        self._taken = []
        return scan


async def collect(port: int, ports: PortTable, parent: Connection) -> None:
    """Collect until the parent closes the pipe; reply to each message with the ages since the last one."""
    warm()
    observer = RecordingObserver(ports)
    collector = Collector(observer, MqttBus(Broker(host="127.0.0.1", port=port)), lambda *_: None)
    running = asyncio.create_task(collector.run())
    await collector.connected.wait()
    parent.send("ready")
    while True:
        try:
            await asyncio.to_thread(parent.recv)
        except EOFError:
            break
        parent.send({name: summary(observer, which) for name, which in (("switches", True), ("nics", False))})
        for ages in (*observer.ages_ms.values(), *observer.arrival_ms.values()):
            ages.clear()
    running.cancel()
    await asyncio.wait([running], timeout=5)


def summary(observer: RecordingObserver, of_switches: bool) -> dict[str, float]:
    ages, arrivals = observer.ages_ms[of_switches], observer.arrival_ms[of_switches]
    p50, p99, largest = np.percentile(ages or [0.0], (50, 99, 100)) / PERIOD_MS
    arrival = np.percentile(arrivals or [0.0], 99) / PERIOD_MS
    return {
        "samples": len(ages),
        "arrival_p99_periods": float(arrival),
        "p50_periods": float(p50),
        "p99_periods": float(p99),
        "max_periods": float(largest),
    }


def run_collector(port: int, fabric: Fabric, parent: Connection) -> None:
    os.setsid()
    set_niceness(os.getpid(), TELEMETRY_NICENESS)
    asyncio.run(collect(port, ports_of(fabric), parent))


@contextmanager
def agent(directory: Path, port: int) -> Iterator[None]:
    """Run `heddle agent` for the whole lab."""
    command = [sys.executable, "-m", "heddle.programs.console.main", "agent", "--fabric", "lab", "--source", "emulated"]
    command += ["--lab", str(directory), "--broker", f"127.0.0.1:{port}", "--period", f"{PERIOD_MS}ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    set_niceness(process.pid, TELEMETRY_NICENESS)
    try:
        assert process.stdout is not None
        if not json.loads(process.stdout.readline())["ready"]:
            raise RuntimeError("the agent did not start")
        yield
    finally:
        process.terminate()
        process.communicate(timeout=20)


def send(lab: Lab, senders: int) -> None:
    """Run flows from `senders` hosts to one for the duration of a row."""
    if not senders:
        time.sleep(SECONDS)
        return
    size_bytes = int(SHAPE.line_bps / 8 * SECONDS)
    flows = [replace(one, size_bytes=size_bytes) for one in requests(SHAPE, MODE)[:senders]]
    lab.run_flows(flows, timeout_s=SECONDS)


def measured(lab: Lab, collector: Any) -> dict[str, dict[str, Any]]:
    rows = {}
    for name, senders in LOADS.items():
        time.sleep(SETTLE_S)
        collector.send("begin")
        collector.recv()
        began_s, busy = time.monotonic(), busy_s()
        send(lab, senders)
        rows[name] = {"cores_busy": (busy_s() - busy) / (time.monotonic() - began_s)}
        collector.send("stop")
        rows[name] |= collector.recv()
    return rows


def busy_s() -> float:
    """Return the seconds for which the machine's cores were busy since its start."""
    user, nice, system, _, _, interrupts, soft, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def run(out: TextIO) -> dict[str, object]:
    fabric = spine_leaf(SHAPE.spines, SHAPE.leaves, SHAPE.hosts, SHAPE.line_bps)
    settings = replace(
        NicSettings.for_fabric(fabric), dcqcn=MODE.dcqcn, ack_every=ACK_EVERY, ack_timeout_ns=ACK_TIMEOUT_NS
    )
    spawn = multiprocessing.get_context("spawn")
    with mosquitto() as broker, Lab(fabric, settings=settings, queues=QueueSettings(pfc=MODE.pfc)) as lab:
        lab.ecmp.load()
        ours, theirs = spawn.Pipe()
        collector = spawn.Process(target=run_collector, args=(broker.port, fabric, theirs))
        collector.start()
        set_niceness(broker.pid, TELEMETRY_NICENESS)
        theirs.close()
        if ours.recv() != "ready":
            raise RuntimeError("the collector did not start")
        with agent(lab.counters_directory.parent, broker.port):
            rows = measured(lab, ours)
        ours.close()
        collector.join(10)
        if collector.is_alive():
            collector.kill()
    title = (
        f"{SECONDS:.0f} s each, sampled every {PERIOD_MS} ms; age at the scan, in periods (goal: p99 {GOAL_PERIODS})"
    )
    print(f"4 x 8 x 32, {title}", file=out)
    print(f"{'':26}{'cores busy':>12}{'samples':>10}{'bus p99':>10}{'p50':>8}{'p99':>8}{'max':>8}", file=out)
    for load, row in rows.items():
        for name in ("switches", "nics"):
            cells = "".join(f"{row[name][key]:8.2f}" for key in ("p50_periods", "p99_periods", "max_periods"))
            arrival = f"{row[name]['arrival_p99_periods']:10.2f}"
            print(f"{load:16}{name:10}{row['cores_busy']:12.2f}{row[name]['samples']:10,}{arrival}{cells}", file=out)
    return {"period_ms": PERIOD_MS, "goal_periods": GOAL_PERIODS, "cores": os.cpu_count(), **rows}


if __name__ == "__main__":
    json.dump(run(sys.stderr), sys.stdout, indent=1)
