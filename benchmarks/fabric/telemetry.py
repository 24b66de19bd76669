"""The collector under load: synthetic agents, a real mosquitto, and the cost of the whole collector.

125 switches of 80 ports with 8 priorities each publish one batch per second for 60 s (--quick: 10 s). Agents, broker
and collector are separate processes. The cost is the collector's CPU time over all threads: MQTT client, decoding,
windows, detection and the copy for readers. A second run adds the readers of a controller: a history in SQLite and a
scrape of /metrics every 5 s. Every port and queue changes every second.

python -m heddle.benchmarks.fabric.telemetry [--quick | --seconds N] runs this benchmark alone.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import statistics
import sys
import time
from array import array
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import numpy as np

from heddle.controller.brain.begin import begin
from heddle.controller.dashboard.metrics import metrics_text
from heddle.controller.runtime.interpreter import shorten_pauses
from heddle.controller.runtime.telemetry import Telemetry
from heddle.controller.store.history import SqliteHistory
from heddle.telemetry.collector.bus import Broker, BusConnectionError
from heddle.telemetry.collector.collector import Collector, Readers
from heddle.telemetry.collector.mqtt import MqttBus
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.observer import Observer, Scan
from heddle.telemetry.samples.counters import PRIORITIES
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.topic import Source, ports_topic
from heddle.telemetry.warm import warm
from heddle.v1 import heddle_pb2
from tests.support.controllers.bare_loop import sources_of
from tests.support.fabrics.small_fabrics import spine_leaf
from tests.support.processes.mosquitto import mosquitto

SWITCHES, PORTS = 125, 80
PERIOD_S, RATE_BPS = 1.0, 100 * 10**9
SECONDS, QUICK_SECONDS = 60, 10
SCRAPE_EVERY_S = 5.0
SETTLE_S = 2.5
LAGS = ("p50", "p99", "p999", "max")


def port_table() -> PortTable:
    return PortTable(
        Port(f"leaf{s}:{p}", Source.SWITCH, f"leaf{s}", RATE_BPS)
        for s in range(1, SWITCHES + 1)
        for p in range(1, PORTS + 1)
    )


def first_batch(switch: int) -> heddle_pb2.PortSampleBatch:
    """Return a switch's batch with counters as large as after weeks."""
    batch = heddle_pb2.PortSampleBatch()
    for port in range(1, PORTS + 1):
        sample = batch.samples.add(port=f"leaf{switch}:{port}", boot_id=1_790_000_000, tx_bytes=10**15, rx_bytes=10**15)
        sample.tx_packets = sample.rx_packets = 10**11
        for priority in range(PRIORITIES):
            sample.queues.add(
                priority=priority, packets=10**10, bytes=10**14, ecn_marked_packets=10**6, pfc_rx_frames=10**4,
                pfc_tx_frames=10**4, paused_ns=10**9, depth_bytes=50_000, max_depth_bytes=200_000, dropped_packets=7,
            )  # fmt: skip
    return batch


def advance(batch: heddle_pb2.PortSampleBatch, sequence: int) -> bytes:
    """Add one second of traffic, with a hundredth of the ports congested, and return the encoded batch."""
    now = time.time_ns()
    for number, sample in enumerate(batch.samples):
        sample.timestamp_unix_ns, sample.sequence = now, sequence
        sample.tx_bytes += 10**9
        sample.tx_packets += 250_000
        for queue in sample.queues:
            queue.packets += 30_000
            queue.bytes += 120_000_000
            queue.ecn_marked_packets += 3_000 if number % 100 == 0 and queue.priority == 3 else 0
    return batch.SerializeToString()


async def agents(port: int, seconds: int) -> int:
    """Publish every switch's batch once per second, spread over the second; return the number of samples."""
    batches = [first_batch(switch) for switch in range(1, SWITCHES + 1)]
    async with MqttBus(Broker(host="127.0.0.1", port=port)).connection() as client:
        began = time.monotonic()
        for second in range(seconds):
            for number, batch in enumerate(batches):
                due = began + second * PERIOD_S + number * PERIOD_S / SWITCHES
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await client.publish(ports_topic("bench", f"leaf{number + 1}"), advance(batch, second + 1))
    return seconds * SWITCHES * PORTS


def run_agents(port: int, seconds: int, parent: Connection) -> None:
    parent.send(asyncio.run(agents(port, seconds)))


class Measured:
    """Measurements of the collecting process."""

    def __init__(self) -> None:
        self.rss_bytes: list[int] = []
        self.lags_s = array("d")
        self.ages_s = array("d")
        self.scans = self.raised = self.scrapes = self.scraped_bytes = 0

    async def lag(self) -> None:
        """Record the delay of the event loop beyond each requested sleep."""
        while True:
            due = time.perf_counter() + 0.01
            await asyncio.sleep(0.01)
            self.lags_s.append(time.perf_counter() - due)


def rss_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


async def scrape(telemetry: Telemetry, seen: Measured) -> None:
    """Render the metrics every `SCRAPE_EVERY_S`, as the controller's server does."""
    sources = sources_of(begin(spine_leaf(4, 8, 32, RATE_BPS)), telemetry)
    while True:
        await asyncio.sleep(SCRAPE_EVERY_S)
        pieces = metrics_text(sources, Counter())
        while piece := await asyncio.to_thread(next, pieces, ""):
            seen.scraped_bytes += len(piece)
        seen.scrapes += 1


async def collect(port: int, parent: Connection, history: Path | None) -> dict[str, Any]:
    """Collect until the parent sends a line and return the costs; with `history`, run the controller's readers too."""
    warm()
    shorten_pauses()
    seen = Measured()
    observer = Observer("bench", port_table(), DetectorSettings())
    telemetry = Telemetry(configured=True, history=SqliteHistory(history) if history else None)

    def on_scan(scan: Scan, readers: Readers | None) -> None:
        seen.scans += 1
        seen.raised += sum(signal.raised for signal in scan.signals)
        if readers is None:
            return
        snapshot, active = readers
        telemetry.tick(snapshot, active)
        seen.rss_bytes.append(rss_bytes())
        heard = snapshot.timestamp_ns[snapshot.heard]
        if heard.size and scan.samples:
            seen.ages_s.append(float(np.percentile((scan.now_ns - heard) / 1e9, 99)))

    collector = Collector(observer, MqttBus(Broker(host="127.0.0.1", port=port)), on_scan)
    running = asyncio.create_task(collector.run())
    await collector.connected.wait()
    others = [asyncio.create_task(seen.lag())]
    if history:
        others.append(asyncio.create_task(scrape(telemetry, seen)))
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    parent.send("ready")
    await asyncio.to_thread(parent.recv)
    elapsed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    for task in (running, *others):
        task.cancel()
    await asyncio.gather(running, *others, return_exceptions=True)
    written = telemetry.history.counts() if telemetry.history else {}
    lags = sorted(seen.lags_s)
    return {
        "seconds": elapsed_s,
        "cpu_seconds": cpu_s,
        "cores": cpu_s / elapsed_s,
        "samples": observer.samples,
        "bytes": collector.counts.received_bytes,
        "counts": collector.totals(),
        "scans": seen.scans,
        "signals": seen.raised,
        "history": dict(written),
        "scrapes": seen.scrapes,
        "scraped_bytes": seen.scraped_bytes,
        "rss_at_10_s_bytes": seen.rss_bytes[min(10, len(seen.rss_bytes) - 1)],
        "rss_last_bytes": seen.rss_bytes[-1],
        "rss_bytes_every_10_s": seen.rss_bytes[::10],
        "loop_lag_p50_ms": lags[len(lags) // 2] * 1e3,
        "loop_lag_p99_ms": lags[int(len(lags) * 0.99)] * 1e3,
        "loop_lag_p999_ms": lags[int(len(lags) * 0.999)] * 1e3,
        "loop_lag_max_ms": lags[-1] * 1e3,
        "sample_age_p99_s": statistics.median(seen.ages_s) if seen.ages_s else None,
    }


def run_collector(port: int, parent: Connection, history: Path | None) -> None:
    try:
        parent.send(asyncio.run(collect(port, parent, history)))
    except BusConnectionError as lost:
        parent.send({"failed": str(lost)})


def parts() -> dict[str, float]:
    """Return the cost of one message and of one scan in microseconds, each alone, the best of many."""
    observer = Observer("bench", port_table(), DetectorSettings())
    batch, topic = first_batch(1), ports_topic("bench", "leaf1")
    payloads = [advance(batch, n) for n in range(1, 40)]
    now = time.time_ns()
    message, scan = [], []
    for payload in payloads:
        started = time.perf_counter()
        observer.take(topic, payload, now)
        message.append(time.perf_counter() - started)
    batches = [first_batch(switch) for switch in range(1, SWITCHES + 1)]
    for sequence in range(1, 8):
        now = time.time_ns()
        for switch, whole in enumerate(batches, 1):
            observer.take(ports_topic("bench", f"leaf{switch}"), advance(whole, 100 + sequence), now)
        started = time.perf_counter()
        observer.scan(now)
        observer.snapshot(now)
        observer.active()
        scan.append(time.perf_counter() - started)
    return {"message_us": min(message) * 1e6, "scan_us": min(scan) * 1e6, "message_bytes": float(len(payloads[0]))}


def measure(seconds: int, history: Path | None) -> dict[str, Any]:
    """Run agents, broker and collector once; return the collector's figures, and the samples sent and lost."""
    spawn = multiprocessing.get_context("spawn")
    with mosquitto() as broker:
        ours, theirs = spawn.Pipe()
        collector = spawn.Process(target=run_collector, args=(broker.port, theirs, history))
        collector.start()
        if ours.recv() != "ready":
            raise RuntimeError("the collector did not start")
        sent_by, sender = spawn.Pipe()
        agent = spawn.Process(target=run_agents, args=(broker.port, seconds, sender))
        agent.start()
        sent = sent_by.recv()
        time.sleep(SETTLE_S)
        ours.send("stop")
        measured: dict[str, Any] = ours.recv()
        for process in (collector, agent):
            process.join(30)
    if "failed" in measured:
        raise RuntimeError(measured["failed"])
    return {"sent_samples": sent, "lost_samples": sent - measured["samples"], **measured}


def table(measured: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the printed table."""
    rss = measured["rss_at_10_s_bytes"] / 2**20, measured["rss_last_bytes"] / 2**20
    rows = [
        ("samples sent, lost", f"{measured['sent_samples']}, {measured['lost_samples']}"),
        ("cores used", f"{measured['cores']:.3f}"),
        ("resident at 10 s, at the end", f"{rss[0]:.1f}, {rss[1]:.1f} MiB"),
        ("loop lag p50, p99, p99.9, max", " ".join(f"{measured[f'loop_lag_{q}_ms']:.1f}" for q in LAGS) + " ms"),
    ]
    if measured["scrapes"]:
        size = measured["scraped_bytes"] / measured["scrapes"] / 1e6
        rows.append(("scrapes, size of one", f"{measured['scrapes']}, {size:.1f} MB"))
        rows.append(
            ("history: batches, skipped", "{written_batches}, {skipped_snapshots}".format(**measured["history"]))
        )
    return rows


def run(out: TextIO, *, seconds: int = SECONDS) -> dict[str, object]:
    costs = parts()
    alone = measure(seconds, None)
    with TemporaryDirectory(prefix="heddle-bench-") as folder:
        whole = measure(seconds, Path(folder) / "history.sqlite")
    print(f"{SWITCHES} agents of {PORTS} ports x {PRIORITIES} priorities at 1 Hz for {seconds} s, mosquitto", file=out)
    for title, rows in (
        ("the collector alone", table(alone)),
        (f"with history and a scrape every {SCRAPE_EVERY_S:.0f} s", table(whole)),
        (
            "in parts",
            [
                ("one message of 80 ports", f"{costs['message_us']:.0f} us, {costs['message_bytes']:.0f} bytes"),
                ("one scan, all ports new, and a copy", f"{costs['scan_us'] / 1e3:.1f} ms"),
            ],
        ),
    ):
        print(title, file=out)
        for name, value in rows:
            print(f"  {name:36} {value:>24}", file=out)
    return {**alone, **costs, "whole": whole}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    chosen = parser.parse_args()
    json.dump(run(sys.stderr, seconds=QUICK_SECONDS if chosen.quick else chosen.seconds), sys.stdout, indent=1)
