"""Make fabrics: from a file, from sizes, and from the topology files of other programs."""

from collections.abc import Mapping
from pathlib import Path

from heddle.controller.config.foreign import FORMATS, Hint, Options
from heddle.controller.config.foreign import import_fabric as imported
from heddle.controller.config.load import fabric_of
from heddle.controller.config.text.complaint import one_line
from heddle.controller.config.text.document import Document
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.limit import MAX_CABLE_BPS, MAX_NIC_BPS

ROLES = ("host", "leaf", "spine", "core")


def spine_leaf(
    *,
    spines: int,
    leaves: int,
    hosts_per_leaf: int,
    nics_per_host: int = 1,
    links_per_spine: int = 1,
    gbps: float = 100,
    uplink_gbps: float | None = None,
    planes: int = 1,
    name: str = "fabric",
) -> Fabric:
    """Generate a two-tier fabric: every leaf has `links_per_spine` cables to every spine.

    Hosts are `h1`, `h2`, … leaf by leaf, their NICs `h1-n0`, `h1-n1`, …; switches are `spine1`, … and `leaf1`, ….
    `gbps` is the rate of a NIC in Gbit/s, `uplink_gbps` that of a cable between switches (default: `gbps`). With
    several `planes` there are as many such fabrics, and each NIC has a port in every one. Raises InputError for sizes
    out of range.
    """
    sizes = {"spines": spines, "leaves": leaves, "hosts_per_leaf": hosts_per_leaf, "nics_per_host": nics_per_host}
    sizes |= {"links_per_spine": links_per_spine, "planes": planes}
    return _generated("spine_leaf", name, gbps, uplink_gbps, sizes)


def rail_optimised(
    *,
    spines: int,
    leaves: int,
    hosts_per_leaf: int,
    nics_per_host: int,
    links_per_spine: int = 1,
    gbps: float = 100,
    uplink_gbps: float | None = None,
    hosts_per_nvlink_domain: int | None = None,
    planes: int = 1,
    name: str = "fabric",
) -> Fabric:
    """Generate a two-tier fabric in which NIC r of every host is on a leaf for rail r.

    `leaves` is a multiple of `nics_per_host`; names and rates are those of `spine_leaf`. Hosts share NVLink domains of
    `hosts_per_nvlink_domain` hosts each (default: no domain is named). Raises InputError for sizes out of range.
    """
    sizes = {"spines": spines, "leaves": leaves, "hosts_per_leaf": hosts_per_leaf, "nics_per_host": nics_per_host}
    sizes |= {"links_per_spine": links_per_spine, "planes": planes}
    if hosts_per_nvlink_domain is not None:
        sizes["hosts_per_nvlink_domain"] = hosts_per_nvlink_domain
    return _generated("rail_optimised", name, gbps, uplink_gbps, sizes)


def clos3(
    *,
    pods: int,
    aggs_per_pod: int,
    leaves_per_pod: int,
    cores: int,
    hosts_per_leaf: int,
    nics_per_host: int = 1,
    gbps: float = 100,
    uplink_gbps: float | None = None,
    planes: int = 1,
    name: str = "fabric",
) -> Fabric:
    """Generate a three-tier fabric: each aggregation switch of a pod reaches its own plane of cores.

    `cores` is a multiple of `aggs_per_pod`. Switches are `core1`, …, `pod1-agg1`, … and `pod1-leaf1`, …; hosts, NICs
    and rates are those of `spine_leaf`. Raises InputError for sizes out of range.
    """
    sizes = {"pods": pods, "aggs_per_pod": aggs_per_pod, "leaves": leaves_per_pod, "spines": cores}
    sizes |= {"hosts_per_leaf": hosts_per_leaf, "nics_per_host": nics_per_host}
    return _generated("clos3", name, gbps, uplink_gbps, {**sizes, "planes": planes})


def _generated(
    kind: str, name: str, gbps: float, uplink_gbps: float | None, sizes: Mapping[str, int]
) -> Fabric:  # fmt: skip
    """Return the fabric of a `generate` key; problems are reported under its kind."""
    shape: dict[str, object] = {"kind": kind, **sizes, "gbps": gbps}
    if uplink_gbps is not None:
        shape["uplink_gbps"] = uplink_gbps
    return fabric_of(Document(kind, {"version": 1, "name": name, "generate": shape}))


def import_fabric(
    path: Path | str,
    *,
    format_name: str | None = None,
    gbps: float = 100.0,
    uplink_gbps: float | None = None,
    aggs_per_pod: int = 1,
    cores: int | None = None,
    roles: Mapping[str, str] | None = None,
) -> Fabric:
    """Import a topology file of another program, as `heddle import` does.

    Formats are lingjun, simai, hpcc, htsim, batfish, hedgehog and containerlab, detected by content where
    `format_name` is None. `gbps` and `uplink_gbps` are rates in Gbit/s for links that the file gives none,
    `aggs_per_pod` and `cores` are for lingjun alone, `roles` has host, leaf, spine or core by the name of a node that
    the file leaves open. Raises InputError with one line that names the place.
    """
    if format_name is not None and format_name not in FORMATS:
        raise InputError(f"format_name {one_line(format_name)}: must be one of {', '.join(FORMATS)}")
    for node, role in (roles or {}).items():
        if role not in ROLES:
            raise InputError(
                f"roles: {one_line(node)} has the role {one_line(role)}: must be one of {', '.join(ROLES)}"
            )
    nic_bps = bits_per_second("gbps", gbps, MAX_NIC_BPS)
    uplink_bps = None if uplink_gbps is None else bits_per_second("uplink_gbps", uplink_gbps, MAX_CABLE_BPS)
    hints = {node: Hint(role) for node, role in (roles or {}).items()}
    return imported(path, Options(nic_bps, uplink_bps, aggs_per_pod, cores, hints), format_name).fabric


def bits_per_second(name: str, gbps: float, max_bps: int) -> int:
    """Return a rate in Gbit/s as bit/s; raises InputError under `name` where it is out of range."""
    if not 0 < gbps * 10**9 <= max_bps or round(gbps * 10**9) < 1:
        raise InputError(f"{name} {gbps:g}: must be more than 0 and at most {max_bps // 10**9:,} Gbit/s")
    return round(gbps * 10**9)
