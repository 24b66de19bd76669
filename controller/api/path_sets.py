"""Write the path sets of sprayed flows path by path; clients import `translate.py`, which needs no planner, instead."""

from heddle.controller.api.translate import Explicit
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.srv6 import sids_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.spread.explicit import path_set
from heddle.v1 import heddle_pb2 as pb


def every_path(fabric: Fabric) -> Explicit:
    """Return what writes every path of a flow, with the source port or the address that selects it."""
    topology, sids = topology_of(fabric), sids_of(fabric)

    def write(flow: FlowPlan) -> pb.PathSet:
        found = path_set(fabric, topology, flow)
        message = pb.PathSet(entries=len(found.order), order=found.order, rotations=flow.entries)
        for links, weight, port in found.paths:
            sid = None if sids is None else ipv6_text(sids.destination(links, flow.dst_nic))
            message.paths.add(links=links, weight=weight, udp_source_port=0 if sids else port, sid=sid)
        return message

    return write
