"""A switch with a session to each of several controllers, and the roles of OpenFlow 1.3 (6.3.4): one is master.

Rules of a slave are refused. Those of a controller that has no role, or an older generation than the newest, are
accepted and counted.
"""

import asyncio
import contextlib

from heddle.testing.switches.flow_table import Refusal, SwitchTables
from heddle.testing.switches.openflow_switch import FLOW_MOD, GROUP_MOD, FakeSwitch

BAD_REQUEST, IS_SLAVE = 1, 10
EQUAL, MASTER, SLAVE = 1, 2, 3
RECONNECT_S = 0.2


class SharedSwitch:
    """One switch. After a restart it has forgotten its generation, as Open vSwitch has."""

    session: "type[ControllerSession]"
    """What it makes for each controller."""

    def __init__(self, datapath_id: int, ports: int) -> None:
        self.datapath_id, self.ports = datapath_id, ports
        self.tables = SwitchTables()
        self.newest: int | None = None
        """The newest generation of a master."""
        self.accepted = 0
        self.accepted_of_old = 0
        """Changes that were accepted from a controller which is not the newest master."""
        self.refused_of_old = 0
        self.obeys_roles = True
        """False: a switch at fault, which obeys every controller."""
        self.sessions: list[ControllerSession] = []
        self._tasks: list[asyncio.Task[None]] = []

    def connect(self, addresses: list[str]) -> None:
        """Stay connected to every controller; returns at once."""
        self._tasks = [asyncio.create_task(self._stay_connected(*each.rsplit(":", 1))) for each in addresses]

    async def close(self) -> None:
        """End all sessions."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def restart(self) -> None:
        """End all sessions; the switch forgets its generation, and keeps its rules."""
        self.newest = None
        for session in self.sessions:
            session.cut()

    async def _stay_connected(self, host: str, port: str) -> None:
        while True:
            session = self.session(self)
            with contextlib.suppress(OSError):
                await session.connect(host, int(port))
                self.sessions.append(session)
                try:
                    await session.ended()
                finally:
                    self.sessions.remove(session)
            await asyncio.sleep(RECONNECT_S)


class ControllerSession(FakeSwitch):
    """The session of a shared switch with one controller."""

    def __init__(self, shared: SharedSwitch) -> None:
        super().__init__(shared.datapath_id, shared.ports, shared.tables)
        self.shared = shared
        self.role = EQUAL

    def cut(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def ended(self) -> None:
        """Wait until the session is over, and disconnect."""
        assert self._serving is not None
        try:
            await asyncio.wait({self._serving})
        finally:
            await self.disconnect()

    def _role(self, role: int, generation: int) -> bytes:
        shared = self.shared
        self.generation = shared.newest
        reply = super()._role(role, generation)
        if role in (MASTER, SLAVE):
            shared.newest = generation
            if role == MASTER:
                for other in shared.sessions:
                    other.role = SLAVE if other.role == MASTER else other.role
            self.role = role
        return reply

    def _replies(self, kind: int, whole: bytes) -> list[tuple[int, bytes]]:
        if kind in (FLOW_MOD, GROUP_MOD):
            if self.role == SLAVE and self.shared.obeys_roles:
                self.shared.refused_of_old += 1
                raise Refusal(BAD_REQUEST, IS_SLAVE)
            self.shared.accepted += 1
            self.shared.accepted_of_old += self.role != MASTER or self.generation != self.shared.newest
        return super()._replies(kind, whole)


SharedSwitch.session = ControllerSession
