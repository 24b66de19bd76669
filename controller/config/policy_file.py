"""Read the policy file (config key `policy`): tenants with NICs and quotas, users of the page, rules of Slurm."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationError, WrapValidator

from heddle.controller.access.policy import Policy, TenantPolicy
from heddle.controller.config.jobs_file import nics_or_all
from heddle.controller.config.load import parse_fabric
from heddle.controller.config.text.complaint import refusal, shown
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_document
from heddle.controller.config.text.field import Shape, Uint32, Version, refuse
from heddle.controller.config.text.shape_error import shape_problems
from heddle.controller.model.admission import Problem
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import OFFERED_KINDS, Algorithm, Collective, CollectiveKind
from heddle.controller.model.limit import MAX_QPS_PER_FLOW
from heddle.controller.model.suggest import did_you_mean
from heddle.controller.model.tenant import Quota
from heddle.controller.schedulers.slurm_descriptions import ASSUMED_BYTES, Rule
from heddle.foundation.identity import Identity, Role

MAX_SLURM_RULES = 1_024
_USER_ROLES = (Role.OPERATOR.value, Role.VIEWER.value)


def _role(value: object) -> str:
    if value not in _USER_ROLES:
        refuse(f"{shown(value)} is no role of a user of the page: use {' or '.join(_USER_ROLES)}")
    return str(value)


def _prefix(value: object) -> Any:
    try:
        return ip_network(value if isinstance(value, str) else "")
    except ValueError:
        refuse(f"{shown(value)} is no address or prefix such as 203.0.113.0/28")


def _prefix_v4(value: object) -> Any:
    found = _prefix(value)
    return found if found.version == 4 else refuse(f"{shown(value)}: VTEPs have IPv4 addresses")


class QuotasShape(Shape):
    """A tenant's `quotas`."""

    jobs: Uint32 | None = None
    flows: Uint32 | None = None
    pins: Uint32 | None = None
    nics: Uint32 | None = None
    vpcs: Uint32 | None = None


class TenantShape(Shape):
    """An entry of `tenants`."""

    nics: Annotated[list[str] | None, WrapValidator(nics_or_all)] = Field(default_factory=list)
    vteps: list[Annotated[Any, PlainValidator(_prefix_v4)]] = Field(default_factory=list)
    public_ips: list[Annotated[Any, PlainValidator(_prefix)]] = Field(default_factory=list)
    vlans: list[Annotated[int, Field(ge=1, le=4094)]] = Field(default_factory=list)
    quotas: QuotasShape = QuotasShape()


class SlurmRuleShape(Shape):
    """An entry of `slurm`: what jobs of an account and a partition send."""

    account: Annotated[str, Field(max_length=128)] = ""
    partition: Annotated[str, Field(max_length=128)] = ""
    collective: Literal[OFFERED_KINDS] = "RING_ALL_REDUCE"  # type: ignore[valid-type]
    bytes: Annotated[int, Field(ge=1, lt=10**18)] = ASSUMED_BYTES
    qps: Annotated[int, Field(ge=1, le=MAX_QPS_PER_FLOW)] = 1
    algorithm: Literal[tuple(Algorithm.__members__)] = "CONTRACT"  # type: ignore[valid-type]


class PolicyShape(Shape):
    """A whole policy file."""

    version: Version = 1
    slurm: Annotated[list[SlurmRuleShape], Field(max_length=MAX_SLURM_RULES)] = Field(default_factory=list)
    users: dict[str, Annotated[str, PlainValidator(_role)]] = Field(default_factory=dict)
    tenants: dict[str, TenantShape] = Field(default_factory=dict)


def fabric_under(policy: str | None, text: str) -> Fabric:
    """Return the fabric of a text that is to follow another one, for which the policy file is read, if there is one.

    Raises InputError where one of them is malformed, or the policy names what the fabric does not have: a controller
    could not begin again.
    """
    fabric = parse_fabric(text, "fabric")
    if policy is not None:
        load_policy(policy, fabric)
    return fabric


def load_policy(path: Path | str, fabric: Fabric) -> Policy:
    """Read a policy file for a fabric; raises InputError with the problems found."""
    name, shape = _read(path)
    found = [problem for tenant, each in shape.tenants.items() for problem in _problems(tenant, each, fabric)]
    if found:
        raise refusal(name, found)
    return Policy(
        tenants={tenant: _policy(each) for tenant, each in shape.tenants.items()},
        users={user: Role(role) for user, role in shape.users.items()},
    )


def load_slurm_rules(path: Path | str) -> tuple[Rule, ...]:
    """Read what Slurm's jobs send from a policy file, for `heddle slurm agent`; raises InputError."""
    kinds = {kind.name: kind for kind in CollectiveKind}
    return tuple(
        Rule(
            each.account,
            each.partition,
            Collective(
                kind=kinds[each.collective],
                size_bytes=each.bytes,
                qps_per_flow=each.qps,
                algorithm=Algorithm[each.algorithm],
            ),
        )
        for each in _read(path)[1].slurm
    )


def _read(path: Path | str) -> tuple[str, PolicyShape]:
    """Return the name of a policy file and what it has; raises InputError."""
    name, value = read_document(path, MAX_SETTINGS_BYTES)
    try:
        return name, PolicyShape.model_validate(value)
    except ValidationError as error:
        raise refusal(name, shape_problems(error, PolicyShape)) from None


def _problems(tenant: str, shape: TenantShape, fabric: Fabric) -> list[Problem]:
    found = []
    try:
        Identity("fabric", Role.TENANT, tenant)
    except ValueError as error:
        found.append(Problem(f"tenants.{tenant}", str(error)))
    for i, nic in enumerate(shape.nics or ()):
        if nic not in fabric.ports_by_rank:
            guess = did_you_mean(nic, fabric.ports_by_rank) if len(found) < 20 else ""
            text = f"no NIC named {shown(nic)} in the fabric{guess or '; `heddle topology` lists its NICs'}"
            found.append(Problem(f"tenants.{tenant}.nics[{i}]", text))
    return found


def _policy(shape: TenantShape) -> TenantPolicy:
    return TenantPolicy(
        nics=None if shape.nics is None else frozenset(shape.nics),
        vteps=tuple(shape.vteps),
        public=tuple(shape.public_ips),
        vlans=frozenset(shape.vlans),
        quota=Quota(**shape.quotas.model_dump()),
    )
