"""The agent with a real mosquitto, which is killed and restarted; sources are counters of the test."""

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from heddle.foundation.identity import Role
from heddle.telemetry.agent import session
from heddle.telemetry.agent.agent import Agent, AgentSettings
from heddle.telemetry.agent.session import Broker, payloads
from heddle.telemetry.agent.source import DeviceSamples, SourceError
from heddle.telemetry.broker_tls import BrokerTls
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES, PortSample
from heddle.telemetry.samples.topic import Source
from tests.fakes.telemetry.telemetry_listener import listening
from tests.support.certificates import authority, files_of
from tests.support.processes.mosquitto import PROGRAM, mosquitto

pytestmark = pytest.mark.skipif(
    not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)"
)
PERIOD_NS = 20_000_000


class Counting:
    """A device whose counters grow by one with each read."""

    name = "counting"
    reads_per_period = 1

    def __init__(self, ports=("leaf1:1", "leaf1:2"), device="leaf1", kind=Source.SWITCH, counters=0):
        self.ports, self.device, self.kind = ports, device, kind
        self.more = {f"counter_{at}": 1 << 60 for at in range(counters)}
        self.reads = 0
        self.closed = False
        self.fails = False

    async def read(self, now_unix_ns):
        if self.fails:
            raise SourceError("made to fail")
        self.reads += 1
        samples = [
            PortSample(port=port, timestamp_unix_ns=now_unix_ns, boot_id=5, tx_bytes=self.reads, nic_counters=self.more)
            for port in self.ports
        ]
        return [DeviceSamples(self.kind, self.device, samples)]

    async def close(self):
        self.closed = True


@asynccontextmanager
async def running(port, *sources, name="a1", **who):
    """Run an agent for the duration of the block."""
    settings = AgentSettings(fabric="lab", agent=name, period_ns=PERIOD_NS)
    agent = Agent(settings, Broker(host="127.0.0.1", port=port, **who), sources)
    ended = asyncio.Event()
    task = asyncio.create_task(agent.run(ended))
    try:
        yield agent
    finally:
        ended.set()
        async with asyncio.timeout(10):
            await task


async def test_samples_and_status_are_published_under_the_contracts_topics():
    switch, nics = Counting(), Counting(("h1-n0",), "h1", Source.HOST)
    with mosquitto() as broker:
        async with listening(broker.port) as heard:
            async with running(broker.port, switch, nics):
                await heard.until(lambda: len(heard.of("leaf1:2")) > 3 and heard.of("h1-n0"))
            await heard.until(lambda: heard.statuses == [("a1", b"online"), ("a1", b"offline")])
        assert heard.topics == {"heddle/v1/lab/switch/leaf1/ports", "heddle/v1/lab/host/h1/nics"}
        assert switch.closed
        assert nics.closed
        async with listening(broker.port) as later:
            await later.until(lambda: later.statuses == [("a1", b"offline")])  # the status is retained
        assert later.samples == []


async def test_each_sample_of_a_port_has_the_next_sequence_and_a_later_time():
    with mosquitto() as broker:
        async with listening(broker.port) as heard, running(broker.port, Counting()):
            await heard.until(lambda: len(heard.of("leaf1:1")) >= 10)
    found = heard.of("leaf1:1")
    steps = [after.sequence - before.sequence for before, after in pairwise(found)]
    assert steps == [after.tx_bytes - before.tx_bytes for before, after in pairwise(found)]
    assert all(step >= 1 for step in steps)
    assert [one.timestamp_unix_ns for one in found] == sorted({one.timestamp_unix_ns for one in found})


async def test_after_a_restart_of_the_broker_sequences_and_counters_only_grow():
    source = Counting()
    with mosquitto() as broker:
        async with listening(broker.port) as heard, running(broker.port, source) as agent:
            for _ in range(2):
                await heard.until(lambda: heard.of("leaf1:1"))
                broker.kill()
                away_from = source.reads
                await heard.until(lambda past=away_from + 20: source.reads > past)
                assert len(agent._outbox) <= 2  # the newest of each port
                broker.start()
                await heard.until(lambda past=away_from + 20: heard.of("leaf1:1")[-1].tx_bytes > past)
            online = heard.statuses.count(("a1", b"online"))
        counts = agent.counts()
    found = heard.of("leaf1:1")
    assert [one.tx_bytes for one in found] == sorted({one.tx_bytes for one in found})
    assert [one.sequence for one in found] == sorted({one.sequence for one in found})
    # Samples read while the broker was down are missing: a gap, and every sample was sent or replaced.
    missing = found[-1].sequence - found[0].sequence + 1 - len(found)
    assert missing >= 2 * 20 - 5
    assert online >= 1
    assert counts["connects"] == 3
    assert counts["samples_replaced"] >= 2 * 2 * 15
    assert counts["samples"] + counts["samples_replaced"] + len(agent._outbox) == 2 * source.reads


async def test_a_hung_broker_is_abandoned_and_no_descriptor_stays_open(monkeypatch):
    monkeypatch.setattr(session, "TIMEOUT_S", 0.05)
    source = Counting(tuple(f"leaf1:{port}" for port in range(1, 65)))
    attempts = 0

    async def swallow(reader, writer):
        nonlocal attempts
        attempts += 1
        await reader.readexactly(2)
        writer.write(b"\x20\x02\x00\x00")  # CONNACK, then silence
        while await reader.read(4096):
            pass
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    open_before = len(os.listdir("/proc/self/fd"))
    async with running(port, source) as agent:
        while attempts < 5:
            await asyncio.sleep(0.01)
        assert len(agent._outbox) <= 64
        assert len(os.listdir("/proc/self/fd")) <= open_before + 6  # both ends of a connection, and the one before it
    server.close()
    assert agent.counts()["connects"] == 0


async def test_the_agent_reconnects_to_a_broker_stopped_until_the_socket_buffer_was_full(caplog, monkeypatch):
    monkeypatch.setattr(session, "TIMEOUT_S", 0.2)
    source = Counting(tuple(f"leaf1:{port}" for port in range(1, 301)), counters=100)
    with mosquitto() as broker:
        async with listening(broker.port) as heard, running(broker.port, source) as agent:
            await heard.until(lambda: heard.samples)
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                await heard.until(lambda: "timed out" in caplog.text)
                assert len(agent._outbox) <= 300
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            past = source.reads
            await heard.until(lambda: heard.samples[-1].tx_bytes > past)


async def test_a_source_fault_is_logged_once_and_the_source_is_read_again(caplog):
    source, sound = Counting(), Counting(("leaf2:1",), "leaf2")
    source.fails = True
    with mosquitto() as broker, caplog.at_level(logging.WARNING):
        async with listening(broker.port) as heard, running(broker.port, source, sound) as agent:
            await heard.until(lambda: agent.faults > 10 and heard.of("leaf2:1"))
            assert not heard.of("leaf1:1")
            source.fails = False
            await heard.until(lambda: heard.of("leaf1:1"))
    assert [record.getMessage() for record in caplog.records] == ["counting: source fault: made to fail"]


async def test_a_port_with_an_invalid_name_is_left_out_of_its_message():
    with mosquitto() as broker:
        bad = Counting(("leaf1:1", "leaf 1", "leaf1:2", "x" * 100, "\udc80"))
        no_topic = Counting(("leaf1:9",), "no/switch")
        async with listening(broker.port) as heard, running(broker.port, bad, no_topic) as agent:
            await heard.until(lambda: heard.of("leaf1:2"))
            assert {one.port for one in heard.samples} == {"leaf1:1", "leaf1:2"}
            assert agent.faults >= 2


async def test_a_programming_error_ends_the_agent():
    entered = asyncio.Event()

    class Broken(Counting):
        async def read(self, now_unix_ns):
            entered.set()
            raise ZeroDivisionError

    with mosquitto() as broker, pytest.raises(ZeroDivisionError):
        async with running(broker.port, Broken()), asyncio.timeout(60):
            await entered.wait()


async def test_a_wrong_password_is_logged_and_the_right_one_connects(caplog):
    with mosquitto({"agent": "right"}) as broker, caplog.at_level(logging.WARNING):
        async with listening(broker.port, username="agent", password="right") as heard:
            async with running(broker.port, Counting(), user="agent", password="wrong") as agent:
                while not caplog.records:
                    await asyncio.sleep(0.01)
                assert agent.counts()["connects"] == 0
            assert "ot authori" in caplog.text
            assert "wrong" not in caplog.text.replace("wrong_password", "")
            async with running(broker.port, Counting(), user="agent", password="right"):
                await heard.until(lambda: heard.samples)


@pytest.fixture
def certificates():
    """A directory that mosquitto's own user reads."""
    folder = Path(tempfile.mkdtemp(prefix="heddle-tls-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


# paho leaves a socket whose handshake failed to the garbage collector.
@pytest.mark.filterwarnings("ignore:.*ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning")
async def test_over_tls_only_a_broker_of_the_right_ca_is_accepted(certificates, caplog):
    files, other = (files_of(authority(), Role.SERVICE, "broker", certificates / name) for name in ("one", "other"))
    lines = f"certfile {files.certificate}\nkeyfile {files.key}\n"
    right, wrong = BrokerTls(ca=files.ca), BrokerTls(ca=other.ca)
    with mosquitto(lines=lines) as broker, caplog.at_level(logging.WARNING):
        async with listening(broker.port, tls=right) as heard:
            async with running(broker.port, Counting(), tls=wrong) as agent:
                while "CERTIFICATE_VERIFY_FAILED" not in caplog.text:
                    await asyncio.sleep(0.01)
                assert agent.counts()["connects"] == 0
            async with running(broker.port, Counting(), tls=right):
                await heard.until(lambda: heard.samples)


async def test_an_agent_ends_at_once_while_its_broker_is_unreachable():
    with mosquitto() as broker:
        broker.kill()
        async with running(broker.port, Counting()):
            await asyncio.sleep(0.3)
        # `running` allows 10 s.


def test_samples_too_large_for_one_message_are_split():
    many = {f"counter_{at:03}": (1 << 64) - 1 for at in range(250)}
    samples = [PortSample(port=f"n{at}", timestamp_unix_ns=1, nic_counters=many) for at in range(200)]
    found = list(payloads(samples))
    assert len(found) > 1
    assert all(len(payload) <= MAX_PAYLOAD_BYTES for _, payload in found)
    assert [one for part, _ in found for one in part] == samples


async def test_a_socket_closed_before_the_loop_watches_it_logs_no_error():
    loop, faults = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    client = session._Client("127.0.0.1", 1)
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    client._on_socket_register_write(client._client, None, ours)
    loop.call_soon(ours.close)
    for _ in range(3):
        await asyncio.sleep(0)
    loop.remove_writer(number)
    theirs.close()
    assert faults == []
