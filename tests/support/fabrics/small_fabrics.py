"""Small fabrics for the lab, written from the contract's numbering and not by the code under test."""

from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch


def spine_leaf(spines: int, leaves: int, hosts: int, bps: int = 20_000_000) -> Fabric:
    """Build spines x leaves with the hosts spread evenly, one NIC each, every link at `bps`."""
    switches = [Switch(id=f"spine{s}", role=Role.SPINE, datapath_id=s) for s in range(1, spines + 1)]
    switches += [Switch(id=f"leaf{n}", role=Role.LEAF, datapath_id=spines + n) for n in range(1, leaves + 1)]
    cables = [
        Cable(lower=PortRef(f"leaf{n}", s), upper=PortRef(f"spine{s}", n), capacity_bps=bps)
        for n in range(1, leaves + 1)
        for s in range(1, spines + 1)
    ]
    per_leaf = hosts // leaves
    nics = [
        Nic(
            id=f"h{h + 1}-n0",
            host=f"h{h + 1}",
            ip=0x0A000001 + h,
            mac=0x020000000001 + h,
            port=PortRef(f"leaf{h // per_leaf + 1}", spines + 1 + h % per_leaf),
            capacity_bps=bps,
        )
        for h in range(hosts)
    ]
    return Fabric(name="small", switches=tuple(switches), cables=tuple(cables), nics=tuple(nics))


def clos3(pods: int, leaves: int, aggs: int, cores: int, bps: int = 20_000_000) -> Fabric:
    """Build a three-tier fabric with one host per leaf."""
    switches = [Switch(id=f"core{c}", role=Role.CORE, datapath_id=c) for c in range(1, cores + 1)]
    cables, nics = [], []
    for pod in range(1, pods + 1):
        switches += [
            Switch(id=f"pod{pod}-agg{a}", role=Role.AGG, datapath_id=100 * pod + a) for a in range(1, aggs + 1)
        ]
        switches += [
            Switch(id=f"pod{pod}-leaf{n}", role=Role.LEAF, datapath_id=100 * pod + 50 + n) for n in range(1, leaves + 1)
        ]
        for n in range(1, leaves + 1):
            cables += [
                Cable(lower=PortRef(f"pod{pod}-leaf{n}", a), upper=PortRef(f"pod{pod}-agg{a}", n), capacity_bps=bps)
                for a in range(1, aggs + 1)
            ]
            number = len(nics)
            nics.append(
                Nic(
                    id=f"h{number + 1}-n0",
                    host=f"h{number + 1}",
                    ip=0x0A000001 + number,
                    mac=0x020000000001 + number,
                    port=PortRef(f"pod{pod}-leaf{n}", aggs + 1),
                    capacity_bps=bps,
                )
            )
        per_agg = cores // aggs
        cables += [
            Cable(
                lower=PortRef(f"pod{pod}-agg{a}", leaves + 1 + i),
                upper=PortRef(f"core{(a - 1) * per_agg + i + 1}", pod),
                capacity_bps=bps,
            )
            for a in range(1, aggs + 1)
            for i in range(per_agg)
        ]
    return Fabric(name="pods", switches=tuple(switches), cables=tuple(cables), nics=tuple(nics))


def rails(bps: int = 20_000_000) -> Fabric:
    """Build two leaves under one spine by two parallel cables each, and two hosts with a NIC on either leaf."""
    switches = (
        Switch(id="spine1", role=Role.SPINE, datapath_id=1),
        Switch(id="leaf1", role=Role.LEAF, datapath_id=2),
        Switch(id="leaf2", role=Role.LEAF, datapath_id=3),
    )
    cables = tuple(
        Cable(lower=PortRef(f"leaf{n}", j), upper=PortRef("spine1", 2 * (n - 1) + j), capacity_bps=bps)
        for n in (1, 2)
        for j in (1, 2)
    )
    nics = tuple(
        Nic(
            id=f"h{h}-n{r}",
            host=f"h{h}",
            ip=0x0A000000 + 10 * r + h,
            mac=0x020000000000 + 10 * r + h,
            port=PortRef(f"leaf{r + 1}", 2 + h),
            capacity_bps=bps,
            rail=r,
        )
        for h in (1, 2)
        for r in (0, 1)
    )
    return Fabric(name="rails", switches=switches, cables=cables, nics=nics)
