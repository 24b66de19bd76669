"""Sets of paths for the flows of a permutation on a fabric of two tiers: planned, drawn at random, and as ECMP hashes.

The planner colours the flows with one spine each, so that no two share a link. A planned set is that spine and others
at fixed distances from it, the same for all flows: every prefix of it is even, too.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from heddle.controller.config import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.plan import FlowPlan, Plan
from heddle.controller.planner.solve import solve

SPINES = 4
DISTANCES = (0, 2, 1, 3)
LOAD = 0.95
MODES = ("ecmp", "random 2", "planned 1", "planned 2", "planned 4", "random 4")
"""How a flow has its paths; the number is that of its paths, one with ECMP."""
YAML = "version: 1\nsteering: srv6\ngenerate: {kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 4, gbps: 0.01}\n"


class Spines(NamedTuple):
    """The spines, numbered from 0, of the paths of a flow and of those of its ACKs."""

    there: tuple[int, ...]
    back: tuple[int, ...]

    def without(self, spine: int) -> "Spines":
        """Return the others, where there are others."""
        there, back = (tuple(one for one in mine if one != spine) for mine in self)
        return Spines(there or self.there, back or self.back)


def four_by_four() -> Fabric:
    """Return the fabric of 4 spines and 4 leaves with 4 hosts each, at 10 Mbit/s."""
    return parse_fabric(YAML, "four by four")


def permutation(fabric: Fabric, seed: int) -> list[FlowPlan]:
    """Return the planned flows of a permutation in which every NIC sends to one of another leaf."""
    chance, count = random.Random(seed), len(fabric.nics)
    leaf = [nic.port.switch for nic in fabric.nics]
    target = list(range(count))
    while any(leaf[src] == leaf[dst] for src, dst in enumerate(target)):
        chance.shuffle(target)
    rate_bps = int(LOAD * fabric.nics[0].capacity_bps)
    flows = tuple(FlowDemand(src_rank=src, dst_rank=dst, rate_bps=rate_bps) for src, dst in enumerate(target))
    sent = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1_000_000, flows=flows)
    job = JobRequest(job_id="permutation", ranks=tuple(nic.id for nic in fabric.nics), collectives=(sent,))
    plan = solve(fabric, (job,), health=Health())
    assert isinstance(plan, Plan)
    return list(plan.jobs[0].flows)


def spines_of(fabric: Fabric, flows: Sequence[FlowPlan], mode: str, seed: int) -> list[Spines]:
    """Return the spines of each flow's paths in a mode."""
    chance, kind, count = random.Random(seed), mode.split()[0], int(mode.split()[1]) if " " in mode else 1
    found = []
    for flow in flows:
        colour = spine_of(fabric, flow.links)
        if kind == "planned":
            there = tuple((colour + distance) % SPINES for distance in DISTANCES[:count])
            found.append(Spines(there, (colour, (colour + 1) % SPINES)))
        else:
            there = tuple(chance.sample(range(SPINES), count))
            found.append(Spines(there, (chance.randrange(SPINES),)))
    return found


def spine_of(fabric: Fabric, links: Sequence[str]) -> int:
    """Return the number of the spine that a path crosses."""
    (up,) = (fabric.cable_by_link[link] for link in links if link in fabric.cable_by_link and _is_up(fabric, link))
    return int(up.upper.switch.removeprefix("spine")) - 1


def links_over(fabric: Fabric, src_nic: str, dst_nic: str, spine: int) -> tuple[str, str]:
    """Return the two links between switches by which packets take a spine."""
    switch = f"spine{spine + 1}"
    up = _cable(fabric, fabric.nic_by_id[src_nic].port.switch, switch)
    down = _cable(fabric, fabric.nic_by_id[dst_nic].port.switch, switch)
    return fabric.cable_by_link[up].up_link, fabric.cable_by_link[down].down_link


def _is_up(fabric: Fabric, link: str) -> bool:
    return fabric.cable_by_link[link].up_link == link


def _cable(fabric: Fabric, leaf: str, spine: str) -> str:
    (found,) = (cable.id for cable in fabric.cables if (cable.lower.switch, cable.upper.switch) == (leaf, spine))
    return found
