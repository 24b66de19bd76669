"""Write a tree of nodes as Slurm's topology.conf (tree or block) or topology.yaml.

Sources: topology.conf(5) of Slurm 22.05 and 24.11, topology.yaml(5) of 25.05. The text depends on the tree alone, so
that a text that has not changed needs no `scontrol reconfigure`.
"""

import json
from collections.abc import Callable
from enum import StrEnum

from heddle.controller.schedulers.host_list import host_list
from heddle.controller.schedulers.tree import Group

HEADER = "# Written by heddle export slurm, which replaces it.\n"
MAX_BLOCK_LEVEL = 15
"""The largest k of a block size base x 2^k (block_record.c of Slurm 24.11)."""
TOPOLOGY = "heddle"


class Format(StrEnum):
    """The files that Slurm reads a topology from, by the value of its TopologyPlugin."""

    TREE = "tree"
    BLOCK = "block"
    YAML = "yaml"
    """The tree as topology.yaml, which Slurm 25.05 and later prefer to topology.conf."""


def slurm_text(root: Group, form: Format) -> str:
    """Return the file for a tree with nodes."""
    return HEADER + _WRITERS[form](root)


def _tree(root: Group) -> str:
    return "".join(f"SwitchName={group.name} {_members(group)}\n" for group, *_ in root.walk())


def _members(group: Group) -> str:
    if group.nodes:
        return f"Nodes={host_list(group.nodes)}"
    return f"Switches={host_list(below.name for below in group.groups)}"


def _block(root: Group) -> str:
    """Return a block for each group of nodes.

    The smallest block is the base of all sizes, as Slurm 24.11 ends where a block has fewer nodes than the base.
    """
    blocks = [chain[0] for chain in root.leaves()]
    base = min(len(block.nodes) for block in blocks)
    levels = min(len(blocks).bit_length() - 1, MAX_BLOCK_LEVEL)
    sizes = ",".join(str(base << level) for level in range(levels + 1))
    return "".join(f"BlockName={block.name} {_members(block)}\n" for block in blocks) + f"BlockSizes={sizes}\n"


def _yaml(root: Group) -> str:
    """Return the tree as the only topology of topology.yaml; its name comes first, as Slurm demands."""
    lines = [f"- topology: {TOPOLOGY}", "  cluster_default: true", "  tree:", "    switches:"]
    for group, *_ in root.walk():
        key, members = ("nodes", group.nodes) if group.nodes else ("children", [below.name for below in group.groups])
        lines += [f"      - switch: {json.dumps(group.name)}", f"        {key}: {json.dumps(host_list(members))}"]
    return "---\n" + "\n".join(lines) + "\n"


_WRITERS: dict[Format, Callable[[Group], str]] = {Format.TREE: _tree, Format.BLOCK: _block, Format.YAML: _yaml}
