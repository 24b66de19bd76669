"""Connections that never become switches leave room for those that do."""

import asyncio
import dataclasses
import socket
from contextlib import suppress

import pytest

from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.limits.unread import has_unread
from heddle.controller.southbound.server import OpenFlowServer
from heddle.testing.switches.openflow_switch import ECHO_REQUEST, FakeSwitch, message
from tests.support.fabrics.southbound_events import RecordedEvents
from tests.unit.southbound.conftest import NAMES, QUICK, Southbound


async def test_the_peer_of_an_ipv6_connection_is_printed_in_brackets():
    events = RecordedEvents()
    server = OpenFlowServer("::1", 0, NAMES.get, events, QUICK)
    switch = FakeSwitch(1)
    await switch.connect(*await server.start())
    try:
        await events.wait_for("switch_up", "leaf1")
        assert server.sessions()["leaf1"].peer.startswith("[::1]:")
    finally:
        await switch.disconnect()
        await server.close()


async def silent(address):
    """Open a connection that sends nothing; return its streams."""
    return await asyncio.open_connection(*address)


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, max_strangers_of_a_peer=3)])
async def test_silent_connections_give_way_to_switches_the_oldest_first(southbound):
    opened = [await silent(southbound.address) for _ in range(3)]
    for datapath_id in (1, 2, 3):  # an admitted switch is no stranger any more
        await southbound.up(datapath_id)
    assert await asyncio.wait_for(until_end(opened[0][0]), 20)
    assert southbound.server.limited == {Limit.SWITCH_GAVE_WAY: 1}
    for _, writer in opened:
        writer.close()


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, max_strangers=2, generation_id=None)])
async def test_connections_that_all_began_a_handshake_are_not_ended_for_a_newer_one(southbound):
    hello = message(0, b"")
    opened = [await silent(southbound.address) for _ in range(2)]
    for reader, writer in opened:
        writer.write(hello)
        await asyncio.wait_for(reader.readexactly(24), 20)  # its Hello, and a request for features
    late, writer = await silent(southbound.address)
    assert await asyncio.wait_for(until_end(late), 20)
    assert southbound.server.limited == {Limit.SWITCH_CONNECTIONS: 1}
    for one in (writer, *(of for _, of in opened)):
        one.close()


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, handshake_timeout_s=0.2)])
async def test_a_handshake_that_takes_too_long_is_counted(southbound):
    reader, writer = await silent(southbound.address)
    assert await asyncio.wait_for(until_end(reader), 20)
    assert southbound.server.limited == {Limit.SWITCH_HANDSHAKE: 1}
    writer.close()


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, stranger_messages_per_period=5)])
async def test_a_stranger_may_send_few_messages_a_period_and_a_switch_many(southbound):
    await southbound.up(1)
    session = southbound.server.sessions()["leaf1"]
    reader, writer = await silent(southbound.address)
    writer.write(message(0, b"") + message(ECHO_REQUEST, b"") * 1_000)
    first = await asyncio.wait_for(reader.readexactly(8 * 6), 20)
    assert first.count(bytes([4, 3, 0, 8])) <= 5
    assert session.transport.traffic.times_held == 0
    writer.close()


async def test_a_switch_whose_events_find_no_room_is_read_again(southbound):
    switch = await southbound.up(1)
    southbound.events.port_status = lambda *_: False
    switch.set_port(1, up=False)
    _, _, reason = await southbound.events.wait_for("switch_down", "leaf1")
    assert "too many of its events wait" in reason


async def until_end(reader):
    """Read until the connection ends."""
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


async def test_bytes_that_wait_in_the_kernel_are_seen(southbound):
    arrived = asyncio.Queue()
    server = await asyncio.start_server(lambda *streams: arrived.put_nowait(streams), "127.0.0.1", 0, limit=1)
    _, client = await asyncio.open_connection(*server.sockets[0].getsockname())
    _, writer = await asyncio.wait_for(arrived.get(), 20)
    writer.transport.pause_reading()
    assert not has_unread(writer.transport)
    client.write(b"hello")
    async with asyncio.timeout(20):
        while not has_unread(writer.transport):
            await asyncio.sleep(0.01)
    for one in (client, writer):
        one.close()
    server.close()


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_the_server_closes_is_closed(turns):
    southbound = Southbound(QUICK)
    await southbound.start()
    with socket.create_connection(southbound.address, timeout=20) as client:
        for _ in range(turns):  # of the event loop: the connection is accepted, made, greeted
            await asyncio.sleep(0)
        await southbound.close()
        assert await asyncio.to_thread(until_closed, client)


def until_closed(client):
    """Read until the connection ends; raises TimeoutError where it stays."""
    with suppress(ConnectionResetError):
        while client.recv(1 << 16):
            pass
    return True
