"""A southbound on a free port of the loopback, with switches that are cleaned up."""

import pytest
import pytest_asyncio

from heddle.controller.southbound.server import OpenFlowServer
from heddle.controller.southbound.settings import SouthboundSettings
from heddle.testing.switches.openflow_switch import FakeSwitch
from tests.support.fabrics.southbound_events import RecordedEvents

QUICK = SouthboundSettings(
    echo_period_s=0.1, handshake_timeout_s=20.0, probe_timeout_s=5.0, request_timeout_s=20.0, generation_id=7
)
NAMES = {1: "leaf1", 2: "leaf2", 3: "leaf3"}


class Southbound:
    """A server, its events, and fake switches that connect to it."""

    def __init__(self, settings, tls=None):
        self.events = RecordedEvents()
        self.server = OpenFlowServer("127.0.0.1", 0, NAMES.get, self.events, settings, tls=tls)
        self.address = ("", 0)
        self._switches = []

    async def start(self):
        self.address = await self.server.start()

    async def connected(self, switch):
        """Connect a switch, without waiting for the handshake."""
        self._switches.append(switch)
        await switch.connect(*self.address)
        return switch

    async def up(self, datapath_id, **options):
        """Connect a new switch and wait until it is up."""
        switch = await self.connected(FakeSwitch(datapath_id, **options))
        await self.events.wait_for("switch_up", NAMES[datapath_id])
        return switch

    async def close(self):
        for switch in self._switches:
            await switch.disconnect()
        await self.server.close()


@pytest.fixture
def settings():
    return QUICK


@pytest_asyncio.fixture
async def southbound(settings):
    running = Southbound(settings)
    await running.start()
    yield running
    await running.close()
