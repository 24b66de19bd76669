"""What a cabling differs by: kinds of cause, and each as a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from heddle.controller.model.fabric import PortRef

MAX_NAMED = 4
"""Ports that a sentence names; `Cause.ports` has all."""


class CauseKind(StrEnum):
    """The kinds of cause."""

    NODES = "nodes"
    """Whole switches or hosts stand in each other's place, or their ids are exchanged."""
    SHIFTED = "shifted"
    """The plugs of neighbouring ports are some ports too far."""
    BLOCKS = "blocks"
    """The plugs of two runs of neighbouring ports are exchanged."""
    REVERSED = "reversed"
    """The plugs of neighbouring ports are in reverse order."""
    PAIRS = "pairs"
    """The plugs of neighbouring ports are exchanged in pairs."""
    EXCHANGED = "exchanged"
    """Two plugs are exchanged."""
    MOVED = "moved"
    """A plug is in another port, where none belongs."""
    MISSING = "missing"
    """A port has no carrier, and nothing is heard at either end."""
    SILENT = "silent"
    """All cables of a switch or host are missing."""
    CROSSED = "crossed"
    """The two fibres of cables lead to different ports."""
    STRANGER = "stranger"
    """A device is heard that the fabric lacks, or a port that is not named."""
    CLAIMED = "claimed"
    """Several ports hear the same one. Which of them is right is not known."""
    EXTRA = "extra"
    """A cable joins two ports that the fabric leaves free."""
    LOST = "lost"
    """Pings by a cable do not return, and which port is at its far end is not certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause: `text` is a sentence for people, `cables` are the ids of the cables that are wrong by it.

    The id of a NIC's cable is that of its link upwards. `ports` are the switch ports that the sentence is about, those
    to act on first; `instead` are those at the other ends, where acting on them is as short a way; `nodes` are the
    switches and hosts that as a whole are elsewhere or silent.
    """

    kind: CauseKind
    text: str
    cables: tuple[str, ...]
    ports: tuple[PortRef, ...]
    instead: tuple[PortRef, ...] = ()
    nodes: tuple[str, ...] = ()


def listed(names: Sequence[str]) -> str:
    """Return names as a list in words; the first MAX_NAMED of many."""
    if len(names) > MAX_NAMED:
        return f"{', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
