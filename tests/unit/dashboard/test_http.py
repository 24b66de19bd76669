import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from heddle.controller.app import Application
from heddle.controller.config.service import ServiceConfig
from heddle.controller.dashboard import exposition, http
from heddle.controller.dashboard.http import HttpServer, Page
from heddle.controller.model.error import PrerequisiteError
from tests.unit.api.conftest import running
from tests.unit.api.test_job_service import message
from tests.unit.brain.driver import small_fabric


async def connection(address: str):
    host, port = address.split(":")
    return await asyncio.open_connection(host, int(port))


async def response(address: str, request: bytes) -> bytes:
    """Send a request and return all that the server sends until it closes the connection."""
    reader, writer = await connection(address)
    writer.write(request)
    received = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return received


def fields(head: bytes) -> dict[bytes, bytes]:
    """Return the header fields; their names are not case-sensitive (RFC 9110, 5.1)."""
    return {name.lower(): value for name, _, value in (line.partition(b": ") for line in head.split(b"\r\n")[1:])}


async def got(controller, path: str) -> str:
    received = await response(controller.addresses["http"], f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    header = fields(head)
    assert header[b"cache-control"] == b"no-store"
    assert header[b"connection"] == b"close"
    if header.get(b"transfer-encoding") == b"chunked":
        return b"".join(chunks(body)).decode()
    assert header[b"content-length"] == b"%d" % len(body)
    return body.decode()


def chunks(body: bytes) -> Iterator[bytes]:
    """Read a chunked body (RFC 9112, 7.1), which ends with an empty chunk."""
    while True:
        size, _, rest = body.partition(b"\r\n")
        chunk, body = rest[: int(size, 16)], rest[int(size, 16) :]
        assert body.startswith(b"\r\n")
        if not chunk:
            return
        yield chunk
        body = body[2:]


async def test_metrics_count_switches_jobs_and_rules():
    async with running() as controller:
        await controller.connect_all()
        await controller.jobs.SubmitJob(message())
        lines = (await got(controller, "/metrics")).splitlines()
    assert "heddle_switches 6" in lines
    assert "heddle_switches_connected 6" in lines
    assert 'heddle_jobs{state="running"} 1' in lines
    assert "heddle_max_link_utilisation 1.0" in lines
    assert {"heddle_flows_slowed 0", "heddle_links_over_capacity 0"} <= {*lines}
    assert any(line.startswith('heddle_switch_rules{switch="leaf1"} ') for line in lines)


async def test_metrics_longer_than_a_piece_are_sent_whole_in_chunks(monkeypatch):
    monkeypatch.setattr(exposition, "LINES_AT_ONCE", 3)
    async with running() as controller:
        text = await got(controller, "/metrics")
        old = await response(controller.addresses["http"], b"GET /metrics HTTP/1.0\r\n\r\n")
    assert text.startswith("# HELP heddle_switches ")
    assert text.endswith("# TYPE heddle_gateways_unknown_vpcs gauge\n")
    assert len(text.splitlines()) > 30
    assert b"chunked" not in old.lower()
    assert old.partition(b"\r\n\r\n")[2].decode() == text


async def test_health_is_ok_while_the_loop_serves():
    async with running() as controller:
        assert await got(controller, "/healthz") == "ok\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404 Not Found"),
        (b"GET /metrics/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"403 Forbidden"),
        (b"hello\r\n\r\n", b"400 Bad Request"),
        (b"\x00\xff\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),  # without Host: RFC 9112, 3.2
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, b"400 Bad Request"),
    ],
)
async def test_a_request_that_no_page_serves_is_refused(request_bytes, status):
    async with running() as controller:
        received = await response(controller.addresses["http"], request_bytes)
    assert received.split(b"\r\n")[0] == b"HTTP/1.1 " + status


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
async def test_head_has_no_body(path):
    async with running() as controller:
        received = await response(
            controller.addresses["http"], f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(b"\r\n\r\n")
    assert received.count(b"\r\n\r\n") == 1


@pytest.fixture
async def served():
    """Serve one page that is whole, one without end, and one that fails."""

    async def whole():
        return Page("text/plain", "ok\n")

    async def endless():
        return Page("text/plain", ("x" * 100_000 for _ in count()))

    async def failing():
        raise RuntimeError("a fault of the page")

    server = HttpServer({"/": whole, "/endless": endless, "/failing": failing})
    yield server, f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.close()


async def test_an_unknown_path_is_answered_with_the_paths_that_exist(served):
    received = await response(served[1], b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    assert received.endswith(b"\r\n\r\nNot Found; there are /, /endless and /failing\n")


@pytest.mark.parametrize("request_bytes", [b"", b"GET / HTTP/1.1\r\n", b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_a_slow_client_is_cut_off_and_counted(served, monkeypatch, request_bytes):
    server, address = served
    monkeypatch.setattr(http, "TIMEOUT_S", 0.2)
    reader, writer = await connection(address)
    writer.write(request_bytes)
    if request_bytes.endswith(b"\r\n\r\n"):
        await asyncio.sleep(0.4)  # reads nothing meanwhile
    with suppress(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 5)
    writer.close()
    assert server.counts == {"connections": 1, "timeouts": 1}


async def busy_connection(address: str, source: str = "127.0.0.1"):
    """Connect, and wait for the beginning of a reply without end."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
    writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readexactly(1)
    return reader, writer


async def test_the_oldest_idle_connection_gives_way(served, monkeypatch):
    server, address = served
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    busy = await busy_connection(address)
    oldest, newest = await connection(address), await connection(address)
    assert (await response(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200")
    with suppress(ConnectionResetError):
        assert await asyncio.wait_for(oldest[0].read(), 5) == b""  # an end or a reset
    assert server.counts == {"connections": 4, "gave_way": 1}
    for _, writer in (busy, oldest, newest):
        writer.close()


async def test_busy_connections_of_one_peer_leave_room_for_others(served, monkeypatch):
    server, address = served
    monkeypatch.setattr(http, "MAX_CONNECTIONS_OF_A_PEER", 1)
    busy = [await busy_connection(address), await busy_connection(address, "127.0.0.2")]
    assert await response(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""
    assert server.counts == {"connections": 2, "refused_connections": 1}
    for _, writer in busy:
        writer.close()


async def test_fifty_clients_of_one_address_connect_at_once(served):
    server, address = served
    busy = await asyncio.gather(*(busy_connection(address) for _ in range(50)))
    assert server.counts == {"connections": 50}
    for _, writer in busy:
        writer.close()


async def test_connections_beyond_the_limit_are_closed_and_counted(served, monkeypatch):
    server, address = served
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    busy = [await busy_connection(address) for _ in range(3)]
    assert await response(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""
    assert server.counts == {"connections": 3, "refused_connections": 1}
    for _, writer in busy:
        writer.close()
        await writer.wait_closed()
    await asyncio.sleep(0.05)
    assert (await response(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"ok\n")


async def test_a_page_that_fails_is_status_500_and_the_next_request_is_served(served, caplog):
    _, address = served
    received = await response(address, b"GET /failing HTTP/1.1\r\nHost: x\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 500 ")
    assert "a fault of the page" in caplog.text
    assert (await response(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"ok\n")


async def test_what_follows_a_request_is_not_read_while_its_reply_is_sent(served, caplog):
    _, address = served
    reader, writer = await busy_connection(address)
    for more in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0\xff no HTTP\r\n\r\n"):
        writer.write(more)
        await reader.readexactly(3_000_000)
    writer.close()
    assert not caplog.records


@pytest.mark.parametrize("path", [b"/", b"/endless", b"/failing"])
async def test_a_request_with_a_broken_body_is_refused_and_leaves_no_traceback(served, caplog, path):
    _, address = served
    broken = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"
    received = await response(address, broken)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1
    assert (await response(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"ok\n")
    assert [record.getMessage() for record in caplog.records if path != b"/failing"] == []


async def test_a_client_that_leaves_within_a_body_leaves_no_traceback(caplog):
    async with running() as controller:
        _, writer = await connection(controller.addresses["http"])
        writer.write(b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 9\r\n\r\n{")
        await writer.drain()
        assert "ok" in await got(controller, "/healthz")  # the request before has been read
        writer.close()
        await writer.wait_closed()
        assert "ok" in await got(controller, "/healthz")
    assert not [record for record in caplog.records if record.exc_info]


async def test_closing_ends_a_response_that_is_being_sent(served):
    server, address = served
    reader, writer = await connection(address)
    writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readexactly(200_000)
    await asyncio.wait_for(server.close(), 3)
    with suppress(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 5)
    writer.close()


async def test_signal_handlers_are_left_alone():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    server = HttpServer({})
    await server.start("127.0.0.1", 0)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    await server.close()


async def test_a_configured_address_that_is_taken_is_one_line():
    async with running() as controller:
        config = ServiceConfig(openflow="127.0.0.1:0", grpc="127.0.0.1:0", http=controller.addresses["http"])
        with pytest.raises(PrerequisiteError, match="choose another by --http"):
            async with Application(small_fabric(), config).started():
                pass
