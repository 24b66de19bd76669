"""Limit the connections that have not been admitted as switches: switches have a place each, one for a datapath id."""

from collections import Counter

from heddle.controller.model.server_address import split_address
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.southbound.phase import SessionPhase, SessionRejectedError
from heddle.controller.southbound.session import SwitchSession
from heddle.controller.southbound.settings import SouthboundSettings

GAVE_WAY = "it had not sent its Hello, and a newer connection takes its place"


class Strangers:
    """The connections that are not admitted yet, the oldest first; `limited` counts what the limits refuse."""

    def __init__(self, settings: SouthboundSettings, limited: Counter[Limit]) -> None:
        self._settings, self._limited = settings, limited
        self._hosts: dict[SwitchSession, str] = {}

    def add(self, session: SwitchSession) -> None:
        """Add a new connection; beyond the limits the oldest without a Hello gives way, else SessionRejectedError."""
        host = _host(session)
        of_host = [one for one, other in self._hosts.items() if other == host]
        if len(of_host) >= self._settings.max_strangers_of_a_peer:
            self._make_room(of_host, Limit.SWITCH_PEER)
        elif len(self._hosts) >= self._settings.max_strangers:
            self._make_room(list(self._hosts), Limit.SWITCH_CONNECTIONS)
        self._hosts[session] = host

    def discard(self, session: SwitchSession) -> None:
        """Remove a connection that has been admitted or has ended."""
        self._hosts.pop(session, None)

    def _make_room(self, among: list[SwitchSession], limit: Limit) -> None:
        for one in among:
            if one.phase is SessionPhase.HELLO and not one.transport.has_unread():
                self._limited[Limit.SWITCH_GAVE_WAY] += 1
                one.close(GAVE_WAY)
                return
        self._limited[limit] += 1
        raise SessionRejectedError(f"{len(among):,} connections that are no switches yet are open: no more are taken")


def _host(session: SwitchSession) -> str:
    return split_address(session.peer)[0] if ":" in session.peer else session.peer
