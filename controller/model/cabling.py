"""Describe the cabling that is heard, and the verdict about it; what is expected is the fabric's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from heddle.controller.model.fabric import PortRef


class CablingPolicy(StrEnum):
    """What plans do with a cable whose plugs are found to be elsewhere; both name it."""

    IGNORE = "ignore"
    EXCLUDE = "exclude"


class Peer(NamedTuple):
    """What a port hears at the other end of its cable: a switch and its port, or a NIC; names as they are heard."""

    switch: str
    port: int | None
    nic: str = ""

    def __str__(self) -> str:
        if self.nic:
            return self.nic
        return self.switch if self.port is None else f"{self.switch}:{self.port}"


Heard = Mapping[PortRef, Peer]
"""What each port hears; a port that hears nothing is not there."""


class Miscabling(NamedTuple):
    """A cause of wrong or missing cables: its kind, a sentence for people, and the ids of the cables."""

    kind: str
    text: str
    cables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the heard cabling says of the fabric's cables, by id.

    `wrong` have a plug elsewhere, `missing` are dark and were never heard, `unknown` are up and not heard; all others
    are as described. `causes` explain the first two, most cables first. `left_out` are out of use for it, and `kept`
    says which are not although they are wrong.
    """

    causes: tuple[Miscabling, ...] = ()
    wrong: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return what an operator should know, as sentences: each is one condition."""
        return (*(cause.text for cause in self.causes), *self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cabling:
    """What is known of the cabling: what ports hear, and the verdict about it, which is reached beside the loop.

    `before` is what ports that are down have heard last: a cable that was right is down, not missing.
    `token` is that of the verdict under way, and `stale` whether something has changed that the last one does not know.
    The next is not begun before `pause_until_unix_ms`.
    """

    heard: Heard = field(default_factory=dict)
    before: Heard = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    token: int | None = None
    since_unix_ms: int = 0
    stale: bool = False
    pause_until_unix_ms: int = 0
