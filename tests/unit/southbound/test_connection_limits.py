"""Connections that never become switches leave room for those that do."""

from controller.southbound.server import OpenFlowServer
from tests.fakes.openflow.openflow_switch import FakeSwitch
from tests.support.southbound_events import RecordedEvents
from tests.unit.southbound.conftest import NAMES, QUICK


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
