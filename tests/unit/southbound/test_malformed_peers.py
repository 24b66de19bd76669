"""A peer that sends malformed bytes loses its session at once, with a logged reason; other sessions go on."""

import asyncio
import contextlib
import dataclasses
import logging
import struct

import pytest

from heddle.controller.model.rule import Step
from heddle.testing.switches.openflow_switch import FakeSwitch, message
from tests.fakes.openflow.malformed_openflow import MALFORMED
from tests.unit.southbound.conftest import QUICK

BARRIERS = [Step({"leaf1": ()})]


class Mute(FakeSwitch):
    """A switch that sends given bytes instead of its Hello."""

    def __init__(self, first):
        super().__init__(datapath_id=2)
        self.hello = first


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_first_message_ends_its_session_and_no_other(southbound, caplog, name):
    await southbound.up(1)
    with caplog.at_level(logging.WARNING, "heddle.southbound"):
        peer = await southbound.connected(Mute(MALFORMED[name]))
        await peer.closed(timeout_s=5)
    await southbound.server.install(BARRIERS)
    assert "session_closed" in caplog.text
    assert "malformed" in southbound.server.refusals[-1]
    assert southbound.events.of("switch_down") == []


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_later_message_ends_its_session_and_no_other(southbound, caplog, name):
    await southbound.up(1)
    switch = await southbound.up(2)
    with caplog.at_level(logging.WARNING, "heddle.southbound"):
        switch.send(MALFORMED[name])
        _, _, reason = await southbound.events.wait_for("switch_down", "leaf2", timeout_s=5)
    await southbound.server.install(BARRIERS)
    assert reason.startswith("malformed: ")
    assert reason in caplog.text
    assert southbound.events.of("switch_down") == []


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, handshake_timeout_s=0.5)])
async def test_a_message_that_never_ends_before_the_handshake_is_closed_by_its_timer(southbound):
    await southbound.up(1)
    peer = await southbound.connected(Mute(struct.pack("!BBHI", 4, 0, 16, 0)))
    await peer.closed(timeout_s=5)
    await southbound.server.install(BARRIERS)
    assert "its Hello" in southbound.server.refusals[-1]


async def test_a_message_that_never_ends_in_a_ready_session_is_closed_by_missed_echoes(southbound):
    switch = await southbound.up(2)
    switch.withheld = set(range(30))
    switch.send(struct.pack("!BBHI", 4, 19, 500, 0))
    _, _, reason = await southbound.events.wait_for("switch_down", "leaf2")
    assert "echo" in reason


async def test_a_message_that_swallows_the_echo_replies_is_closed_too(southbound):
    switch = await southbound.up(2)
    switch.send(struct.pack("!BBHI", 4, 19, 60000, 0))
    _, _, reason = await southbound.events.wait_for("switch_down", "leaf2")
    assert "unfinished" in reason


async def test_messages_may_come_in_any_pieces(southbound):
    switch = FakeSwitch(2)
    hello, switch.hello = switch.hello, b""
    await southbound.connected(switch)
    for byte in hello:
        switch.send(bytes([byte]))
        await asyncio.sleep(0)
    await southbound.events.wait_for("switch_up", "leaf2")


async def test_many_messages_may_come_in_one_piece(southbound):
    switch = await southbound.up(2)
    switch.send(b"".join(message(2, b"x", xid) for xid in range(500)))
    async with asyncio.timeout(30):
        while switch.received[3] < 500:
            await asyncio.sleep(0.01)


async def test_anything_before_hello_is_refused(southbound):
    peer = await southbound.connected(Mute(message(6, bytes(24))))
    await peer.closed()
    assert "before HELLO" in southbound.server.refusals[-1]


async def test_a_second_hello_is_refused(southbound):
    switch = await southbound.up(2)
    switch.send(switch.hello)
    _, _, reason = await southbound.events.wait_for("switch_down", "leaf2")
    assert "second HELLO" in reason


async def test_a_peer_of_another_version_gets_an_error(southbound):
    peer = await southbound.connected(Mute(struct.pack("!BBHI", 1, 0, 8, 0)))
    await peer.closed()
    assert peer.errors_received == [(0, 0)]
    assert "does not offer OpenFlow 1.3" in southbound.server.refusals[-1]


async def test_a_multipart_reply_that_changes_its_kind_is_refused(southbound):
    switch = await southbound.up(2)
    switch.withheld.add(18)
    reading = asyncio.create_task(southbound.server.read_rules("leaf2"))
    await asyncio.sleep(0.05)
    session = southbound.server.sessions()["leaf2"]
    for xid in session._pending._requests:
        switch.send(message(19, struct.pack("!HH4x", 1, 0), xid))
    with pytest.raises(Exception, match="could not be read"):
        await reading
    _, _, reason = await southbound.events.wait_for("switch_down", "leaf2")
    assert "in reply to a request" in reason


async def test_unsolicited_replies_are_counted_and_dropped(southbound):
    switch = await southbound.up(2)
    switch.send(message(21, xid=0x1234) + message(25, bytes(16)) + message(27, bytes(24)))
    session = southbound.server.sessions()["leaf2"]
    async with asyncio.timeout(30):
        while session.counters.strays < 3:
            await asyncio.sleep(0.01)
    await southbound.server.install([Step({"leaf2": ()})])


async def test_a_peer_that_floods_without_reading_is_cut_off_with_little_held(southbound):
    await southbound.up(1)
    switch = await southbound.up(2)
    switch.withheld = set(range(30))
    switch._serving.cancel()  # it reads nothing from now on
    switch._writer.transport.pause_reading()
    session = southbound.server.sessions()["leaf2"]
    echo = message(2, bytes(1000)) * 500
    held = 0
    while session.transport.open:
        with contextlib.suppress(TimeoutError, ConnectionError):
            await asyncio.wait_for(_flood(switch, echo), 0.2)
        held = max(held, session.transport._transport.get_write_buffer_size())
        await southbound.server.install(BARRIERS)
    assert held < 8 << 20
    assert session.transport.traffic.times_held


async def _flood(switch, data):
    switch.send(data)
    await switch._writer.drain()
