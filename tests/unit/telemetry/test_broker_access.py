"""A real mosquitto as `heddle mqtt config` writes it: who may connect, publish and read."""

import asyncio
import shutil
import socket
import ssl
import struct
import tempfile
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiomqtt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from heddle.controller.config.mosquitto import ACCESS, CONFIG
from heddle.controller.model.error import InputError
from heddle.controller.pki.authority import revocations
from heddle.foundation.certificate import peer_in
from heddle.foundation.identity import Role
from heddle.programs.console.options.mqtt import config
from heddle.programs.console.telemetry.streams import record
from heddle.telemetry.agent.agent import Agent, AgentSettings
from heddle.telemetry.agent.session import Broker as AgentsBroker
from heddle.telemetry.broker_tls import BrokerTls
from heddle.telemetry.collector.bus import Broker, BusConnectionError
from heddle.telemetry.collector.mqtt import MqttBus
from heddle.telemetry.samples.topic import Source, ports_topic, status_topic, subscriptions
from tests.support.certificates import authority, files_of
from tests.support.processes.mosquitto import PROGRAM, free_port, mosquitto_by
from tests.unit.telemetry.agent.test_agent_on_a_broker import PERIOD_NS, Counting

pytestmark = [
    pytest.mark.skipif(not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)"),
    # paho leaves a socket whose handshake failed to the garbage collector.
    pytest.mark.filterwarnings("ignore:.*ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"),
]
FABRIC = """
version: 1
name: lab
generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1, gbps: 10}
"""
OURS = subscriptions("lab")
TIMEOUT_S = 30
ACCEPTED = b"\x20\2\0\0"


class Site:
    """The broker's directory, the authority, and what the collector received."""

    def __init__(self, folder):
        self.folder, self.by, self.port = folder, authority("lab"), free_port()
        self.received = []
        self._numbers = iter(range(1_000))
        self.broker = files_of(self.by, Role.SERVICE, "broker", folder / "broker")
        self.crl([])
        (folder / "fabric.yaml").write_text(FABRIC)
        self.write()

    def write(self, **more):
        """Write the broker's configuration."""
        files, folder = self.broker, self.folder
        config(
            folder / "fabric.yaml", out=folder, certificate=files.certificate, key=files.key, ca=files.ca,
            controller=["c1"], crl=folder / "crl.pem", listen=f"127.0.0.1:{self.port}", **more,
        )  # fmt: skip

    def crl(self, serials):
        made = revocations(self.by, serials, now=datetime.now(UTC))
        (self.folder / "crl.pem").write_bytes(made.public_bytes(Encoding.PEM))

    def tls(self, role, name, by=None, **more):
        """Return the TLS of a new certificate."""
        at = self.folder / f"{next(self._numbers)}"
        files = files_of(by or self.by, role, name, at, trusted=(self.by,), **more)
        return BrokerTls(ca=files.ca, certificate=files.certificate, key=files.key)

    def bus(self, tls):
        return MqttBus(Broker(host="127.0.0.1", port=self.port, tls=tls))

    @asynccontextmanager
    async def listening(self, tls, received, filters=OURS):
        connected = asyncio.Event()
        task = asyncio.create_task(self.bus(tls).listen(filters, received.append, connected))
        try:
            waiting = asyncio.create_task(connected.wait())
            await asyncio.wait([task, waiting], timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            assert connected.is_set(), task
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, BusConnectionError):
                await task


def connack(port, tls, client_id=b"a1"):
    """Return the broker's reply to a CONNECT (MQTT 3.1.1, 3.1), nothing if it refuses the connection before."""
    body = b"\0\4MQTT\4\2\0\x3c" + struct.pack("!H", len(client_id)) + client_id
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain, ExitStack() as stack:
        try:
            speaks = plain
            if tls is not None:
                speaks = stack.enter_context(tls.context().wrap_socket(plain, server_hostname="127.0.0.1"))
            speaks.sendall(bytes([0x10, len(body)]) + body)
            return speaks.recv(4)
        except (ssl.SSLError, ConnectionError):
            return b""


@pytest.fixture
def site():
    folder = Path(tempfile.mkdtemp(prefix="heddle-mqtt-"))
    folder.chmod(0o755)  # mosquitto has a user of its own
    yield Site(folder)
    shutil.rmtree(folder)


async def until(holds):
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_an_agent_writes_its_own_topics_alone_and_reads_nothing(site):
    heard, overheard = [], []
    everything = (("#", 0), ("$SYS/#", 0))
    async with _running(site), site.listening(site.tls(Role.CONTROLLER, "c1"), heard):
        impostors = [(Role.AGENT, "leaf2"), (Role.TENANT, "leaf1"), (Role.SWITCH, "leaf1"), (Role.CONTROLLER, "leaf1")]
        for role, name in impostors:
            tls = site.tls(role, name)
            async with site.listening(tls, overheard, everything):
                pass
            async with site.bus(tls).connection() as client:
                for topic in (ports_topic("lab", "leaf1"), status_topic("lab", "leaf1"), "heddle/v1/lab/switch/+"[:-2]):
                    await client.publish(topic, b"impostor", qos=1)
        curious = site.tls(Role.AGENT, "h1")
        async with site.listening(curious, overheard, everything):
            async with site.bus(site.tls(Role.AGENT, "leaf1")).connection() as client:
                for topic in (ports_topic("lab", "leaf1"), status_topic("lab", "leaf1")):
                    await client.publish(topic, b"own", qos=1)
            await until(lambda: len(heard) >= 2)
    assert [(message.topic, message.payload) for message in heard] == [
        (ports_topic("lab", "leaf1"), b"own"), (status_topic("lab", "leaf1"), b"own"),
    ]  # fmt: skip
    assert overheard == []


async def test_a_certificate_of_others_expired_or_revoked_or_none_is_refused(site):
    revoked = site.tls(Role.AGENT, "leaf1")
    site.crl([peer_in(revoked.certificate.read_bytes()).serial])
    hours = timedelta(hours=1)
    wrong = {
        "another authority's": site.tls(Role.AGENT, "leaf1", by=authority("lab")),
        "expired": site.tls(Role.AGENT, "leaf1", age=3 * hours, lifetime=hours),
        "revoked": revoked,
        "none": BrokerTls(ca=revoked.ca),
        "plaintext": None,
    }
    async with _running(site):
        replies = {why: await asyncio.to_thread(connack, site.port, tls) for why, tls in wrong.items()}
        assert replies == dict.fromkeys(wrong, b"")
        assert await asyncio.to_thread(connack, site.port, site.tls(Role.AGENT, "leaf1")) == ACCEPTED


async def test_an_agent_with_anothers_client_id_does_not_end_its_session(site):
    heard = []
    async with _running(site), site.listening(site.tls(Role.CONTROLLER, "c1"), heard):
        own, thief = site.tls(Role.AGENT, "leaf1").context(), site.tls(Role.AGENT, "leaf2")
        async with aiomqtt.Client("127.0.0.1", site.port, tls_context=own, identifier="heddle-lab-leaf1") as client:
            assert await asyncio.to_thread(connack, site.port, thief, b"heddle-lab-leaf1") == ACCEPTED
            async with asyncio.timeout(TIMEOUT_S):
                await client.publish(ports_topic("lab", "leaf1"), b"still here", qos=1)
            await until(lambda: heard)
    assert [message.payload for message in heard] == [b"still here"]


async def test_an_agent_shows_its_new_certificate_when_it_reconnects(site):
    """The CRL is read when the broker starts; so it takes a restart to refuse who was admitted."""
    tls = site.tls(Role.AGENT, "leaf1")
    settings = AgentSettings(fabric="lab", agent="leaf1", period_ns=PERIOD_NS)
    agent = Agent(settings, AgentsBroker(host="127.0.0.1", port=site.port, tls=tls), [Counting(kind=Source.SWITCH)])
    ended, heard = asyncio.Event(), []
    async with _running(site) as broker:
        running = asyncio.create_task(agent.run(ended))
        await until(lambda: agent.counts()["connects"] == 1)
        broker.kill()
        site.crl([peer_in(tls.certificate.read_bytes()).serial])
        broker.start()
        async with site.listening(site.tls(Role.CONTROLLER, "c1"), heard):
            new = site.tls(Role.AGENT, "leaf1")
            for old, fresh in ((tls.key, new.key), (tls.certificate, new.certificate)):
                shutil.copy(fresh, old)
            await until(lambda: any(message.topic == ports_topic("lab", "leaf1") for message in heard))
        ended.set()
        await asyncio.wait_for(running, TIMEOUT_S)


async def test_an_operator_who_may_read_records_over_tls(site):
    site.write(operator=["ada"])
    files = {role: site.tls(role, name) for role, name in ((Role.OPERATOR, "ada"), (Role.AGENT, "leaf1"))}
    ada, recording = files[Role.OPERATOR], site.folder / "recording"
    tls = {"ca_file": ada.ca, "certificate_file": ada.certificate, "key_file": ada.key}
    async with _running(site), site.bus(files[Role.AGENT]).connection() as client:
        recorded = asyncio.create_task(asyncio.to_thread(_record, recording, f"127.0.0.1:{site.port}", tls))
        while not recorded.done():
            await client.publish(ports_topic("lab", "leaf1"), bytes(500))
            await asyncio.sleep(0.02)
        await recorded
    assert ports_topic("lab", "leaf1").encode() in recording.read_bytes()


def _record(path, broker, tls):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", lambda *_: None)  # the main thread's only
        record(path, broker=broker, tls=tls, fabric="lab", seconds=TIMEOUT_S, max_bytes=2_000, as_json=True)


def test_the_access_rules_name_every_switch_and_host_and_have_no_patterns(site):
    text = (site.folder / ACCESS).read_text()
    users = [line.removeprefix("user ") for line in text.splitlines() if line.startswith("user ")]
    assert users == ["controller:c1", *(f"agent:{name}" for name in ("spine1", "leaf1", "leaf2", "h1", "h2"))]
    assert "pattern" not in text
    assert "%" not in text
    assert f"acl_file {site.folder / ACCESS}" in (site.folder / CONFIG).read_text()


def test_a_name_or_path_that_mosquitto_cannot_have_is_refused(site, tmp_path):
    pem = tmp_path / "a.pem"
    for wrong in ({"controller": ["c 1"]}, {"ca": tmp_path / "a\nallow_anonymous true"}):
        given = {"out": tmp_path, "certificate": pem, "key": pem, "ca": pem, "controller": ["c1"], **wrong}
        with pytest.raises(InputError):
            config(site.folder / "fabric.yaml", **given)
    assert list(tmp_path.iterdir()) == []


def _is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def _running(site):
    with mosquitto_by(site.folder / CONFIG, site.port) as broker:
        await until(lambda: _is_open(site.port))
        yield broker
