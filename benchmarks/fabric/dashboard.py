"""The cost of the page: 50 clients of the stream at 64 spines, 128 leaves, 8,192 NICs and 10,000 flows.

One process holds the state of a controller and publishes a new measurement of every port once a second; another reads
50 streams, and one client loads every document again and again. The cost is the first process's CPU time beyond that
of the same time without clients. The lag of its event loop is that of a timer of 5 ms, under that load. `silent`
clients never read: the memory that they cost is measured.

As root, `page_cut` then measures how soon a cut cable is on the page of a live lab.

python -m heddle.benchmarks.fabric.dashboard [--quick] runs this benchmark alone.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import random
import resource
import socket
import statistics
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TextIO

import numpy as np

from heddle.benchmarks.fabric import page_cut
from heddle.controller.brain.begin import begin
from heddle.controller.brain.state import Job, State
from heddle.controller.config.telemetry import ports_of
from heddle.controller.dashboard.server import Dashboard
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import Plan
from heddle.controller.planner.solve import solve
from heddle.controller.runtime.interpreter import shorten_pauses
from heddle.controller.runtime.telemetry import Telemetry
from heddle.foundation.traffic_class import DATA
from heddle.telemetry.detection.signal import Signal, SignalKind
from heddle.telemetry.detection.window import SECOND_NS, Links, Snapshot
from heddle.telemetry.samples.counters import COLUMNS, PRIORITIES, port_column, queue_columns
from tests.support.controllers.bare_loop import sources_of
from tests.support.fabrics.small_fabrics import spine_leaf

SPINES, LEAVES, HOSTS, FLOWS, JOBS = 64, 128, 8_192, 10_000, 50
BPS = 100 * 10**9
CLIENTS, SILENT = 50, 1_000
SECONDS, QUICK_SECONDS = 20, 5
PROBE_S, AGAIN_S = 0.005, 0.5
DOCUMENTS = ("fabric", "state", "matrix", "jobs", "jobs/job0", "congestion", "timeline", "health", "ports/leaf1/1")
SNAPSHOTS, HOT = 4, 20


class Phase(NamedTuple):
    """What one phase cost: processor seconds per second, and the lags of the loop in milliseconds."""

    cpu_share: float
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float


def planned_state() -> State:
    """Return a controller's state with jobs of random pairs that together have FLOWS flows."""
    fabric = spine_leaf(SPINES, LEAVES, HOSTS, BPS)
    chance = random.Random(1)
    each = FLOWS // JOBS
    requests = []
    for number in range(JOBS):
        ranks = tuple(nic.id for nic in chance.sample(fabric.nics, 2 * each))
        pairs = tuple(RankPair(rank, each + rank) for rank in range(each))
        collective = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1 << 30, pairs=pairs)
        requests.append(JobRequest(job_id=f"job{number}", ranks=ranks, collectives=(collective,)))
    plan = solve(fabric, requests, health=Health())
    assert isinstance(plan, Plan)
    jobs = {
        request.job_id: Job(
            request=request, number=number, generation=1, state=JobState.RUNNING, reason="submitted",
            lease_expires_unix_ms=0, flows=flows,
        )
        for number, (request, flows) in enumerate(zip(requests, plan.jobs, strict=True), start=1)
    }  # fmt: skip
    state = begin(fabric)
    switches = {
        name: replace(switch, connected=True, installed=state.underlay[name]) for name, switch in state.switches.items()
    }
    return replace(state, jobs=jobs, switches=switches, certificate=plan.certificate)


def snapshots(fabric: Fabric) -> list[Snapshot]:
    """Return measurements of all ports, each with other rates: most links between 0 and 90 %."""
    table, chance = ports_of(fabric), np.random.default_rng(1)
    ports, window_ns = len(table), 8 * SECOND_NS
    found = []
    for _ in range(SNAPSHOTS):
        delta = np.zeros((ports, COLUMNS), dtype=np.uint64)
        for name in ("tx_bytes", "rx_bytes"):
            delta[:, port_column(name)] = chance.integers(0, int(0.9 * BPS / 8 * window_ns / SECOND_NS), ports)
        paused = np.zeros((ports, PRIORITIES), dtype=np.uint64)
        paused[chance.integers(0, ports, ports // 50), DATA.priority] = window_ns // 50
        delta[:, queue_columns("paused_ns")] = paused
        gauges = np.zeros((ports, PRIORITIES), dtype=np.uint64)
        ones = np.ones(ports, dtype=np.uint64)
        found.append(
            Snapshot(
                now_ns=0, names=table.names, total=delta, window_delta=delta,
                window_interval_ns=np.full(ports, window_ns), depth_bytes=gauges, max_depth_bytes=gauges,
                watchdog_dropped_packets=gauges, watchdog_active=gauges > 0,
                timestamp_ns=np.zeros(ports, dtype=np.int64), sequence=ones, boot_id=ones,
                heard=ones > 0, stale=ones == 0, link=Links.of(ports),
            )
        )  # fmt: skip
    return found


def _serve(control: Connection) -> None:
    asyncio.run(_controller(control))


async def _controller(control: Connection) -> None:
    """Serve the page; measure a phase for each number of seconds received, until None."""
    state = planned_state()
    telemetry = Telemetry(configured=True)
    dashboard = Dashboard(sources_of(state, telemetry), lambda text, fabric: ())
    port = await dashboard.start("127.0.0.1", 0)
    ticking = asyncio.create_task(_tick(telemetry, state.fabric, snapshots(state.fabric)))
    shorten_pauses()
    control.send(port)
    running = asyncio.get_running_loop()
    while (seconds := await running.run_in_executor(None, control.recv)) is not None:
        control.send((await _phase(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10))
    ticking.cancel()
    await dashboard.close()


async def _tick(telemetry: Telemetry, fabric: Fabric, measured: list[Snapshot]) -> None:
    hot = tuple(
        Signal(
            kind=SignalKind.CONGESTION, port=str(cable.upper), priority=DATA.priority, raised=True, value=0.5,
            threshold=0.1, since_unix_ns=1, sampled_unix_ns=1,
        )
        for cable in fabric.cables[:HOT]
    )  # fmt: skip
    for number in range(1 << 30):
        await asyncio.sleep(1.0)
        telemetry.tick(replace(measured[number % len(measured)], now_ns=time.time_ns()), hot)


async def _phase(seconds: float) -> Phase:
    clock, lags = asyncio.get_running_loop().time, []
    began_s, began_cpu_s = clock(), time.process_time()
    while clock() - began_s < seconds:
        due_s = clock() + PROBE_S
        await asyncio.sleep(PROBE_S)
        lags.append((clock() - due_s) * 1e3)
    share = (time.process_time() - began_cpu_s) / (clock() - began_s)
    cuts = statistics.quantiles(lags, n=100)
    return Phase(share, cuts[49], cuts[98], max(lags))


class Reader:
    """Streams of one process: bytes and states received."""

    def __init__(self) -> None:
        self.received_bytes = self.states = self.connected_again = 0

    async def stream(self, port: int) -> None:
        """Read one stream until cancelled; connect again as a browser does."""
        while True:
            with contextlib.suppress(ConnectionError):
                await self._stream(port)
            self.connected_again += 1
            await asyncio.sleep(AGAIN_S)

    async def _stream(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while piece := await reader.read(1 << 20):
            self.received_bytes += len(piece)
            self.states += piece.count(b"event: state")

    async def load(self, port: int) -> None:
        """Load every document, one after the other, until cancelled."""
        await asyncio.sleep(AGAIN_S)  # an address has 48 connections that are no streams yet
        while True:
            for name in DOCUMENTS:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"GET /api/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                assert (await reader.readline()).endswith(b" 200 OK\r\n"), name
                while await reader.read(1 << 20):
                    pass
                writer.close()
                await asyncio.sleep(0.5)


def _read(control: Connection, port: int, loads: bool) -> None:
    asyncio.run(_clients(control, port, loads))


async def _clients(control: Connection, port: int, loads: bool) -> None:
    found = Reader()
    tasks = [asyncio.create_task(found.stream(port)) for _ in range(CLIENTS)]
    if loads:
        tasks.append(asyncio.create_task(found.load(port)))
    await asyncio.get_running_loop().run_in_executor(None, control.recv)
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    control.send((found.received_bytes, found.states, found.connected_again))


def silent_clients(port: int, count: int) -> list[socket.socket]:
    """Open streams that are never read."""
    found = []
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found.append(client)
    return found


def run(out: TextIO, quick: bool = False) -> dict[str, Any]:
    """Measure, print the table, and return the figures."""
    seconds = QUICK_SECONDS if quick else SECONDS
    spawn = multiprocessing.get_context("spawn")
    control, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(theirs,))
    server.start()
    port = control.recv()
    found: dict[str, Any] = {}

    def measured(name: str) -> None:
        time.sleep(2)
        control.send(seconds)
        phase, memory_mb = control.recv()
        found[name] = phase._asdict() | {"max_memory_mb": memory_mb}

    measured("idle")
    for name, loads in (("streams", False), ("streams and documents", True)):
        mine, other = spawn.Pipe()
        clients = spawn.Process(target=_read, args=(other, port, loads))
        clients.start()
        other.close()  # so that its end ends `recv`
        measured(name)
        mine.send(None)
        received, states, again = mine.recv()
        clients.join()
        assert states >= CLIENTS * seconds / 2, f"{states} states reached {CLIENTS} clients in {seconds} s"
        found[name] |= {"state_kb": received / states / 1e3, "connected_again": again}
        found[name]["cost_share"] = found[name]["cpu_share"] - found["idle"]["cpu_share"]
    silent = silent_clients(port, SILENT)
    measured("silent")
    for client in silent:
        client.close()
    control.send(None)
    server.join()
    _print(out, found)
    return found | page_cut.run(out, quick)


def _print(out: TextIO, found: dict[str, Any]) -> None:
    print(
        f"{SPINES} spines, {LEAVES} leaves, {HOSTS} NICs, {FLOWS} flows; {CLIENTS} clients, {SILENT} silent", file=out
    )
    print(f"{'':24}{'CPU':>7}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'memory MB':>11}{'state kB':>10}", file=out)
    for name, row in found.items():
        size = f"{row['state_kb']:10.0f}" if "state_kb" in row else ""
        lags = "".join(f"{row[key]:9.2f}" for key in ("lag_p50_ms", "lag_p99_ms", "lag_max_ms"))
        print(f"{name:24}{row['cpu_share']:7.3f}{lags}{row['max_memory_mb']:11}{size}", file=out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure the page's server.")
    parser.add_argument("--quick", action="store_true")
    print(json.dumps(run(sys.stderr, parser.parse_args().quick), indent=1))
