"""What names, groups and labels suggest about a node: a hint, which counts only where the structure leaves a choice."""

import re
from enum import StrEnum


class Hint(StrEnum):
    """What a text suggests that a node is."""

    HOST = "host"
    LEAF = "leaf"
    SPINE = "spine"
    """The tier above the leaves: a spine of two tiers, an aggregation switch of three."""
    CORE = "core"
    """The third tier."""
    SWITCH = "switch"
    """A switch of any tier."""
    OUTSIDE = "outside"
    """A firewall or gateway, which no path between hosts crosses if it need not."""

    @property
    def is_upper(self) -> bool:
        """Return whether it is of a tier above the leaves."""
        return self in (Hint.SPINE, Hint.CORE)


_WORDS: tuple[tuple[Hint, tuple[str, ...]], ...] = (
    (Hint.CORE, ("superspine", "super", "core", "dsw")),
    (Hint.SPINE, ("spine", "agg", "psw", "dist", "fabric")),
    (Hint.LEAF, ("leaf", "tor", "asw", "access", "border", "edge", "rail")),
    (Hint.HOST, ("host", "client", "server", "srv", "gpu", "worker", "compute", "collector", "dgx", "hgx")),
    (Hint.SWITCH, ("switch", "router")),
    (Hint.OUTSIDE, ("firewall", "fw", "fortigate", "gateway", "dcgw", "gw", "wan", "isp", "internet")),
)
_SHORT_HOST = re.compile(r"(h|pc|vm)[0-9]+\Z")
_TIER = re.compile(r"tier-?([123])\Z")
_OF_TIER = {"1": Hint.LEAF, "2": Hint.SPINE, "3": Hint.CORE}


def hint_of(text: object) -> Hint | None:
    """Return what a name, group or label suggests: its last known word counts, so `leaf1-gpu2` is a host."""
    if not isinstance(text, str):
        return None
    lower = text.lower().replace("super-spine", "superspine").replace("super_spine", "superspine")
    tier = _TIER.match(lower)
    if tier:
        return _OF_TIER[tier[1]]
    for part in reversed(re.split(r"[-_. ~/]", lower)):
        for hint, words in _WORDS:
            if part.startswith(words):
                return hint
        if _SHORT_HOST.match(part):
            return Hint.HOST
    return None
