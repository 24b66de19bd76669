"""Build the topology message from a state."""

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.brain.state import State
from controller.model.address import ip_text
from controller.model.fabric import Cable, Nic
from controller.views.measured import link_utilisation
from controller.views.view import link_loads_bps
from foundation.address import mac_text
from telemetry.detection.window import Snapshot


def topology_to(state: State, snapshot: Snapshot | None = None) -> pb.Topology:
    """Return the whole fabric as a message, with measured utilisation where there is a snapshot."""
    loads = link_loads_bps(state)
    fabric = state.fabric
    found = pb.Topology(
        generation=state.topology_generation,
        switches=[
            pb.Switch(
                id=switch.id,
                role=switch.role.value,
                datapath_id=switch.datapath_id,
                connected=state.switches[switch.id].connected,
                drained=switch.id in state.drained,
                rules=_held(state, switch.id),
            )
            for switch in fabric.switches
        ],
        links=[link for cable in fabric.cables for link in _cable_links(state, cable, loads)]
        + [link for nic in fabric.nics for link in _nic_links(state, nic, loads)],
        nics=[_nic(nic) for nic in fabric.nics],
    )
    if snapshot is not None:
        _add_measured(found, link_utilisation(fabric, snapshot))
    return found


def _add_measured(topology: pb.Topology, utilisation: dict[str, float]) -> None:
    for link in topology.links:
        if (measured := utilisation.get(link.id)) is not None:
            link.measured_utilisation, link.measured = measured, True


def _held(state: State, switch: str) -> int:
    """Return the number of rules a switch holds; 0 while unknown."""
    installed = state.switches[switch].installed
    return len(installed.rules) if installed else 0


def _cable_links(state: State, cable: Cable, loads: dict[str, int]) -> tuple[pb.Link, pb.Link]:
    health = state.health
    ends = {cable.lower.switch, cable.upper.switch}
    up = cable.id not in health.down_cables and ends.isdisjoint(health.down_switches)
    directions = ((cable.up_link, cable.lower, cable.upper), (cable.down_link, cable.upper, cable.lower))
    drained = cable.id in state.drained or not ends.isdisjoint(state.drained)
    first, second = (_link(link, str(src), str(dst), cable.capacity_bps, up, loads) for link, src, dst in directions)
    first.drained = second.drained = drained
    return first, second


def _nic_links(state: State, nic: Nic, loads: dict[str, int]) -> tuple[pb.Link, pb.Link]:
    up = nic.id not in state.out_of_use.down_nics and nic.port.switch not in state.health.down_switches
    return (
        _link(nic.up_link, nic.id, str(nic.port), nic.capacity_bps, up, loads),
        _link(nic.down_link, str(nic.port), nic.id, nic.capacity_bps, up, loads),
    )


def _link(link: str, src: str, dst: str, capacity_bps: int, up: bool, loads: dict[str, int]) -> pb.Link:
    utilisation = loads.get(link, 0) / capacity_bps
    return pb.Link(id=link, src=src, dst=dst, capacity_bps=capacity_bps, up=up, planned_utilisation=utilisation)


def _nic(nic: Nic) -> pb.Nic:
    return pb.Nic(
        id=nic.id,
        host=nic.host,
        ip=ip_text(nic.ip),
        mac=mac_text(nic.mac),
        leaf_port=str(nic.port),
        capacity_bps=nic.capacity_bps,
        rail=nic.rail,
        network=nic.network,
    )
