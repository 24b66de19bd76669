"""Write a tree of nodes as Topograph does: its list of instances, and labels of Kubernetes nodes.

Sources: the graph engine and the node labels of NVIDIA's Topograph, by its reference of August 2026.
"""

from typing import Any

from heddle.controller.schedulers.tree import Group

LABEL = "fabric.topograph.run/tier-"
"""Tier 0 is the nearest to the node."""


def instances(root: Group) -> dict[str, Any]:
    """Return every node with the names of its groups, the nearest first."""
    return {
        "instances": [
            {"id": node, "network_layers": [group.name for group in chain], "labels": {}}
            for chain in root.leaves()
            for node in chain[0].nodes
        ]
    }


def node_labels(root: Group) -> dict[str, Any]:
    """Return a List of Nodes with their labels, for `kubectl apply --server-side`."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": node,
                    "labels": {f"{LABEL}{tier}": group.name for tier, group in enumerate(chain)},
                },
            }
            for chain in root.leaves()
            for node in chain[0].nodes
        ],
    }
