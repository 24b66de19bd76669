"""NICs with several ports, as the contract has them: the planes, and how a flow is split among them."""

from fractions import Fraction


def planes_of(roles, cables):
    """Return the plane of each switch: its component, numbered in the order of the switches."""
    near = {name: set() for name in roles}
    for cable in cables:
        one, other = (port.rsplit(":", 1)[0] for port in cable)
        near[one].add(other)
        near[other].add(one)
    found = {}
    for name in roles:
        if name not in found:
            part, number = {name}, len(set(found.values()))
            while more := set().union(*(near[each] for each in part)) - part:
                part |= more
            found |= dict.fromkeys(part, number)
    return found


def generated(fabric, planes):
    """Return `planes` copies of a generated fabric (switches, cables, nics), each NIC with a port in every one."""
    switches, cables, nics = fabric
    if planes == 1:
        return fabric
    found = (
        {f"p{p}-{name}": value for p in range(planes) for name, value in switches.items()},
        {tuple(f"p{p}-{port}" for port in cable) for p in range(planes) for cable in cables},
        {
            f"{name}/p{p}": {**nic, "port": f"p{p}-{nic['port']}", "of": name, "plane": p}
            for name, nic in nics.items()
            for p in range(planes)
        },
    )
    return found


def split(network, source, target):
    """Return (port, port, part of the demand) in each plane of two NICs, in order of planes."""
    pairs = _pairs(network, source, target)
    each = [_left(network, *pair) for pair in pairs]
    whole = sum(each)
    return [(*pair, one / whole if whole else Fraction(1, len(pairs))) for pair, one in zip(pairs, each, strict=True)]


def left(network, source, target):
    """Return what all planes have left for a flow between two NICs."""
    return sum(_left(network, *pair) for pair in _pairs(network, source, target))


def _pairs(network, source, target):
    here = {network.nics[port]["plane"]: port for port in network.ports[source]}
    there = {network.nics[port]["plane"]: port for port in network.ports[target]}
    return [(here[plane], there[plane]) for plane in sorted(here.keys() & there.keys())]


def rate(network, nic):
    """Return the rate of a NIC: of its ports in use, but for those of leaves whose links up have all failed.

    That of all its ports where none is left.
    """
    found = 0
    for port in network.ports[nic]:
        up = [link for link in network.switch_links if network.ends[link][0] == network.leaf(port)]
        if _in_use(network, port) and not (up and network.dead.issuperset(up)):
            found += network.nics[port]["bps"]
    return found or sum(network.nics[port]["bps"] for port in network.ports[nic])


def _in_use(network, port):
    return f"{port}>{network.nics[port]['port']}" not in network.dead


def _left(network, one, other):
    if not (_in_use(network, one) and _in_use(network, other)):
        return Fraction(0)
    leaves, pods = (network.leaf(one), network.leaf(other)), network.pods()
    if leaves[0] != leaves[1] and not _joined(network, *leaves):
        return Fraction(0)
    part = Fraction(1)
    for leaf in leaves if leaves[0] != leaves[1] else ():
        part = min(part, _carried(network, {leaf}, lambda link: True))
    for leaf in leaves if pods[leaves[0]] != pods[leaves[1]] else ():
        pod = {switch for switch, number in pods.items() if number == pods[leaf]}
        part = min(part, _carried(network, pod, lambda link: network.ends[link][1] not in pods))
    return part * min(network.nics[one]["bps"], network.nics[other]["bps"])


def _carried(network, switches, wanted):
    """Return how much of the rates of all NICs on these switches live links up out of them carry."""
    up = [link for link in network.alive if network.ends[link][0] in switches and network.rises(link) and wanted(link)]
    asked = sum(nic["bps"] for name, nic in network.nics.items() if network.leaf(name) in switches)
    return Fraction(sum(network.capacity[link] for link in up), asked)


def _joined(network, one, other):
    """Return whether some switch is above both leaves over live links."""
    above = []
    for leaf in (one, other):
        found, waiting = {leaf}, [leaf]
        while waiting:
            at = waiting.pop()
            more = {
                network.ends[link][1] for link in network.alive if network.ends[link][0] == at and network.rises(link)
            }
            waiting += more - found
            found |= more
        above.append(found)
    return bool(above[0] & above[1])
