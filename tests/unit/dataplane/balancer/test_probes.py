"""Probes distinguish servers that serve from those that do not, and their process reports each change once."""

import asyncio
import contextlib
import socket
import time
from ipaddress import IPv4Address

import pytest

from heddle.dataplane.config.balancers import HealthCheck, Probe
from heddle.dataplane.control.probing.prober import Prober
from heddle.dataplane.control.probing.probes import Target, probe
from tests.support.free_ports import free_ports

HERE = IPv4Address("127.0.0.1")
PATIENCE_S = 60


def target(port, kind=Probe.TCP, **check):
    return Target(ip=HERE, port=port, check=HealthCheck(kind=kind, **{"interval_ms": 50, "timeout_ms": 40, **check}))


async def serving(reply):
    """Start a server that sends a reply to each connection; an empty one keeps it open."""

    async def serve(reader, writer):
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):  # a probe of TCP ends by a reset
            if reply:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(reply)
            else:
                await reader.read()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_a_handshake_is_a_success_of_tcp():
    server, port = await serving(b"")
    async with server:
        assert await probe(target(port, timeout_ms=5000))
    assert not await probe(target(free_ports(1)[0]))


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 302 Found\r\n\r\n", True),
        (b"HTTP/1.1 503 Busy\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"HTTP/1.1", False),
    ],
)
async def test_the_status_of_a_get_decides(reply, wanted):
    server, port = await serving(reply)
    async with server:
        assert await probe(target(port, Probe.HTTP, timeout_ms=5000)) is wanted


async def test_a_server_that_does_not_reply_in_time_has_failed():
    server, port = await serving(b"")
    async with server:
        assert not await probe(target(port, Probe.HTTP))


async def test_udp_fails_by_an_icmp_error_alone():
    assert not await probe(target(free_ports(1)[0], Probe.UDP, timeout_ms=5000))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert await probe(target(silent.getsockname()[1], Probe.UDP))
        asyncio.get_running_loop().call_later(0.005, time.sleep, 0.1)  # a loaded machine: beyond every time-out
        assert await probe(target(silent.getsockname()[1], Probe.UDP))


async def test_the_process_reports_each_change_of_a_back_end():
    server, port = await serving(b"")
    turns, changed = [], asyncio.Event()

    def turned(key, is_up):
        turns.append((key, is_up))
        changed.set()

    async def next_turn(count):
        while len(turns) < count:
            await asyncio.wait_for(changed.wait(), PATIENCE_S)
            changed.clear()

    prober = Prober(turned, print)
    prober.watch({"one": target(port, interval_ms=100, timeout_ms=100), "never": target(free_ports(1)[0])})
    running = asyncio.create_task(prober.run())
    try:
        await next_turn(1)
        server.close()
        await next_turn(2)
        assert turns == [("one", True), ("one", False)]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
