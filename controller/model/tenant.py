"""Define a tenant as the brain sees it: a name, and the most that it may have."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most that a tenant may have at one time; None is no limit.

    `flows` are planned flows of all its jobs, `pins` those of them with a rule of their own on each switch, `nics` the
    NICs that its jobs use.
    """

    jobs: int | None = None
    flows: int | None = None
    pins: int | None = None
    nics: int | None = None
    vpcs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """The tenant that an event is of; it changes its own objects alone, within its quota."""

    name: str
    quota: Quota = field(default_factory=Quota)
