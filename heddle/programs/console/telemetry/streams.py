"""`heddle telemetry record` and `replay`: messages of the broker to a file, and back to a broker or the detector."""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from heddle.controller.config import load_fabric
from heddle.controller.config.telemetry import TelemetryConfig, broker_of, ports_of
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.foundation.regular_file import open_regular
from heddle.telemetry.collector.bus import Broker, BusConnectionError, Message
from heddle.telemetry.collector.mqtt import MqttBus
from heddle.telemetry.detection.thresholds import DetectorSettings, complaints
from heddle.telemetry.observer import Observer, Scan
from heddle.telemetry.samples.decode import BatchDecoder
from heddle.telemetry.samples.ports import PortTable
from heddle.telemetry.samples.recording import MAGIC, Recorded, RecordingError, frame, ports_in, read
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES, Rejected
from heddle.telemetry.samples.topic import Source, parse, subscriptions
from heddle.v1 import heddle_pb2

MAX_PORTS_IN_RECORDING = 100_000
UNKNOWN_RATE_BPS = 400 * 10**9
MAX_WAIT_S = 60.0
ALL_FABRICS = "+"


def record(
    path: Path, *, broker: str, tls: Mapping[str, Path | None], fabric: str | None, seconds: float | None,
    max_bytes: int, as_json: bool,
) -> None:  # fmt: skip
    """Record messages of the broker until SIGINT, or until the time or the size is reached."""
    at = _broker(broker, tls)
    with _created(path) as file:
        file.write(MAGIC)
        writer = _Writer(file, max_bytes)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_record(at, fabric or ALL_FABRICS, writer, seconds))
    summary = {"file": str(path), "messages": writer.messages, "bytes": writer.size, "full": writer.full.is_set()}
    print(json.dumps(summary) if as_json else f"{writer.messages} messages, {writer.size} bytes in {path}")


def replay(
    path: Path,
    *,
    broker: str | None,
    fabric: Path | None,
    speed: float,
    keep_times: bool,
    period_ms: int,
    as_json: bool,
) -> None:
    """Publish a recording, or run the detector over it and print the signals if there is no broker."""
    if broker is not None:
        count = asyncio.run(_publish(path, _broker(broker), speed, keep_times))
        print(json.dumps({"messages": count}) if as_json else f"{count} messages published")
        return
    settings = DetectorSettings(period_ms=period_ms)
    wrong = complaints(settings)
    if wrong:
        raise InputError(*(f"--{key.replace('_', '-')}: {text}" for key, text in wrong.items()))
    _detect(path, fabric, settings, as_json)


class _Writer:
    """Writes a recording, up to a size."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self.messages, self.size, self.full = 0, len(MAGIC), asyncio.Event()
        self._file, self._max_bytes = file, max_bytes

    def take(self, message: Message) -> None:
        """Write one message; of a payload that is too long, only as much as shows a reader that it is."""
        payload = message.payload[: MAX_PAYLOAD_BYTES + 1]
        with contextlib.suppress(ValueError):
            written = frame(Recorded(time.time_ns(), message.topic, payload))
            if self.size + len(written) > self._max_bytes:
                self.full.set()
            elif not self.full.is_set():
                self._file.write(written)
                self.messages += 1
                self.size += len(written)


async def _record(broker: Broker, fabric: str, writer: _Writer, seconds: float | None) -> None:
    running = asyncio.get_running_loop()
    ended = asyncio.Event()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(wanted, ended.set)
    listening = asyncio.create_task(MqttBus(broker).listen(subscriptions(fabric), writer.take, asyncio.Event()))
    waits = [listening, asyncio.create_task(ended.wait()), asyncio.create_task(writer.full.wait())]
    done, left = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    if listening in done:
        try:
            listening.result()
        except BusConnectionError as lost:
            raise PrerequisiteError(f"the broker at {broker.host}:{broker.port} is lost: {lost}") from None


async def _publish(path: Path, broker: Broker, speed: float, keep_times: bool) -> int:
    count, first_ns, began = 0, 0, time.monotonic()
    try:
        async with MqttBus(broker).connection() as client:
            for message in _messages(path):
                first_ns = first_ns or message.unix_ns
                due = began + max(0.0, message.unix_ns - first_ns) / 1e9 / speed
                await asyncio.sleep(min(MAX_WAIT_S, max(0.0, due - time.monotonic())))
                topic = parse(message.topic)
                status = topic is not None and topic.source is Source.AGENT
                payload = message.payload if keep_times or status else _now(message)
                await client.publish(message.topic, payload, qos=int(status), retain=status)
                count += 1
    except BusConnectionError as lost:
        raise PrerequisiteError(f"the broker at {broker.host}:{broker.port} is lost: {lost}") from None
    return count


def _now(message: Recorded) -> bytes:
    """Return the payload with its samples' times shifted to now, so that none is stale; other payloads stay."""
    batch = heddle_pb2.PortSampleBatch()
    if isinstance(BatchDecoder().read(message.payload), Rejected):
        return message.payload
    batch.ParseFromString(message.payload)
    shift = time.time_ns() - message.unix_ns
    for sample in batch.samples:
        sample.timestamp_unix_ns = max(1, sample.timestamp_unix_ns + shift)
    return batch.SerializeToString()


def _detect(path: Path, fabric: Path | None, settings: DetectorSettings, as_json: bool) -> None:
    if fabric is not None:
        loaded = load_fabric(fabric)
        name, table = loaded.name, ports_of(loaded)
    else:
        name, table = _fabric_in(path)
    observer = Observer(name, table, settings)
    render = _print_json if as_json else _print
    period_ns, due_ns, last_ns = settings.period_ms * 1_000_000, 0, 0
    for message in _messages(path):
        last_ns = max(last_ns, message.unix_ns)
        due_ns = due_ns or last_ns + period_ns
        if last_ns - due_ns > 1_000 * period_ns:  # a gap in the recording: scan once, not a thousand times
            due_ns = last_ns - period_ns
        while last_ns >= due_ns:
            render(observer.scan(due_ns))
            due_ns += period_ns
        observer.take(message.topic, message.payload, last_ns)
    render(observer.scan(due_ns or period_ns))
    _print_summary(observer, as_json)


def _print(scan: Scan) -> None:
    for one in scan.signals:
        stamp = time.strftime("%H:%M:%S", time.gmtime(scan.now_ns / 1e9))
        print(
            f"{stamp}.{scan.now_ns // 10**6 % 1000:03} {one.kind} {'raised' if one.raised else 'cleared'} {one.subject}"
        )


def _print_json(scan: Scan) -> None:
    for one in scan.signals:
        print(json.dumps({"unix_ns": scan.now_ns, **asdict(one)}))


def _print_summary(observer: Observer, as_json: bool) -> None:
    summary = {
        "messages": observer.messages,
        "samples": observer.samples,
        "odd_input": dict(observer.complaints.counts),
    }
    if as_json:
        print(json.dumps(summary))
        return
    odd = ", ".join(f"{kind} {count}" for kind, count in sorted(observer.complaints.counts.items())) or "none"
    print(f"{observer.messages} messages, {observer.samples} samples; odd input: {odd}")


def _fabric_in(path: Path) -> tuple[str, PortTable]:
    """Return the name and the ports of the fabric in a recording; raises InputError if it has several fabrics."""
    reader, fabrics = BatchDecoder(), set()
    met: dict[tuple[Source, str, str], None] = {}
    for message in _messages(path, warn=False):
        topic = parse(message.topic)
        if topic is None:
            continue
        fabrics.add(topic.fabric)
        batch = reader.read(message.payload) if topic.source is not Source.AGENT else None
        if batch is None or isinstance(batch, Rejected):
            continue
        met.update(dict.fromkeys((topic.source, topic.name, name) for name in batch.names))
        if len(met) > MAX_PORTS_IN_RECORDING:
            raise InputError(f"{path}: more than {MAX_PORTS_IN_RECORDING} ports; give the fabric file with --fabric")
    if len(fabrics) > 1:
        raise InputError(f"{path}: holds several fabrics ({', '.join(sorted(fabrics)[:5])}); name one file by --fabric")
    return next(iter(fabrics), "none"), ports_in(met, UNKNOWN_RATE_BPS)


def _messages(path: Path, *, warn: bool = True) -> Iterator[Recorded]:
    """Read a recording; raises InputError if it is none, and warns on standard error if it is truncated."""
    try:
        with open_regular(path) as file:
            for message in read(file):
                if isinstance(message, Recorded):
                    yield message
                elif warn:
                    print(f"heddle: {path}: truncated at byte {message.at_byte}; read up to there", file=sys.stderr)
    except (RecordingError, OSError) as wrong:
        raise InputError(f"{path}: {getattr(wrong, 'strerror', None) or wrong}") from None


@contextlib.contextmanager
def _created(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("xb") as file:
            yield file
    except FileExistsError:
        raise InputError(f"{path}: exists already; recordings are not overwritten") from None


def _broker(address: str, tls: Mapping[str, Path | None] = MappingProxyType({})) -> Broker:
    """Return the broker; `tls` has PEM files by the keys of the config. Raises InputError."""
    files = {key: str(path) for key, path in tls.items() if path is not None}
    if files and files.keys() not in ({"ca_file"}, tls.keys()):
        raise InputError("--tls-cert and --tls-key belong together, and need --tls-ca")
    try:
        broker = broker_of(TelemetryConfig(broker=address, **files))
    except ValueError:
        raise InputError(f"--broker: {address!r} must be HOST or HOST:PORT such as 127.0.0.1:1883") from None
    assert broker is not None
    return broker
