"""Generate the three regular fabrics of the contract from their sizes: ids, ports, addresses and datapath ids.

Limits are checked by arithmetic before anything is generated. Numbers in comments and names count from 1 as in
the contract; loops count from 0.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from heddle.controller.config.fabric_file import GenerateShape
from heddle.controller.config.text.complaint import shown
from heddle.controller.model.admission import Problem
from heddle.controller.model.fabric import Cable, Nic, PortRef, Role, Switch
from heddle.controller.model.limit import MAX_CABLES, MAX_NICS, MAX_PORT_NUMBER, MAX_SWITCHES

FIRST_IP = 10 << 24
FIRST_MAC = 0x02_00_00_00_00_00


class Parts(NamedTuple):
    """The parts of a fabric: switches in the order of their datapath ids, NICs host by host."""

    switches: list[Switch]
    cables: list[Cable]
    nics: list[Nic]


class Sizes(NamedTuple):
    """How many switches, NICs and cables a `generate` stands for, and the ports of its largest switch."""

    switches: int
    nics: int
    cables: int
    max_ports: int


def generate(shape: GenerateShape) -> Parts:
    """Generate the fabric of a `generate` for which `generate_problems` is empty."""
    one = _one_plane(shape)
    return one if shape.planes == 1 else _in_planes(one, shape.planes)


def port_id(nic: str, at: int) -> str:
    """Return the id of a NIC's port, which counts from 0."""
    return f"{nic}/p{at}"


def _in_planes(one: Parts, planes: int) -> Parts:
    """Return so many copies of a fabric, whose switches have prefixes, under the hosts of one; each NIC is in all.

    Addresses count NIC by NIC, those of its ports in a row.
    """
    switches, cables = [], []
    for plane in range(planes):
        first = plane * len(one.switches)
        switches += [
            replace(each, id=f"p{plane}-{each.id}", datapath_id=first + each.datapath_id) for each in one.switches
        ]
        cables += [replace(each, lower=_at(plane, each.lower), upper=_at(plane, each.upper)) for each in one.cables]
    nics = [
        replace(
            nic, id=port_id(nic.id, plane), of=nic.id, plane=plane, port=_at(plane, nic.port),
            ip=FIRST_IP + (nic.ip - FIRST_IP - 1) * planes + plane + 1,
            mac=FIRST_MAC + (nic.mac - FIRST_MAC - 1) * planes + plane + 1,
        )
        for nic in one.nics
        for plane in range(planes)
    ]  # fmt: skip
    return Parts(switches, cables, nics)


def _at(plane: int, port: PortRef) -> PortRef:
    return PortRef(f"p{plane}-{port.switch}", port.number)


def _one_plane(shape: GenerateShape) -> Parts:
    """Generate the fabric of a `generate`, its planes left aside."""
    uplink_bps = shape.nic_bps if shape.uplink_bps is None else shape.uplink_bps
    if shape.kind == "clos3":
        return _clos3(shape, uplink_bps)
    switches = _named("spine", shape.spines, Role.SPINE, 1) + _named("leaf", shape.leaves, Role.LEAF, 1 + shape.spines)
    cables = _two_tier_cables(shape, uplink_bps)
    rail = shape.kind == "rail_optimised"
    return Parts(
        switches, cables, _rail_nics(shape) if rail else _leaf_nics(shape, switches[shape.spines :], _uplinks(shape))
    )


def generate_problems(shape: GenerateShape) -> list[Problem]:
    """Return the problems of the sizes, without generating anything."""
    found = list(_foreign_keys(shape))
    if shape.kind == "clos3" and shape.aggs_per_pod and shape.spines % shape.aggs_per_pod:
        spines, aggs = shown(shape.spines), shown(shape.aggs_per_pod)
        found.append(
            Problem(
                "generate.spines",
                f"{spines} cores must be a multiple of aggs_per_pod ({aggs}): each agg has its own cores",
            )
        )
    if shape.kind == "rail_optimised" and shape.leaves % shape.nics_per_host:
        leaves, rails = shown(shape.leaves), shown(shape.nics_per_host)
        found.append(
            Problem("generate.leaves", f"{leaves} must be a multiple of nics_per_host ({rails}): a leaf per rail")
        )
    return found or _size_problems(sizes_of(shape))


def _foreign_keys(shape: GenerateShape) -> Iterator[Problem]:
    """Yield a problem for each key that belongs to another kind of fabric.

    `pods: 1` and `links_per_spine: 1` describe every kind and pass. `aggs_per_pod` passes under spine_leaf, where it
    has no effect: the contract's own example has it there.
    """
    if shape.kind == "clos3":
        for key in ("pods", "aggs_per_pod"):
            if getattr(shape, key) is None:
                yield Problem(f"generate.{key}", "missing, clos3 requires it")
        if shape.links_per_spine != 1:
            yield Problem("generate.links_per_spine", "not in clos3, which has single cables; leave it out")
        return
    if shape.pods not in (None, 1):
        yield Problem("generate.pods", f"for clos3 only, not for {shape.kind}; leave it out")


def sizes_of(shape: GenerateShape) -> Sizes:
    """Count the parts of the fabric, without generating them."""
    one, planes = _sizes_of_one_plane(shape), shape.planes
    return Sizes(one.switches * planes, one.nics * planes, one.cables * planes, one.max_ports)


def _sizes_of_one_plane(shape: GenerateShape) -> Sizes:
    if shape.kind == "clos3":
        pods, aggs, cores = shape.pods or 1, shape.aggs_per_pod or 1, shape.spines
        nics_of_leaf = shape.hosts_per_leaf * shape.nics_per_host
        return Sizes(
            switches=cores + pods * (aggs + shape.leaves),
            nics=pods * shape.leaves * nics_of_leaf,
            cables=pods * (shape.leaves * aggs + cores),
            max_ports=max(aggs + nics_of_leaf, shape.leaves + cores // aggs, pods),
        )
    nics_of_leaf = shape.hosts_per_leaf * (1 if shape.kind == "rail_optimised" else shape.nics_per_host)
    return Sizes(
        switches=shape.spines + shape.leaves,
        nics=shape.leaves * nics_of_leaf,
        cables=shape.leaves * _uplinks(shape),
        max_ports=max(_uplinks(shape) + nics_of_leaf, shape.leaves * shape.links_per_spine),
    )


def _size_problems(sizes: Sizes) -> list[Problem]:
    """Return the first limit that is exceeded; a fabric beyond one is often beyond several."""
    limits = (
        (sizes.switches, MAX_SWITCHES, "switches"),
        (sizes.nics, MAX_NICS, "NICs"),
        (sizes.cables, MAX_CABLES, "switch-to-switch links"),
        (sizes.max_ports, MAX_PORT_NUMBER, "ports on one switch"),
    )
    for count, limit, what in limits:
        if count > limit:
            return [
                Problem("generate", f"makes {shown(count)} {what}, at most {limit} are allowed; choose smaller sizes")
            ]
    return []


def _uplinks(shape: GenerateShape) -> int:
    return shape.spines * shape.links_per_spine


def _named(prefix: str, count: int, role: Role, first_datapath_id: int) -> list[Switch]:
    return [Switch(id=f"{prefix}{i + 1}", role=role, datapath_id=first_datapath_id + i) for i in range(count)]


def _two_tier_cables(shape: GenerateShape, uplink_bps: int) -> list[Cable]:
    """Connect leaf port (s-1) x links_per_spine + j to spine s, spine port (l-1) x links_per_spine + j to leaf l."""
    parallel = shape.links_per_spine
    spines = [f"spine{s + 1}" for s in range(shape.spines)]
    return [
        Cable(
            lower=PortRef(leaf, s * parallel + j),
            upper=PortRef(spine, above + j),
            capacity_bps=uplink_bps,
        )
        for leaf, above in ((f"leaf{i + 1}", i * parallel) for i in range(shape.leaves))
        for s, spine in enumerate(spines)
        for j in range(1, parallel + 1)
    ]


def _leaf_nics(shape: GenerateShape, leaves: list[Switch], uplinks: int) -> list[Nic]:
    """Attach hosts leaf by leaf; their NICs take the ports after the uplinks, all NICs of a host in a row."""
    hosts, rails = shape.hosts_per_leaf, shape.nics_per_host
    return [
        _nic(shape, host=leaf * hosts + i, rail=r, port=PortRef(switch.id, uplinks + i * rails + r + 1))
        for leaf, switch in enumerate(leaves)
        for i in range(hosts)
        for r in range(rails)
    ]


def _rail_nics(shape: GenerateShape) -> list[Nic]:
    """Attach NIC r of the i-th host of group g to the group's leaf r+1, port U + i; addresses count leaf by leaf."""
    hosts, rails, uplinks = shape.hosts_per_leaf, shape.nics_per_host, _uplinks(shape)
    return [
        _nic(
            shape,
            host=group * hosts + i,
            rail=r,
            port=PortRef(f"leaf{group * rails + r + 1}", uplinks + i + 1),
            ip=FIRST_IP + (group * rails + r) * hosts + i + 1,
        )
        for group in range(shape.leaves // rails)
        for i in range(hosts)
        for r in range(rails)
    ]


def _nic(shape: GenerateShape, *, host: int, rail: int, port: PortRef, ip: int | None = None) -> Nic:
    number = host * shape.nics_per_host + rail + 1
    name, per_domain = f"h{host + 1}", shape.hosts_per_nvlink_domain
    return Nic(
        id=f"{name}-n{rail}",
        host=name,
        ip=FIRST_IP + number if ip is None else ip,
        mac=FIRST_MAC + number,
        port=port,
        capacity_bps=shape.nic_bps,
        rail=rail,
        gpus=(rail,),
        nvlink_domain=f"nvl{host // per_domain + 1}" if per_domain else "",
        paths_per_flow=shape.paths_per_flow,
    )


def _clos3(shape: GenerateShape, uplink_bps: int) -> Parts:
    pods, aggs, leaves, cores = shape.pods or 1, shape.aggs_per_pod or 1, shape.leaves, shape.spines
    core_switches = _named("core", cores, Role.CORE, 1)
    agg_switches: list[Switch] = []
    leaf_switches: list[Switch] = []
    for pod in range(1, pods + 1):
        agg_switches += _named(f"pod{pod}-agg", aggs, Role.AGG, 1 + cores + len(agg_switches))
    for pod in range(1, pods + 1):
        first = 1 + cores + pods * aggs + len(leaf_switches)
        leaf_switches += _named(f"pod{pod}-leaf", leaves, Role.LEAF, first)
    cables = [cable for pod in range(1, pods + 1) for cable in _pod_cables(pod, aggs, leaves, cores, uplink_bps)]
    return Parts(core_switches + agg_switches + leaf_switches, cables, _leaf_nics(shape, leaf_switches, aggs))


def _pod_cables(pod: int, aggs: int, leaves: int, cores: int, uplink_bps: int) -> Iterator[Cable]:
    """Connect leaf port a to agg a, agg port l to leaf l, agg a's ports L+1 ... to its cores, core port p to pod p."""
    for leaf in range(1, leaves + 1):
        for agg in range(1, aggs + 1):
            lower, upper = PortRef(f"pod{pod}-leaf{leaf}", agg), PortRef(f"pod{pod}-agg{agg}", leaf)
            yield Cable(lower=lower, upper=upper, capacity_bps=uplink_bps)
    plane = cores // aggs
    for agg in range(1, aggs + 1):
        for c in range(1, plane + 1):
            lower, upper = PortRef(f"pod{pod}-agg{agg}", leaves + c), PortRef(f"core{(agg - 1) * plane + c}", pod)
            yield Cable(lower=lower, upper=upper, capacity_bps=uplink_bps)
