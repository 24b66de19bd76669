import asyncio
from collections.abc import Iterator

import pytest

from controller.app import Application
from controller.config.service import ServiceConfig
from controller.dashboard import exposition
from controller.model.error import PrerequisiteError
from tests.unit.api.conftest import running
from tests.unit.api.test_job_service import message
from tests.unit.brain.driver import small_fabric


async def asked(address: str, request: bytes) -> bytes:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


async def got(controller, path: str) -> str:
    answer = await asked(controller.addresses["http"], f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    if b"Transfer-Encoding: chunked\r\n" in head:
        return b"".join(chunks(body)).decode()
    assert b"Content-Length: %d\r\n" % len(body) in head
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
    assert any(line.startswith('heddle_switch_rules{switch="leaf1"} ') for line in lines)


async def test_metrics_longer_than_a_piece_come_whole_and_in_chunks(monkeypatch):
    monkeypatch.setattr(exposition, "LINES_AT_ONCE", 3)
    async with running() as controller:
        text = await got(controller, "/metrics")
        old = await asked(controller.addresses["http"], b"GET /metrics HTTP/1.0\r\n\r\n")
    assert text.startswith("# HELP heddle_switches ")
    assert text.endswith("} 0\n")
    assert len(text.splitlines()) > 30
    assert b"chunked" not in old
    assert old.partition(b"\r\n\r\n")[2].decode() == text


async def test_the_page_names_jobs_and_switches_and_believes_no_name():
    async with running() as controller:
        await controller.connect_all()
        await controller.jobs.SubmitJob(message(tenant="<b>red"))
        page = await got(controller, "/")
    assert "<td>&lt;b&gt;red<td>running" in page
    assert "<td>leaf4<td>connected" in page


async def test_health_is_ok_while_the_loop_serves():
    async with running() as controller:
        assert await got(controller, "/healthz") == "ok\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST / HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"hello\r\n\r\n", b"400 Bad Request"),
        (b"\x00\xff\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, b"400 Bad Request"),
    ],
)
async def test_what_is_no_request_for_a_page_is_refused(request_bytes, status):
    async with running() as controller:
        answer = await asked(controller.addresses["http"], request_bytes)
    assert answer.split(b"\r\n")[0] == b"HTTP/1.1 " + status


async def test_head_has_no_body():
    async with running() as controller:
        answer = await asked(controller.addresses["http"], b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 3\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_an_address_that_was_asked_for_and_is_taken_is_one_line():
    async with running() as controller:
        config = ServiceConfig(openflow="127.0.0.1:0", grpc="127.0.0.1:0", http=controller.addresses["http"])
        with pytest.raises(PrerequisiteError, match="choose another by --http"):
            async with Application(small_fabric(), config).started():
                pass
