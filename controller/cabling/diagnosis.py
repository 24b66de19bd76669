"""Explain heard cabling by the fewest causes: whole nodes first, then runs of ports, then single plugs.

Expected and heard cabling are two matchings on ports. Each step explains a part of their difference and undoes it in
the cabling as heard, so that the next step sees what is wrong besides. Silence of a port with carrier, or of one whose
carrier is not known, accuses nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from heddle.controller.cabling.absent import extra_cables, missing_cables
from heddle.controller.cabling.cause import Cause, CauseKind
from heddle.controller.cabling.contradictions import claimed_ports, crossed_fibres, strangers
from heddle.controller.cabling.ends import NONE, Ends
from heddle.controller.cabling.exchanges import loops
from heddle.controller.cabling.found import rejoined_cables
from heddle.controller.cabling.heard import Hearings
from heddle.controller.cabling.observed import DARK, Observed
from heddle.controller.cabling.undoing import undo_blocks, undo_exchanges, undo_nodes
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.found_cabling import Rejoined

__all__ = ["Cause", "CauseKind", "Diagnosis", "diagnose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What differs from the fabric as built. The sets hold ids of cables; a NIC's cable has the id of its link upwards.

    `wrong` cables are not where they belong, by what is heard. `missing` ones have no carrier and nothing is heard of
    them. Of `unknown` ones nothing is heard, or it is contradicted; nothing speaks against them. `moves` is how many
    plugs must be put into another port at least. Of `rejoined` ones it is certain how they are joined instead.
    """

    causes: tuple[Cause, ...]
    wrong: frozenset[str]
    missing: frozenset[str]
    unknown: frozenset[str]
    moves: int = 0
    rejoined: tuple[Rejoined, ...] = ()


def diagnose(fabric: Fabric, heard: Hearings, up: Collection[PortRef] | None = None) -> Diagnosis:
    """Compare what ports hear with the fabric; return the causes of what differs, those of the most cables first.

    `up` has the ports with carrier, as far as the fabric uses them; without it no cable is called missing. What a used
    port without carrier hears is stale and ignored.
    """
    ends = Ends(fabric)
    observed = Observed(ends, heard, up)
    found = {kind: _ids(ends, these) for kind, these in _verdicts(observed).items()}
    moves, rejoined = fewest_moves(observed), tuple(rejoined_cables(fabric, observed))
    steps = (
        claimed_ports, crossed_fibres, undo_nodes, strangers, undo_blocks, undo_exchanges, missing_cables, extra_cables,
    )  # fmt: skip
    # One cause may move a plug, and another one move it back: its cable is right.
    differing = found["wrong"] | found["missing"]
    causes = [
        replace(cause, cables=tuple(name for name in cause.cables if name in differing))
        for step in steps
        for cause in step(observed)
    ]
    causes.sort(key=lambda cause: (-len(cause.cables), cause.kind, cause.ports, cause.text))
    return Diagnosis(causes=tuple(causes), moves=moves, rejoined=rejoined, **found)


def fewest_moves(observed: Observed) -> int:
    """Return how many plugs must be put into another port at least, so that the cables that are heard are right.

    Each wrong plug needs one move, one for each cable; a path that lacks a cable has one cable less. Cables that are
    missing, or too many, are not counted.
    """
    expected = observed.ends.expected
    return sum(
        sum(expected[first] == second != NONE for first, second in loop.cables) - loop.is_open
        for loop in loops(observed)
    )


def _verdicts(observed: Observed) -> dict[str, list[int]]:
    """Return one end of each cable that is wrong, missing or unknown."""
    ends, met, carrier = observed.ends, observed.met, observed.carrier
    crossed, claimed = set(observed.crossed), set(observed.claimed)
    found: dict[str, list[int]] = {"wrong": [], "missing": [], "unknown": []}
    for end, far in enumerate(ends.expected[: ends.built]):
        if far < end or met[end] == far:
            continue
        if met[end] != NONE or met[far] != NONE or end in crossed or far in crossed:
            found["wrong"].append(end)
        elif end in claimed or far in claimed or DARK not in (carrier[end], carrier[far]):
            found["unknown"].append(end)
        else:
            found["missing"].append(end)
    return found


def _ids(ends: Ends, these: list[int]) -> frozenset[str]:
    return frozenset(map(ends.cable_id, these))
