"""Two implementations of one switch, the fake and a bridge of a private Open vSwitch, behind one interface."""

import asyncio
import itertools
import os
from abc import ABC, abstractmethod

from heddle.controller.southbound.server import OpenFlowServer
from heddle.controller.southbound.settings import SouthboundSettings
from heddle.testing.switches.openflow_switch import FakeSwitch
from tests.support.fabrics.southbound_events import RecordedEvents
from tests.support.processes.private_ovs import PrivateOvs

SETTINGS = SouthboundSettings(generation_id=7)
PORTS = 4
_NUMBERS = itertools.count()


class Lab(ABC):
    """A server and one switch, `leaf1`, with ports 1 to 4."""

    def __init__(self) -> None:
        self.events = RecordedEvents()
        self.server = OpenFlowServer("127.0.0.1", 0, {1: "leaf1"}.get, self.events, SETTINGS)
        self.address = ("", 0)

    async def start(self) -> None:
        """Bring the switch up."""
        self.address = await self.server.start()
        await self.plug_in()
        await self.events.wait_for("switch_up", "leaf1")

    async def restart_controller(self, settings: SouthboundSettings = SETTINGS) -> None:
        """End the server and start another on the same port, to which the switch reconnects."""
        host, port = self.address
        await self.server.close()
        self.server = OpenFlowServer(host, port, {1: "leaf1"}.get, self.events, settings)
        await self.server.start()
        await self.come_back()

    @abstractmethod
    async def plug_in(self) -> None:
        """Make the switch and point it to the server."""

    @abstractmethod
    async def come_back(self) -> None:
        """Reconnect the switch after a restart of the server."""

    @abstractmethod
    async def set_port(self, number: int, *, up: bool) -> None:
        """Pull or plug a cable."""

    async def stop(self) -> None:
        """End switch and server."""
        await self.server.close()


class FakeLab(Lab):
    """The fake switch."""

    def __init__(self) -> None:
        super().__init__()
        self.switch = FakeSwitch(1, ports=PORTS)

    async def plug_in(self) -> None:
        """Connect the fake."""
        await self.switch.connect(*self.address)

    async def come_back(self) -> None:
        """Connect the fake again."""
        await self.switch.closed()
        await self.switch.connect(*self.address)

    async def set_port(self, number: int, *, up: bool) -> None:
        """Pull or plug a cable."""
        self.switch.set_port(number, up=up)

    async def stop(self) -> None:
        """End fake and server."""
        await self.switch.disconnect()
        await super().stop()


class OvsLab(Lab):
    """A bridge of a running Open vSwitch."""

    def __init__(self, ovs: PrivateOvs) -> None:
        super().__init__()
        self.ovs = ovs
        self.bridge = f"b{next(_NUMBERS)}x{os.getpid()}"
        self.ports = tuple(f"p{number}{self.bridge}" for number in range(1, PORTS + 1))

    async def plug_in(self) -> None:
        """Make the bridge."""
        controller = f"tcp:{self.address[0]}:{self.address[1]}"
        await asyncio.to_thread(
            self.ovs.add_bridge, self.bridge, datapath_id=1, ports=self.ports, controller=controller
        )

    async def come_back(self) -> None:
        """Do nothing: Open vSwitch retries within a second."""

    async def set_port(self, number: int, *, up: bool) -> None:
        """Pull or plug a dummy port's cable."""
        await asyncio.to_thread(self.ovs.set_port, self.ports[number - 1], up=up)

    async def stop(self) -> None:
        """Delete the bridge and end the server."""
        await asyncio.to_thread(self.ovs.vsctl, "del-br", self.bridge)
        await super().stop()
