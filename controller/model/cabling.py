"""Describe the cabling that is heard, and the verdict about it; what is expected is the fabric's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from heddle.controller.model.fabric import PortRef
from heddle.controller.model.found_cabling import Rejoined


class CablingPolicy(StrEnum):
    """What plans do with a cable whose plugs are found to be elsewhere; all name it."""

    IGNORE = "ignore"
    EXCLUDE = "exclude"
    FOLLOW = "follow"
    """Left out of use until the fabric in force has it as it was found."""


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
    are as described. `causes` explain what differs from the fabric file, most cables first. `left_out` are out of use
    for it, and `kept` says which are not although they are wrong. `found` are those of which it is certain how they are
    joined instead, where plans are to follow that.
    """

    causes: tuple[Miscabling, ...] = ()
    wrong: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()
    found: tuple[Rejoined, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return what an operator should know, as sentences: each is one condition."""
        return (*(cause.text for cause in self.causes), *self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cabling:
    """What is known of the cabling: what ports hear, and the verdict about it, which is reached beside the loop.

    `before` is what ports that are down have heard last: a cable that was right is down, not missing.
    `token` is that of the verdict under way, and `stale` whether something has changed that the last one does not know.
    The next is not begun before `pause_until_unix_ms`. What the verdict has `found` is so since `found_unix_ms`.
    `following` is the token of the change of the fabric under way, `followed` when such changes were begun lately, and
    `unfollowed` why the last one was not made, "" where it was. `joining` are cables of the fabric that is to be in
    force: left out until they are heard there, so that no flow takes them before all switches have their rules.
    """

    heard: Heard = field(default_factory=dict)
    before: Heard = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    token: int | None = None
    since_unix_ms: int = 0
    stale: bool = False
    pause_until_unix_ms: int = 0
    found_unix_ms: int = 0
    following: int | None = None
    followed: tuple[int, ...] = ()
    joining: frozenset[str] = frozenset()
    unfollowed: str = ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return what an operator should know, as sentences: each is one condition."""
        return (*self.verdict.conditions, *((self.unfollowed,) if self.unfollowed else ()))
