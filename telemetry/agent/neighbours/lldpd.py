"""Read what a device's ports hear from its lldpd: `lldpcli -u SOCKET -f json0 show neighbors`, again when it changes.

`lldpcli watch` prints each change; what that says is read anew, so that one reader knows lldpd's format.

lldpcli connects to lldpd's unix socket, which is root's and the group's `_lldpd`.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from heddle.telemetry.agent.program import ProgramError, follow, output
from heddle.telemetry.agent.source import SourceError
from heddle.telemetry.neighbours import lldpd
from heddle.telemetry.neighbours.advertised import Advertised, NeighboursError
from heddle.telemetry.neighbours.heard import Heard, heard_at

PROGRAM = "lldpcli"
RETRY_S = 5.0
"""A client that has ended, with its daemon or by itself, is started again after so long."""


class LldpdNeighbours:
    """The lldpd at a socket; `port_of` has the fabric's name of each port or NIC by interface."""

    def __init__(self, socket: Path, port_of: Mapping[str, str]) -> None:
        client = (PROGRAM, "-u", str(socket), "-f", "json0")
        self._words, self._watch_words = (*client, "show", "neighbors"), (*client, "watch")
        self._port_of = dict(port_of)

    async def __call__(self) -> dict[str, Heard]:
        """Return what every port hears; raises SourceError."""
        try:
            found = lldpd.neighbours("lldpd", json.loads(await output(self._words)))
        except (ProgramError, NeighboursError) as fault:
            raise SourceError(str(fault)) from None
        except (ValueError, RecursionError) as fault:
            raise SourceError(f"{PROGRAM}: no JSON: {fault}") from None
        frames: dict[str, list[Advertised]] = {}
        for frame in found.advertised:
            frames.setdefault(frame.interface, []).append(frame)
        return {port: heard_at(interface, frames.get(interface, ())) for interface, port in self._port_of.items()}

    async def watch(self, changed: asyncio.Event) -> None:
        """Set `changed` whenever lldpd reports a change, until cancelled."""
        while True:
            await follow(self._watch_words, changed.set)
            await asyncio.sleep(RETRY_S)
