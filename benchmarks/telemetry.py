"""The collector under load: synthetic agents, a real mosquitto, and what the whole collector costs.

125 switches of 80 ports with 8 priorities each publish one batch a second for 60 s (--quick: 10 s). Agents, broker and
collector are processes of their own; counted is the collector's CPU time over all threads: MQTT client, decoding,
windows, detection and the copy for readers.

python -m benchmarks.telemetry [--quick] runs this one alone.
"""

import asyncio
import json
import multiprocessing
import resource
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from controller.api.proto.heddle.v1 import heddle_pb2
from telemetry.collector.bus import Broker, BusLost, MqttBus
from telemetry.collector.collector import Collector, Readers
from telemetry.counters import PRIORITIES
from telemetry.observer import Look, Observer
from telemetry.ports import Port, PortTable
from telemetry.thresholds import DetectorSettings
from telemetry.topic import Source, ports_topic
from telemetry.warm import warm
from tests.fakes.mosquitto import mosquitto

SWITCHES, PORTS = 125, 80
PERIOD_S, RATE_BPS = 1.0, 100 * 10**9
SECONDS, QUICK_SECONDS = 60, 10
SETTLE_S = 2.5
LAGS = ("p50", "p99", "p999", "max")


def port_table() -> PortTable:
    return PortTable(
        Port(f"leaf{s}:{p}", Source.SWITCH, f"leaf{s}", RATE_BPS)
        for s in range(1, SWITCHES + 1)
        for p in range(1, PORTS + 1)
    )


def first_batch(switch: int) -> heddle_pb2.PortSampleBatch:
    """Return a switch's batch with counters as large as those of weeks."""
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
    """Let a second's traffic pass: a hundredth of the ports is congested."""
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
    """Publish every switch's batch once a second, the switches spread over it; return how many samples went out."""
    batches = [first_batch(switch) for switch in range(1, SWITCHES + 1)]
    async with MqttBus(Broker(host="127.0.0.1", port=port)).connection() as client:
        began = time.monotonic()
        for second in range(seconds):
            for number, batch in enumerate(batches):
                due = began + second * PERIOD_S + number * PERIOD_S / SWITCHES
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await client.publish(ports_topic("bench", f"leaf{number + 1}"), advance(batch, second + 1))
    return seconds * SWITCHES * PORTS


def run_agents(port: int, seconds: int, told: Connection) -> None:
    told.send(asyncio.run(agents(port, seconds)))


class Measured:
    """What a collecting process sees of itself."""

    def __init__(self) -> None:
        self.rss_bytes: list[int] = []
        self.lags_s: list[float] = []
        self.ages_s: list[float] = []
        self.looks: list[Look] = []

    async def lag(self) -> None:
        """Note how much later than asked the loop comes back to a task."""
        while True:
            asked = time.perf_counter() + 0.01
            await asyncio.sleep(0.01)
            self.lags_s.append(time.perf_counter() - asked)


def rss_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


async def collect(port: int, told: Connection) -> dict[str, Any]:
    """Collect until the parent says stop; return what it cost."""
    warm()
    seen = Measured()
    observer = Observer("bench", port_table(), DetectorSettings())

    def on_look(look: Look, readers: Readers | None) -> None:
        seen.looks.append(look)
        if readers is None:
            return
        snapshot, _ = readers
        seen.rss_bytes.append(rss_bytes())
        heard = snapshot.timestamp_ns[snapshot.heard]
        if heard.size and look.samples:
            seen.ages_s.append(float(np.percentile((look.now_ns - heard) / 1e9, 99)))

    collector = Collector(observer, MqttBus(Broker(host="127.0.0.1", port=port)), on_look)
    running = asyncio.create_task(collector.run())
    await collector.connected.wait()
    lag = asyncio.create_task(seen.lag())
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    told.send("ready")
    await asyncio.to_thread(told.recv)
    elapsed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    for task in (running, lag):
        task.cancel()
    await asyncio.gather(running, lag, return_exceptions=True)
    lags = sorted(seen.lags_s)
    tail = seen.rss_bytes[min(5, len(seen.rss_bytes) - 1) :]
    return {
        "seconds": elapsed_s,
        "cpu_seconds": cpu_s,
        "cores": cpu_s / elapsed_s,
        "samples": observer.samples,
        "bytes": collector.counts.received_bytes,
        "counts": collector.totals(),
        "signals": sum(signal.raised for look in seen.looks for signal in look.signals),
        "rss_first_bytes": tail[0],
        "rss_last_bytes": tail[-1],
        "rss_bytes_every_10_s": seen.rss_bytes[::10],
        "loop_lag_p50_ms": lags[len(lags) // 2] * 1e3,
        "loop_lag_p99_ms": lags[int(len(lags) * 0.99)] * 1e3,
        "loop_lag_p999_ms": lags[int(len(lags) * 0.999)] * 1e3,
        "loop_lag_max_ms": lags[-1] * 1e3,
        "sample_age_p99_s": statistics.median(seen.ages_s) if seen.ages_s else None,
    }


def run_collector(port: int, told: Connection) -> None:
    try:
        told.send(asyncio.run(collect(port, told)))
    except BusLost as lost:
        told.send({"failed": str(lost)})


def parts() -> dict[str, float]:
    """Return what one message and one look cost, alone and at best of many, in microseconds."""
    observer = Observer("bench", port_table(), DetectorSettings())
    batch, topic = first_batch(1), ports_topic("bench", "leaf1")
    payloads = [advance(batch, n) for n in range(1, 40)]
    now = time.time_ns()
    message, look = [], []
    for payload in payloads:
        started = time.perf_counter()
        observer.take(topic, payload, now)
        message.append(time.perf_counter() - started)
    for _ in range(10):
        started = time.perf_counter()
        observer.look(now)
        observer.snapshot(now)
        observer.active()
        look.append(time.perf_counter() - started)
    return {"message_us": min(message) * 1e6, "look_us": min(look) * 1e6, "message_bytes": float(len(payloads[0]))}


def run(out: TextIO, *, quick: bool = False) -> dict[str, object]:
    seconds = QUICK_SECONDS if quick else SECONDS
    spawn = multiprocessing.get_context("spawn")
    with mosquitto() as broker:
        ours, theirs = spawn.Pipe()
        collector = spawn.Process(target=run_collector, args=(broker.port, theirs))
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
    costs = parts()
    lost = sent - measured["samples"]
    row = [
        ("ports x priorities", f"{SWITCHES * PORTS} x {PRIORITIES}"),
        ("samples sent, lost", f"{sent}, {lost}"),
        ("the collector's cores", f"{measured['cores']:.3f}"),
        (
            "resident memory, first and last",
            f"{measured['rss_first_bytes'] >> 20} {measured['rss_last_bytes'] >> 20} MiB",
        ),
        ("loop lag p50, p99, p99.9, max", " ".join(f"{measured[f'loop_lag_{q}_ms']:.1f}" for q in LAGS) + " ms"),
        ("one message of 80 ports", f"{costs['message_us']:.0f} us, {costs['message_bytes']:.0f} bytes"),
        ("one look at all ports", f"{costs['look_us'] / 1e3:.1f} ms"),
    ]
    print(f"{SWITCHES} agents at 1 Hz for {seconds} s through mosquitto", file=out)
    for name, value in row:
        print(f"  {name:34} {value:>24}", file=out)
    return {"sent_samples": sent, "lost_samples": lost, **measured, **costs}


if __name__ == "__main__":
    json.dump(run(sys.stderr, quick="--quick" in sys.argv), sys.stdout, indent=1)
