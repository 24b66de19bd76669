"""Write out the paths of a sprayed flow."""

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import FlowPlan, PathSet, SetPath
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.rotations import rotations_of
from heddle.controller.planner.ports.steering import port_of_path


def path_set(fabric: Fabric, topology: Topology, flow: FlowPlan) -> PathSet:
    """Return the different paths of a sprayed flow, each with its weight and the source port that selects it.

    The spare bits of the ports are those of the flow's own port.
    """
    rotations, layout = rotations_of(topology), layout_of(fabric)
    assert rotations is not None
    inner = [topology.link_index[link] for link in flow.links[1:-1]]
    number_of: dict[tuple[str, ...], int] = {}
    order = []
    for rotation in flow.entries:
        taken = rotations.links(rotation)[inner].tolist()
        links = (flow.links[0], *(topology.link_ids[link] for link in taken), flow.links[-1])
        order.append(number_of.setdefault(links, len(number_of)))
    paths = tuple(
        SetPath(links, order.count(number), port_of_path(fabric, layout, links, flow.udp_source_port))
        for links, number in number_of.items()
    )
    return PathSet(paths, tuple(order))
