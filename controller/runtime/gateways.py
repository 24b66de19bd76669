"""The sessions of gateways and hosts: who is to be woken when there is something to tell, and what they told last."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

MAX_TABLE_REQUESTS = 4
"""Of one gateway at a time; each is some ten megabytes on their way."""
MAX_PARTS_WAITING = 64


class TooManyRequestsError(Exception):
    """The gateway is asked for its tables too often at a time."""


@dataclass(slots=True)
class Session:
    """One attached gateway. `wake` is set when its stream has something to look at."""

    number: int
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ended: str = ""
    """Why the stream has to end."""
    sent_generation: int = 0
    acknowledged_generation: int = 0
    hello: Any = None
    counters: Any = None
    last_seen_unix_ms: int = 0
    asked: list[int] = field(default_factory=list)
    """Requests for tables that are still to be sent."""
    answers: dict[int, asyncio.Queue[Any]] = field(default_factory=dict)
    """Who waits for tables, by request; None says that the session ended."""

    def end(self, why: str) -> None:
        """Let the stream end."""
        self.ended = self.ended or why
        self.wake.set()
        for waiting in self.answers.values():
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(None)


class Gateways:
    """All sessions, by gateway id; one a gateway."""

    def __init__(self) -> None:
        self.by_id: dict[str, Session] = {}
        self._next_number = 1
        self._next_request = 1

    def open(self) -> Session:
        """Return a session that nobody has yet."""
        number, self._next_number = self._next_number, self._next_number + 1
        return Session(number)

    def attach(self, gateway_id: str, session: Session) -> None:
        """Let a session be the gateway's; an older one ends."""
        self.end(gateway_id, None)
        self.by_id[gateway_id] = session

    def end(self, gateway_id: str, number: int | None) -> None:
        """End a gateway's session, if it is the one of this number (None: any)."""
        known = self.by_id.get(gateway_id)
        if known is not None and number in (None, known.number):
            del self.by_id[gateway_id]
            known.end("another session attached under the same id")

    def detach(self, gateway_id: str, session: Session) -> None:
        """Forget a session whose stream is over."""
        session.end("the session ended")
        if self.by_id.get(gateway_id) is session:
            del self.by_id[gateway_id]

    def notify(self) -> None:
        """Wake every stream: there is a new generation."""
        for session in self.by_id.values():
            session.wake.set()

    def ask_tables(self, gateway_id: str) -> tuple[Session, int, asyncio.Queue[Any]]:
        """Ask a gateway for its tables; raises KeyError where it is not attached, TooManyRequestsError."""
        session = self.by_id[gateway_id]
        if len(session.answers) >= MAX_TABLE_REQUESTS:
            raise TooManyRequestsError(f"gateway {gateway_id} is sending its tables {MAX_TABLE_REQUESTS} times already")
        request, self._next_request = self._next_request, self._next_request + 1
        answers: asyncio.Queue[Any] = asyncio.Queue(MAX_PARTS_WAITING)
        session.answers[request] = answers
        session.asked.append(request)
        session.wake.set()
        return session, request, answers
