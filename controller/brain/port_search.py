"""The state of a search for source ports on a fabric that hashes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from heddle.controller.model.effect import Solve
from heddle.controller.model.plan import Replan
from heddle.probing.flow import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeking:
    """The search for the source ports of a plan on a fabric that hashes.

    `solve` is the request that `plan` replies to, `token` that of the probes under way. `ports` have been found;
    `avoid` has the paths without a port by flow id, `reached` the links at the top that a flow's probes were seen on,
    and `missing` why the newest probes of a flow found none. The running flows `stay` where they are; of these, the
    ports of `unseen` could not be confirmed. `rounds` counts searches.

    Running flows whose port leads elsewhere are planned on their `seen` paths, beside `base`, the plan for which they
    would need other ports; the flows `freed` get such. `trials` counts these plans.
    """

    solve: Solve
    plan: Replan | None = None
    token: int = 0
    ports: Mapping[Wanted, int] = field(default_factory=dict)
    avoid: Mapping[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)
    reached: Mapping[str, frozenset[str]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    stay: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    base: Replan | None = None
    seen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    freed: frozenset[str] = frozenset()
    trials: int = 0
    rounds: int = 0
    probes: int = 0
    solve_ns: int = 0
    search_ns: int = 0
