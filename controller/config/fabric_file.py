"""The schema of the fabric file as pydantic models; docs/files.md describes its keys."""

from ipaddress import IPv6Network
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from heddle.controller.config.text.field import (
    CableRate,
    Id,
    Ip,
    Mac,
    NicRate,
    Port,
    Shape,
    Uint32,
    Uint64,
    Version,
    refuse,
)
from heddle.controller.model.fabric import DEFAULT_STEERING, SteeredBy
from heddle.controller.model.limit import MAX_PATHS_PER_FLOW, MAX_PLANES
from heddle.controller.model.port_layout import PORT_BITS
from heddle.controller.model.srv6_settings import DEFAULT_SRV6, LastHop, Style
from heddle.foundation.network import Network

Count = Annotated[int, Field(ge=1)]
Choices = Annotated[int, Field(ge=0, le=1 << PORT_BITS)]
Paths = Annotated[int, Field(ge=1, le=MAX_PATHS_PER_FLOW)]


class GenerateShape(Shape):
    """The key `generate`: the sizes of a regular fabric."""

    kind: Literal["spine_leaf", "rail_optimised", "clos3"]
    spines: Count
    leaves: Count
    hosts_per_leaf: Annotated[int, Field(ge=0)]
    pods: Count | None = None
    aggs_per_pod: Count | None = None
    nics_per_host: Count = 1
    links_per_spine: Count = 1
    nic_bps: NicRate = Field(default=100 * 10**9, alias="gbps")
    uplink_bps: CableRate | None = Field(default=None, alias="uplink_gbps")
    hosts_per_nvlink_domain: Count | None = None
    planes: Annotated[int, Field(ge=1, le=MAX_PLANES)] = 1
    paths_per_flow: Paths = 1


class SwitchShape(Shape):
    """An entry of `switches`."""

    id: Id
    role: Literal["leaf", "agg", "spine", "core"]
    datapath_id: Annotated[int, Field(ge=1, le=2**64 - 1)] | None = None
    rule_budget: Uint64 | None = None


class LinkShape(Shape):
    """An entry of `links`."""

    a: Port
    b: Port
    capacity_bps: CableRate = Field(alias="gbps")


class PortShape(Shape):
    """An entry of a NIC's `ports`; `plane` where the switches do not say in which it is."""

    port: Port
    capacity_bps: NicRate = Field(alias="gbps")
    ip: Ip | None = None
    mac: Mac | None = None
    plane: Annotated[int, Field(ge=0, le=MAX_PLANES - 1)] | None = None


class NicShape(Shape):
    """An entry of a host's `nics`: with `port` and `gbps`, or with `ports`."""

    id: Id
    ip: Ip
    mac: Mac | None = None
    ports: Annotated[list[PortShape], Field(min_length=1)] | None = None
    port: Port | None
    capacity_bps: NicRate | None = Field(alias="gbps")
    rail: Uint32 = 0
    network: Literal[tuple(one.value for one in Network)] = Network.COMPUTE.value  # type: ignore[valid-type]
    gpus: list[Uint32] = Field(default_factory=list)
    paths_per_flow: Paths = 1

    @model_validator(mode="before")
    @classmethod
    def _with_both(cls, value: object) -> object:
        """Let an absent key be null, so that it is reported with all other problems of the file."""
        return {"port": None, "gbps": None, **value} if isinstance(value, dict) else value

    @field_validator("port", "capacity_bps")
    @classmethod
    def _either(cls, value: object, info: ValidationInfo) -> object:
        """Refuse an absent key, or one that `ports` replaces; where `ports` is wrong itself, it alone is reported."""
        ports = info.data.get("ports", ...)
        if ports is None and value is None:
            raise PydanticKnownError("missing")
        if ports is not None and value is not None:
            refuse("not beside `ports`, of which each has its own; leave it out")
        return value


class HostShape(Shape):
    """An entry of `hosts`."""

    id: Id
    nvlink_domain: Id | None = None
    nics: Annotated[list[NicShape], Field(min_length=1)]


class ReserveShape(Shape):
    """The key `reserve`: the numbers of cables of a switch that source ports have room for, at least."""

    leaf_uplinks: Choices = 0
    agg_uplinks: Choices = 0
    parallel_cables: Choices = 0


class Srv6Shape(Shape):
    """The key `srv6`: how packets name their paths with `steering: srv6`."""

    block: str = str(IPv6Network((DEFAULT_SRV6.block << 96, 32)))
    style: Literal[tuple(each.value for each in Style)] = DEFAULT_SRV6.style.value  # type: ignore[valid-type]
    last_hop: Literal[tuple(each.value for each in LastHop)] = DEFAULT_SRV6.last_hop.value  # type: ignore[valid-type]


class FabricShape(Shape):
    """A whole fabric file."""

    version: Version = 1
    name: Id = "fabric"
    generate: GenerateShape | None = None
    switches: list[SwitchShape] = Field(default_factory=list)
    links: list[LinkShape] = Field(default_factory=list)
    hosts: list[HostShape] = Field(default_factory=list)
    failed: list[str] = Field(default_factory=list)
    reserve: ReserveShape | None = None
    steering: Literal[tuple(each.value for each in SteeredBy)] = DEFAULT_STEERING.value  # type: ignore[valid-type]
    port_addresses: dict[str, str] = Field(default_factory=dict)
    srv6: Srv6Shape | None = None
