"""Derive the isolation verdict of each VPC from what was found in the tables of gateways and balancers; pure.

A VPC is verified where every gateway and balancer that serves it is attached and its installed tables open exactly the
intended paths; it is violated where one opens or closes another path. Everything else is unknown, with the reason.
Hosts are not verified.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from heddle.controller.brain.virtual_networks import Gateway, Networks
from heddle.dataplane.config.desired import Kind

STALE_MS = 1_800_000
"""What was found longer ago is no verdict."""
LATE_MS = 60_000
"""What was found in tables of an older generation counts for so long: a change is verified within seconds, or later
where tables are large."""


class Verdict(StrEnum):
    """Whether exactly the intended paths are open."""

    VERIFIED = "verified"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in the tables of one gateway or balancer, of one generation."""

    unix_ms: int
    generation: int
    failure: str = ""
    """Why its tables were not verified; empty where they were."""
    vpcs: frozenset[str] = frozenset()
    """The VPCs that it was to serve."""
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By VPC the first paths that differ from the intent, each with its cause."""
    total: int = 0
    """Number of paths that differ."""
    is_whole: bool = True
    """Whether `differing` names every VPC that is concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The verdict on one VPC. `why` has the paths that differ, or what is not known; empty where it is verified."""

    verdict: Verdict
    why: tuple[str, ...] = ()
    checked_unix_ms: int = 0
    """The time of the oldest check that it rests on; 0: none."""
    generation: int = 0
    """The oldest generation of the tables that it rests on; 0: none."""


def isolation_of(networks: Networks, checked: Mapping[str, Checked], now_unix_ms: int) -> dict[str, Isolation]:
    """Return the verdict on every VPC; `checked` by gateway and balancer."""
    gateways = {name: known for name, known in sorted(networks.gateways.items()) if known.kind is Kind.GATEWAY}
    balancers = {name: known for name, known in sorted(networks.gateways.items()) if known.kind is Kind.BALANCER}
    balanced = {each.vpc for each in networks.load_balancers.values()}
    return {
        vpc: _isolation(networks, gateways | balancers if vpc in balanced else gateways, checked, vpc, now_unix_ms)
        for vpc in networks.vpcs
    }


def _isolation(
    networks: Networks, serving: Mapping[str, Gateway], checked: Mapping[str, Checked], vpc: str, now_unix_ms: int
) -> Isolation:
    used = [checked[name] for name in serving if name in checked and not checked[name].failure]
    used = [each for each in used if vpc in each.vpcs and now_unix_ms - each.unix_ms <= STALE_MS]
    leaks = tuple(text for each in used for text in each.differing.get(vpc, ()))
    gaps = [_gap(networks, name, known, checked.get(name), vpc, now_unix_ms) for name, known in serving.items()]
    if not any(known.kind is Kind.GATEWAY for known in serving.values()):
        gaps.append("no gateway has attached")
    why = leaks or tuple(filter(None, gaps))
    return Isolation(
        verdict=Verdict.VIOLATED if leaks else Verdict.UNKNOWN if why else Verdict.VERIFIED,
        why=why,
        checked_unix_ms=min((each.unix_ms for each in used), default=0),
        generation=min((each.generation for each in used), default=0),
    )


def _gap(
    networks: Networks, name: str, known: Gateway, found: Checked | None, vpc: str, now_unix_ms: int
) -> str:  # fmt: skip
    """Return why nothing is known of a VPC in the tables of one that may serve it; empty where it is known."""
    if known.session is None:
        return f"{name} is detached: the tables by which it forwards are not known"
    if known.refused:
        return f"{name} refuses the newest generation: {known.refused}"
    if vpc in known.kept:
        return f"vpc {vpc} at {name}: {known.kept[vpc]}"
    if networks.unknown_at(known):
        return f"{name} serves VPCs that the controller does not know, and their paths with them"
    if not networks.generation:
        return "nothing was published to gateways since the controller's start"
    if found is None:
        return f"{name} is not verified yet"
    if found.failure:
        return f"{name}: {found.failure}"
    age_ms = now_unix_ms - found.unix_ms
    if age_ms > STALE_MS:
        return f"{name} was verified {age_ms // 1_000} s ago for the last time"
    if vpc not in found.vpcs and known.kind is Kind.BALANCER:
        return ""  # it cannot serve this one
    if vpc not in found.vpcs or (found.generation < networks.generation and age_ms > LATE_MS):
        return f"{name}: its newest generation is not verified yet"
    return "" if found.is_whole else f"{name}: {found.total} paths differ, more than are examined"
