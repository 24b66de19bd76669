"""Keep the sessions of gateways and hosts: wake their streams for updates, and hold their last reports."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from heddle.controller.views.isolation import Checked

MAX_TABLE_REQUESTS = 4
"""The maximum of concurrent table reads from one gateway; each transfers some ten megabytes."""
MAX_PARTS_WAITING = 64


class TooManyRequestsError(Exception):
    """Too many concurrent table reads from one gateway."""


@dataclass(slots=True)
class GatewaySession:
    """The session of one gateway or host. `wake` is set when its stream has to check for work."""

    number: int
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ended: str = ""
    """The reason for which the stream has to end; empty while it runs."""
    sent_generation: int = 0
    acknowledged_generation: int = 0
    hello: Any = None
    counters: Any = None
    last_seen_unix_ms: int = 0
    last_notice_unix_ms: int = 0
    table_requests: list[int] = field(default_factory=list)
    """Numbers of table requests that are still to be sent."""
    table_parts: dict[int, asyncio.Queue[Any]] = field(default_factory=dict)
    """By request: the parts received from the gateway; None marks the end of the session."""

    def end(self, why: str) -> None:
        """End the stream and all table reads."""
        self.ended = self.ended or why
        self.wake.set()
        for parts in self.table_parts.values():
            if parts.full():
                parts.get_nowait()
            parts.put_nowait(None)


class Gateways:
    """All sessions by gateway id, one for each gateway."""

    def __init__(self) -> None:
        self.by_id: dict[str, GatewaySession] = {}
        self.checked: dict[str, Checked] = {}
        """By gateway and balancer what was found in its tables last."""
        self._next_number = 1
        self._next_request = 1

    def open(self) -> GatewaySession:
        """Return a new session."""
        number, self._next_number = self._next_number, self._next_number + 1
        return GatewaySession(number)

    def attach(self, gateway_id: str, session: GatewaySession) -> None:
        """Make a session that of the gateway; an older one ends."""
        self.end(gateway_id, None)
        self.by_id[gateway_id] = session

    def end(self, gateway_id: str, number: int | None) -> None:
        """End a gateway's session if it has this number (None: any)."""
        known = self.by_id.get(gateway_id)
        if known is not None and number in (None, known.number):
            del self.by_id[gateway_id]
            known.end("another session attached under the same id")

    def detach(self, gateway_id: str, session: GatewaySession) -> None:
        """Remove a session whose stream has ended."""
        session.end("the session ended")
        if self.by_id.get(gateway_id) is session:
            del self.by_id[gateway_id]

    def notify(self) -> None:
        """Wake every stream: there is a new generation."""
        for session in self.by_id.values():
            session.wake.set()

    def request_tables(self, gateway_id: str) -> tuple[GatewaySession, int, asyncio.Queue[Any]]:
        """Request a gateway's tables; return its session, the request's number, and the queue of parts.

        Raises KeyError where the gateway is not attached, and TooManyRequestsError.
        """
        session = self.by_id[gateway_id]
        if len(session.table_parts) >= MAX_TABLE_REQUESTS:
            raise TooManyRequestsError(f"gateway {gateway_id} is sending its tables {MAX_TABLE_REQUESTS} times already")
        request, self._next_request = self._next_request, self._next_request + 1
        parts: asyncio.Queue[Any] = asyncio.Queue(MAX_PARTS_WAITING)
        session.table_parts[request] = parts
        session.table_requests.append(request)
        session.wake.set()
        return session, request, parts
