"""Fabrics for the tests of the rules, made of model values alone."""

from collections.abc import Sequence

from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch

GBPS = 10**9
FIRST_IP = 0x0A000001


class Builder:
    """Collects switches, cables and NICs; ports are numbered as they come."""

    def __init__(self) -> None:
        self.switches: list[Switch] = []
        self.cables: list[Cable] = []
        self.nics: list[Nic] = []
        self.ports: dict[str, int] = {}

    def switch(self, name: str, role: Role) -> str:
        self.switches.append(Switch(id=name, role=role, datapath_id=len(self.switches) + 1))
        self.ports[name] = 0
        return name

    def port(self, switch: str) -> PortRef:
        self.ports[switch] += 1
        return PortRef(switch, self.ports[switch])

    def cable(self, lower: str, upper: str, gbps: int = 100) -> None:
        self.cables.append(Cable(lower=self.port(lower), upper=self.port(upper), capacity_bps=gbps * GBPS))

    def nic(self, leaf: str, ip: int | None = None) -> None:
        number = len(self.nics) + 1
        address = FIRST_IP + number - 1 if ip is None else ip
        host = f"h{number}"
        nic = Nic(id=f"{host}-n0", host=host, ip=address, mac=number, port=self.port(leaf), capacity_bps=100 * GBPS)
        self.nics.append(nic)

    def fabric(self) -> Fabric:
        return Fabric(name="t", switches=tuple(self.switches), cables=tuple(self.cables), nics=tuple(self.nics))


def spine_leaf(
    spines: int,
    leaves: int,
    nics_per_leaf: int = 2,
    links_per_spine: int = 1,
    gbps: Sequence[int] = (100,),
    ips: Sequence[int] | None = None,
) -> Fabric:
    """Spine s has cables of rate gbps[s mod len]; `ips`, where given, are dealt leaf by leaf."""
    build = Builder()
    spine_ids = [build.switch(f"spine{s + 1}", Role.SPINE) for s in range(spines)]
    leaf_ids = [build.switch(f"leaf{number + 1}", Role.LEAF) for number in range(leaves)]
    for leaf in leaf_ids:
        for s, spine in enumerate(spine_ids):
            for _ in range(links_per_spine):
                build.cable(leaf, spine, gbps[s % len(gbps)])
    for leaf in leaf_ids:
        for _ in range(nics_per_leaf):
            build.nic(leaf, None if ips is None else ips[len(build.nics)])
    return build.fabric()


def rail(groups: int, rails: int, hosts_per_group: int, spines: int) -> Fabric:
    """Every host has a NIC on each leaf of its group; addresses count host by host, so every leaf's are interleaved."""
    build = Builder()
    spine_ids = [build.switch(f"spine{s + 1}", Role.SPINE) for s in range(spines)]
    leaf_ids = [build.switch(f"leaf{number + 1}", Role.LEAF) for number in range(groups * rails)]
    for leaf in leaf_ids:
        for spine in spine_ids:
            build.cable(leaf, spine)
    for group in range(groups):
        for _ in range(hosts_per_group):
            for r in range(rails):
                build.nic(leaf_ids[group * rails + r])
    return build.fabric()


def clos3(
    pods: int,
    leaves: int,
    aggs: int,
    cores_per_agg: int,
    nics_per_leaf: int = 1,
    core_links: int = 1,
    agg_links: int = 1,
    meshed: bool = False,
    ips: Sequence[int] | None = None,
) -> Fabric:
    """A core leads to one agg of every pod, or `meshed` to all of them.

    `core_links` and `agg_links` are parallel cables agg-core and leaf-agg.
    """
    build = Builder()
    cores = [build.switch(f"core{c + 1}", Role.CORE) for c in range(aggs * cores_per_agg)]
    agg_ids = [[build.switch(f"pod{p + 1}-agg{a + 1}", Role.AGG) for a in range(aggs)] for p in range(pods)]
    leaf_ids = [[build.switch(f"pod{p + 1}-leaf{i + 1}", Role.LEAF) for i in range(leaves)] for p in range(pods)]
    for p in range(pods):
        for leaf in leaf_ids[p]:
            for agg in agg_ids[p]:
                for _ in range(agg_links):
                    build.cable(leaf, agg)
        for a, agg in enumerate(agg_ids[p]):
            for core in cores if meshed else cores[a * cores_per_agg : (a + 1) * cores_per_agg]:
                for _ in range(core_links):
                    build.cable(agg, core)
    for pod in leaf_ids:
        for leaf in pod:
            for _ in range(nics_per_leaf):
                build.nic(leaf, None if ips is None else ips[len(build.nics)])
    return build.fabric()
