"""Which nodes of Slurm are to be drained because no NIC of theirs is up, and which are to be resumed.

A node with a reason of somebody else is left alone, drained or not. A drained node finishes its jobs and gets no new
ones. A fabric that looks dead must not drain the cluster.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.schedulers.slurm_jobs import nics_of_hosts

REASONS = ("sinfo", "--noheader", "--all", "--Node", "--format=%N|%E")
REASON = "heddle: no NIC of the compute network is up"
NONE = "none"
MAX_DRAINED_SHARE = 0.1
"""Of Slurm's nodes; at least one. Beyond, none is drained: then the fabric is at fault, or what is known of it."""


class Drains(NamedTuple):
    """Nodes to drain and to resume, and how many were not drained because they are too many."""

    drain: tuple[str, ...]
    resume: tuple[str, ...]
    too_many: int


def reasons_of(text: str) -> dict[str, str]:
    """Return the reason of each node that REASONS printed; raises InputError for a line of another form."""
    found = {}
    for line in text.splitlines():
        node, bar, reason = line.partition("|")
        if not bar or not node:
            raise InputError(f"sinfo: {line[:60]!r} is no line of {REASONS[-1]}")
        found[node] = reason.strip()
    return found


def down_hosts(fabric: Fabric, down_links: Collection[str]) -> set[str]:
    """Return the hosts whose NICs of the compute network are all down."""
    ports, hosts = fabric.ports_of, nics_of_hosts(fabric)
    links = {host: [port.up_link for nic in nics for port in ports[nic.id]] for host, nics in hosts.items()}
    return {host for host, mine in links.items() if all(link in down_links for link in mine)}


def drains(reasons: Mapping[str, str], down: Collection[str]) -> Drains:
    """Return what is to be done, by the reasons of Slurm's nodes and the hosts that are down."""
    ours = [node for node, reason in reasons.items() if reason == REASON]
    fresh = [node for node, reason in reasons.items() if reason == NONE and node in down]
    resume = tuple(node for node in ours if node not in down)
    limit = max(1, int(len(reasons) * MAX_DRAINED_SHARE))
    if len(fresh) + len(ours) - len(resume) > limit:
        return Drains((), resume, len(fresh))
    return Drains(tuple(fresh), resume, 0)
