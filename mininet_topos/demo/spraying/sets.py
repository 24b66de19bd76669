"""The modes of a spraying demo, and the flows of each: all have the flows and rates of one plan. Pure."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from heddle.mininet_topos.measure.flow_run import FlowRequest, SprayPath
from heddle.mininet_topos.measure.spray_paths import Paths
from heddle.mininet_topos.measure.start_phases import start_offset_ns, start_phases
from heddle.mininet_topos.traffic.queue_pairs import FRAME_BITS
from heddle.v1 import heddle_pb2 as pb

ALL = 4
"""The paths of a flow between two leaves: the spines of the demo's fabric."""


class SprayMode(NamedTuple):
    """How a flow has its paths: planned or drawn at random, and how many."""

    name: str
    paths: int
    planned: bool


MODES = (
    SprayMode("ECMP", 1, planned=False),
    SprayMode(f"random 2 of {ALL}", 2, planned=False),
    SprayMode("planned, 1 path", 1, planned=True),
    SprayMode("planned, 2 paths", 2, planned=True),
    SprayMode(f"planned, {ALL} paths", ALL, planned=True),
)


class Sprayed(NamedTuple):
    """A flow of a run, and the links of each of its paths by the path's source port."""

    request: FlowRequest
    links: Mapping[int, frozenset[str]]


def sprayed_flows(
    flows: Sequence[pb.FlowPlan], mode: SprayMode, seed: int, seconds: float, paths_of: Callable[[pb.FlowPlan], Paths]
) -> list[Sprayed]:
    """Return the flows of a run at their planned rates, begun one after the other within the time of a frame.

    Planned modes take all paths of `flows`. The others draw among them: so these must be plans of all paths.
    """
    chance = random.Random(f"spray/{mode.name}/{seed}")
    phases = start_phases([(flow.src_nic, flow.dst_nic) for flow in flows])
    found = []
    for flow, phase in zip(flows, phases, strict=True):
        there, back = paths_of(flow)
        links = [path.links for path in flow.path_set.paths]
        if not there:
            there, back, links = (SprayPath(flow.udp_source_port, flow.sid),), (), [flow.links]
        chosen = list(zip(there, links, strict=True))
        if not mode.planned:
            chosen, back = chance.sample(chosen, mode.paths), tuple(chance.sample(back, 1))
        request = FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, rate_bps=flow.rate_bps,
            size_bytes=int(flow.rate_bps * seconds), start_offset_ns=start_offset_ns(phase, FRAME_BITS, flow.rate_bps),
            udp_source_port=flow.udp_source_port, reverse_udp_source_port=flow.reverse_udp_source_port, sid=flow.sid,
            reverse_sid=flow.reverse_sid, paths=tuple(path for path, _ in chosen), reverse_paths=back,
        )  # fmt: skip
        found.append(Sprayed(request, {path.udp_source_port: frozenset(crossed) for path, crossed in chosen}))
    return found
