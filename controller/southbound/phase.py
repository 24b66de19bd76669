"""Define the phases of a session, and why one may end before it is ready."""

from enum import Enum


class SessionPhase(Enum):
    """The phase of a session."""

    HELLO = "hello"
    HANDSHAKE = "handshake"
    READY = "ready"
    CLOSED = "closed"


class SessionRejectedError(Exception):
    """The controller refuses this switch; the text gives the reason."""
