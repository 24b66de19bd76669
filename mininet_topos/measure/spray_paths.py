"""The paths of sprayed flows of a plan, as NICs take them; and those of their ACKs, which the plan leaves to hosts."""

import zlib
from collections.abc import Callable

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.srv6 import sids_of
from heddle.mininet_topos.measure.flow_run import SprayPath
from heddle.v1 import heddle_pb2 as pb

MAX_REVERSE_PATHS = 4
_PORTS, _FIRST_PORT = 0x4000, 0xC000

Paths = tuple[tuple[SprayPath, ...], tuple[SprayPath, ...]]
"""The paths of data and of ACKs; both empty for a flow that does not spray."""
PathsOf = Callable[[pb.FlowPlan], Paths]


def no_paths(_flow: pb.FlowPlan) -> Paths:
    """Return no paths: flows take the one that their port or SID names."""
    return (), ()


def paths_on(fabric: Fabric) -> PathsOf:
    """Return the function that gives the paths of a flow with a path set. ACKs go back over the same cables."""
    sids = sids_of(fabric)

    def paths(flow: pb.FlowPlan) -> Paths:
        listed = flow.path_set.paths
        there = [(path.sid, path.udp_source_port, path.weight) for path in listed]
        if not there:
            return (), ()
        if sids is None:
            return _with_ports(there), (SprayPath(flow.reverse_udp_source_port),)
        back = [
            (ipv6_text(sids.destination([_reversed(link) for link in reversed(path.links)], flow.src_nic)), 0, 1)
            for path in listed[:MAX_REVERSE_PATHS]
        ]
        return _with_ports(there), _with_ports(back)

    return paths


def _with_ports(listed: list[tuple[str, int, int]]) -> tuple[SprayPath, ...]:
    """Return paths with a port each; that of a path with a SID follows from it, so it stays while others change."""
    found = dict[int, SprayPath]()
    for sid, port, weight in listed:
        own = port or _FIRST_PORT + zlib.crc32(sid.encode()) % _PORTS
        while own in found:
            own = _FIRST_PORT + (own + 1) % _PORTS
        found[own] = SprayPath(own, sid, weight)
    return tuple(found.values())


def _reversed(link: str) -> str:
    begin, _, end = link.partition(">")
    return f"{end}>{begin}"
