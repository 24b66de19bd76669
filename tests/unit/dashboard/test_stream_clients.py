"""Clients of the stream that never read, or left."""

import asyncio
import resource
import socket
from itertools import count

import pytest

from heddle.controller.dashboard import pieces, publisher, stream
from heddle.controller.dashboard.documents.state import Content, StateText
from tests.unit.api.conftest import running
from tests.unit.dashboard.web_client import next_state, streamed, web

STATE_BYTES = 1_000_000
MANY_BYTES = 20 * STATE_BYTES
"""The states that exist at one time: the newest, and those that are being sent."""


async def opened(address: str) -> socket.socket:
    """Open a stream that is never read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)
    host, port = address.split(":")
    running_loop = asyncio.get_running_loop()
    await running_loop.sock_connect(client, (host, int(port)))
    await running_loop.sock_sendall(client, b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


@pytest.mark.parametrize("silent_clients", [100, pytest.param(1_000, marks=pytest.mark.soak)])
async def test_clients_that_never_read_cost_bounded_memory_and_readers_get_the_newest(monkeypatch, silent_clients):
    number = count()

    def large(self, moment):
        return Content(f'"number":{next(number)},"filling":"{"x" * STATE_BYTES}"')

    monkeypatch.setattr(StateText, "content", large)
    monkeypatch.setattr(publisher, "PERIOD_S", 0.2)
    async with running() as controller, web(controller.addresses["http"]) as client:
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        silent = [await opened(controller.addresses["http"]) for _ in range(silent_clients)]
        async with streamed(client) as reader:
            first = await next_state(reader)
            later = await next_state(reader, lambda state: state["number"] >= first["number"] + 3)
            health = await client.json("/api/health")
        assert later["sequence"] == first["sequence"] + 3
        assert health["http"]["clients"] == silent_clients + 1
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) << 10
        assert grown < silent_clients * 3 * pieces.PIECE_BYTES + MANY_BYTES
        late = silent[0]
        received = b""
        async with asyncio.timeout(20):
            while received.count(b'"number":') < 2:
                received += await asyncio.get_running_loop().sock_recv(late, 1 << 20)
        numbers = [int(part.split(b",")[0]) for part in received.split(b'"number":')[1:]]
        assert numbers[1] > numbers[0] + 1  # those in between were never queued
        for each in silent:
            each.close()


async def test_a_client_that_takes_nothing_for_long_is_cut_off(monkeypatch):
    monkeypatch.setattr(stream, "SEND_TIMEOUT_S", 0.2)
    monkeypatch.setattr(StateText, "content", lambda self, moment: Content(f'"filling":"{"x" * 4_000_000}"'))
    async with running() as controller, web(controller.addresses["http"]) as client:
        silent = await opened(controller.addresses["http"])
        async with asyncio.timeout(20):
            while (await client.json("/api/health"))["http"]["clients"] == 0:
                await asyncio.sleep(0.01)
            while (await client.json("/api/health"))["http"]["clients"] == 1:
                await asyncio.sleep(0.05)
        silent.close()


async def test_streams_beyond_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS", 1)
    async with running() as controller, web(controller.addresses["http"]) as client:
        async with streamed(client) as first:
            await next_state(first)
            assert (await client.get("/api/stream")).status_code == 503
        assert (await client.json("/api/health"))["http"]["refused"] == 1
