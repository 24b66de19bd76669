"""Hold what acknowledges a change until the journal has the change, and refuse changes while it cannot be written.

Effects pass in their order. While the journal fails, a caller whose change is not written learns so; everything that
runs goes on, and what it publishes passes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from heddle.controller.model.effect import Effect, Persist, Reply
from heddle.controller.model.error import HeddleError, UnavailableError
from heddle.controller.model.event import Event, Submit
from heddle.controller.model.traits import Change, Held
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.runtime.journal.writer import JournalWriter
from heddle.controller.runtime.ports import StateStore


class Gate:
    """Between the brain's effects and their performance. Used by the loop's thread alone."""

    def __init__(self) -> None:
        self.failure = ""
        """Why the journal cannot be written; empty while it can."""
        self.journal: JournalWriter | None = None
        """Where what survives a restart is written, if anywhere; without it nothing is held."""
        self._perform: Callable[[Effect], None] = lambda effect: None
        self._held: deque[tuple[int, Effect]] = deque()
        self._promising: set[int] = set()
        self._asked = self._done = 0
        self._settling: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._paused = self._ended = ""

    def release_to(self, perform: Callable[[Effect], None]) -> None:
        """Set what performs an effect that was held."""
        self._perform = perform

    def keep_in(self, store: StateStore, topology: Topology) -> None:
        """Write what has to survive a restart to a store; call once, in the event loop's thread."""
        running = asyncio.get_running_loop()

        def written(number: int, failure: str) -> None:
            running.call_soon_threadsafe(self.written, number, failure)

        self.journal = JournalWriter(store, topology, written)
        self.journal.start()

    def admit(self, reply: int, event: Event) -> None:
        """Note a request; raises UnavailableError for one that the journal would have to hold while it fails.

        After `end` it does so for every request.
        """
        if self._ended:
            raise UnavailableError(self._ended)
        if self.journal is None or not isinstance(event, Change) or (isinstance(event, Submit) and event.preview):
            return
        if self._paused:
            raise UnavailableError(self._paused)
        if self.failure:
            raise UnavailableError(f"{self.failure}; nothing new is begun until it can be written, what runs goes on")
        self._promising.add(reply)

    @contextmanager
    def paused(self, why: str) -> Iterator[None]:
        """Admit no change meanwhile; its callers get UNAVAILABLE with the reason."""
        self._paused = why
        try:
            yield
        finally:
            self._paused = ""

    def end(self, why: str) -> None:
        """Admit nothing any more: its callers get UNAVAILABLE with the reason."""
        self._ended = why

    def keep(self, values: Mapping[tuple[str, str], object]) -> None:
        """Write values that are none of the brain's state; `settled` waits for them."""
        assert self.journal is not None
        self._asked = self.journal.write(values)

    def forget(self, reply: int) -> None:
        """Forget a request whose caller has its reply, or has left."""
        self._promising.discard(reply)

    def passes(self, effect: Effect) -> bool:
        """Return whether an effect is performed now; others are written, or held until what came before is written."""
        if isinstance(effect, Persist):
            if self.journal is not None:
                self._asked = self.journal.write(effect.values)
            return False
        if not isinstance(effect, Held) or (isinstance(effect, Reply) and effect.reply not in self._promising):
            return True
        if self._asked == self._done:
            self._perform(self._with_failure(effect))  # while the journal fails, also for what it lacks from before
        else:
            self._held.append((self._asked, effect))
        return False

    def written(self, number: int, failure: str) -> None:
        """Perform what waited for the requests up to a number; where they failed, their callers learn why."""
        self.failure, self._done = failure, max(self._done, number)
        while self._held and self._held[0][0] <= number:
            self._perform(self._with_failure(self._held.popleft()[1]))
        while self._settling and self._settling[0][0] <= number:
            waiting = self._settling.popleft()[1]
            if not waiting.done():
                waiting.set_result(None)

    async def settled(self) -> None:
        """Wait until all is written that the state holds now; raises UnavailableError where that fails."""
        if self._asked > self._done:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling.append((self._asked, waiting))
            await waiting
        if self.failure:
            raise UnavailableError(f"{self.failure}; the state may not survive a restart")

    def _with_failure(self, effect: Effect) -> Effect:
        """Return the reply that a caller gets while the journal fails; other effects, and errors, are as they are."""
        if not self.failure or not isinstance(effect, Reply) or isinstance(effect.outcome, HeddleError):
            return effect
        why = f"{self.failure}; the change is made, but would not survive a restart: the same call again waits again"
        return Reply(reply=effect.reply, outcome=UnavailableError(why))
