"""The page over TLS: certificates of operators and viewers in place of a password."""

import asyncio
import logging
import shutil
import ssl
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio

from heddle.controller.app import Application
from heddle.controller.config.service import ServiceConfig
from heddle.foundation.certificate import peer_in, serial_text
from heddle.foundation.identity import Role
from heddle.testing.switches.openflow_switch import FakeSwitch
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.certificates import authority, files_of
from tests.unit.brain.driver import small_fabric
from tests.unit.dashboard.web_client import WebClient, next_state, streamed

BLUE, OTHERS = authority("blue"), authority("blue")
LINK = "leaf1:1>spine1:1"


class Page:
    """A controller with TLS, and clients of its page."""

    def __init__(self, folder):
        self.folder = folder
        self.denied = folder / "denied"
        self.denied.touch()
        self.own = files_of(BLUE, Role.CONTROLLER, "c1", folder / "own", denied=self.denied)
        self.address = self.openflow = ""

    @asynccontextmanager
    async def served(self):
        files = {"certificate": self.own.certificate, "key": self.own.key, "ca": self.own.ca, "denied": self.denied}
        config = ServiceConfig.model_validate(
            {
                "openflow": "127.0.0.1:0", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0",
                "tls": {key: str(path) for key, path in files.items()},
            }
        )  # fmt: skip
        application = Application(small_fabric(), config, ThreadPlanner(small_fabric()), ThreadCompiler(small_fabric()))
        async with application.started() as addresses:
            self.address, self.openflow = addresses["http"], addresses["openflow"]
            yield self

    def files(self, role, name, by=BLUE):
        return files_of(by, role, name, self.folder / f"{role}-{name}-{id(by)}", trusted=(BLUE,))

    @asynccontextmanager
    async def client(self, files=None):
        context = ssl.create_default_context(cafile=self.own.ca)
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        url = f"https://{self.address}"
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False, verify=context) as client:
            yield WebClient(client)


async def until_it_ends(stream):
    async for _ in stream:
        pass


@pytest_asyncio.fixture
async def page(tmp_path):
    async with Page(tmp_path).served() as served:
        yield served


async def test_an_operators_certificate_reads_and_acts(page):
    async with page.client(page.files(Role.OPERATOR, "ada")) as ada:
        session = await ada.json("/api/session")
        assert (session["user"], session["may_act"]) == ("operator:ada", True)
        assert (await ada.get("/metrics")).status_code == 200
        assert (await ada.act("drain", target=LINK, dry_run=True)).status_code == 200


async def test_the_same_controller_takes_a_switch_by_its_certificate_alone(page):
    plain, own = FakeSwitch(1), FakeSwitch(1)
    files = page.files(Role.SWITCH, "leaf1")
    own.tls = ssl.create_default_context(cafile=files.ca)
    own.tls.load_cert_chain(files.certificate, files.key)
    own.datapath_id = plain.datapath_id = small_fabric().switch_by_id["leaf1"].datapath_id
    host, port = page.openflow.split(":")
    await plain.connect(host, int(port))
    await plain.closed()
    await own.connect(host, int(port))
    async with page.client(page.files(Role.VIEWER, "vic")) as vic, asyncio.timeout(20):
        while not any((await vic.json("/api/state"))["switches"]["connected"]):
            await asyncio.sleep(0.05)
    assert own.received
    await plain.disconnect()
    await own.disconnect()


async def test_a_viewers_certificate_reads_and_does_not_act(page):
    async with page.client(page.files(Role.VIEWER, "vic")) as vic:
        session = await vic.json("/api/session")
        assert (session["user"], session["may_act"]) == ("viewer:vic", False)
        assert (await vic.get("/api/state")).status_code == 200
        reply = await vic.act("drain", target=LINK)
        assert reply.status_code == 403
        assert "viewer:vic may read only" in reply.text


async def test_without_a_certificate_nothing_is_read(page):
    async with page.client() as anyone:
        assert (await anyone.get("/")).status_code == 200
        assert [(await anyone.get(path)).status_code for path in ("/api/state", "/metrics")] == [401, 401]


@pytest.mark.parametrize(
    ("role", "by", "reason"),
    [
        (Role.OPERATOR, OTHERS, "its certificate is refused"),
        (Role.TENANT, BLUE, "must be operator or viewer"),
        (Role.SWITCH, BLUE, "must be operator or viewer"),
    ],
)
async def test_another_certificate_is_refused_and_logged_once(page, caplog, role, by, reason):
    with caplog.at_level(logging.WARNING):
        async with page.client(page.files(role, "eve", by)) as eve:
            with pytest.raises(httpx.TransportError):
                await eve.get("/")
    assert [reason in record.getMessage() for record in caplog.records] == [True]


async def test_nothing_is_read_of_a_refused_connection_whose_request_comes_with_the_handshake(page, caplog):
    files = page.files(Role.TENANT, "eve")
    context = ssl.create_default_context(cafile=page.own.ca)
    context.load_cert_chain(files.certificate, files.key)
    with caplog.at_level(logging.WARNING):
        reply = await reply_to_early_request(
            context, page.address, b"GET /api/state HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        async with page.client(page.files(Role.VIEWER, "vic")) as vic:
            assert (await vic.get("/api/state")).status_code == 200
    assert reply == b""
    assert ["must be operator or viewer" in record.getMessage() for record in caplog.records] == [True]


async def reply_to_early_request(context, address, request):
    """Send a request in the segment that ends the handshake; return what is received after it, decrypted."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(1 << 16))
    tls.write(request)
    writer.write(outgoing.read())
    try:
        incoming.write(await asyncio.wait_for(reader.read(), 20))
        return tls.read(1 << 16)
    except (ConnectionError, ssl.SSLError):
        return b""
    finally:
        writer.close()


async def test_plaintext_is_refused_and_a_silent_client_delays_no_one(page):
    silent, writer = await asyncio.open_connection(*page.address.split(":"))
    async with httpx.AsyncClient(base_url=f"http://{page.address}", trust_env=False) as plain:
        with pytest.raises(httpx.TransportError):
            await plain.get("/")
    async with page.client(page.files(Role.VIEWER, "vic")) as vic:
        assert (await vic.get("/api/state")).status_code == 200
    writer.close()
    assert await asyncio.wait_for(silent.read(), 20) == b""


async def test_a_certificate_that_is_denied_loses_its_stream_and_reads_nothing_more(page):
    files = page.files(Role.VIEWER, "vic")
    async with page.client(files) as vic, page.client(page.files(Role.OPERATOR, "ada")) as ada:
        async with streamed(vic) as stream:
            await next_state(stream)
            page.denied.write_text(serial_text(peer_in(files.certificate.read_bytes()).serial))
            with pytest.raises(httpx.TransportError):
                await asyncio.wait_for(until_it_ends(stream), 20)
        with pytest.raises(httpx.TransportError):
            await vic.get("/api/state")
        assert (await ada.get("/api/state")).status_code == 200


async def test_a_new_certificate_of_the_server_is_shown_to_the_next_client(page):
    new = files_of(BLUE, Role.CONTROLLER, "c1", page.folder / "new")
    for fresh, old in ((new.key, page.own.key), (new.certificate, page.own.certificate)):
        shutil.copy(fresh, old)
    context = ssl.create_default_context(cafile=page.own.ca)
    host, port = page.address.split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert shown == ssl.PEM_cert_to_DER_cert(new.certificate.read_text())
    writer.close()
