"""Read the fabric of a running controller from its topology message."""

from heddle.controller.model.address import parse_ip, parse_mac
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.foundation.network import Network
from heddle.v1 import heddle_pb2 as pb


def fabric_of(topology: pb.Topology) -> Fabric:
    """Return the fabric of a topology message, with the fields that a jobs file needs."""
    switches = tuple(
        Switch(id=switch.id, role=Role(switch.role), datapath_id=switch.datapath_id) for switch in topology.switches
    )
    tiers = {switch.id: switch.role.tier for switch in switches}
    cables = []
    for link in topology.links:
        if ":" in link.src and ":" in link.dst:
            src, dst = _port(link.src), _port(link.dst)
            if tiers[src.switch] < tiers[dst.switch]:
                cables.append(Cable(lower=src, upper=dst, capacity_bps=link.capacity_bps))
    return Fabric(
        name="running", switches=switches, cables=tuple(cables), nics=tuple(_nic(nic) for nic in topology.nics)
    )


def _port(text: str) -> PortRef:
    switch, number = text.rsplit(":", 1)
    return PortRef(switch, int(number))


def _nic(nic: pb.Nic) -> Nic:
    return Nic(
        id=nic.id,
        host=nic.host,
        ip=parse_ip(nic.ip),
        mac=parse_mac(nic.mac),
        port=_port(nic.leaf_port),
        capacity_bps=nic.capacity_bps,
        rail=nic.rail,
        nvlink_domain=nic.nvlink_domain,
        network=Network(nic.network),
        of=nic.of,
        plane=nic.plane,
        paths_per_flow=max(nic.paths_per_flow, 1),
    )
