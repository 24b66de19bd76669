"""Name the leaves that a job's flows leave: their hashes choose its paths."""

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, JobRequest


def leaves_that_send(fabric: Fabric, request: JobRequest) -> list[str]:
    """Return the leaves with ranks that send to another leaf, in the order of the ranks.

    Of a collective without pairs or flows, every member may send to every other.
    """
    ranks = [fabric.ports_by_rank.get(rank, ()) for rank in request.ranks]
    found: dict[str, None] = {}
    for at in range(max(map(len, ranks), default=0)):
        leaf_of = [ports[at].port.switch if at < len(ports) else "" for ports in ranks]
        for collective in request.collectives:
            found |= dict.fromkeys(_senders(collective, leaf_of))
    return [leaf for leaf in found if leaf]


def _senders(collective: Collective, leaf_of: list[str]) -> list[str]:
    listed = [(each.src_rank, each.dst_rank) for each in collective.pairs]
    listed += [(each.src_rank, each.dst_rank) for each in collective.flows]
    if listed:
        ranks = range(len(leaf_of))
        pairs = [(leaf_of[src], leaf_of[dst]) for src, dst in listed if src in ranks and dst in ranks]
        return [src for src, dst in pairs if src != dst]
    members = collective.members or tuple(range(len(leaf_of)))
    leaves = list(dict.fromkeys(leaf_of[member] for member in members if member in range(len(leaf_of))))
    return leaves if len(leaves) > 1 else []
