"""`heddle export slurm` and `heddle export topograph`: the fabric as schedulers read it."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from heddle.controller.config.load import load_fabric
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_text
from heddle.controller.model.error import HeddleError, InputError, UnavailableError
from heddle.controller.model.fabric import Fabric
from heddle.controller.schedulers.host_list import hosts_of
from heddle.controller.schedulers.slurm_files import Format, slurm_text
from heddle.controller.schedulers.slurm_reading import entries_of, loaded_switches, switches_of, unread
from heddle.controller.schedulers.topograph import instances, node_labels
from heddle.controller.schedulers.tree import Group, tree_of
from heddle.programs.console.slurm.commands import run_slurm
from heddle.programs.console.slurm.topology_file import checked, content_of, replace_file, restore

Note = Callable[[str], None]
STANDARD_INPUT = "-"
MAX_NAMED = 3
LOADED_WITHIN_S = 10.0
LOADED_POLL_S = 0.5
"""Slurm 24.11 starts a new slurmctld to reconfigure, which replies after the command has ended."""


class Put(NamedTuple):
    """What was done with a topology file: a line, and whether the file was written or Slurm has loaded it."""

    line: str
    is_new: bool


def export_slurm(fabric: Fabric, form: Format, nodes: str | None, out: Path | None, *, reconfigure: bool) -> None:
    """Write the topology of Slurm's nodes to standard output, or as `put_topology` does, and print what was done."""
    named = _named(nodes)
    if out is not None:
        print(put_topology(fabric, form, named, out, reconfigure=reconfigure, note=_warn).line)
    elif reconfigure:
        raise InputError("--reconfigure needs -o FILE: the topology.conf or topology.yaml beside slurm.conf")
    else:
        root, wanted = _tree(fabric, named, _warn)
        sys.stdout.write(checked(slurm_text(root, form), form, wanted, form))


def put_topology(
    fabric: Fabric, form: Format, named: Sequence[str] | None, out: Path, *, reconfigure: bool, note: Note
) -> Put:
    """Write the topology of Slurm's nodes to a file; with `reconfigure` add the nodes of sinfo, and make Slurm load it.

    Raises InputError for nodes that are none, or a file that Slurm could not read; HeddleError where Slurm does not
    load it, or reads files of another format, with the file as it was before.
    """
    known = list[str]()
    if reconfigure:  # a node of Slurm that the file lacks could run nothing
        if problem := unread(run_slurm("scontrol", "show", "config"), form):
            raise UnavailableError(f"{out}: not written: {problem}")
        known = _nodes_of(run_slurm("sinfo", "-h", "-a", "-N", "-o", "%N"), "sinfo")
        named = list(dict.fromkeys([*(named or ()), *known]))
    root, wanted = _tree(fabric, named, note)
    text = slurm_text(root, form)
    before = content_of(out)
    changed = replace_file(out, text, form, wanted)
    loaded = reconfigure and _load(out, text, form, known, before)
    done = ("written" if changed else "not changed") + (", loaded by Slurm" if loaded else "")
    groups = sum(1 for _ in root.walk())
    return Put(f"{out}: {groups:,} switches, {len(wanted):,} nodes: {done}", changed or loaded)


def export_topograph(fabric: Fabric, nodes: str | None, out: Path | None, *, labels: bool) -> None:
    """Write Topograph's list of instances, or labels of nodes, as JSON; raises InputError for nodes that are none."""
    root, _ = _tree(fabric, _named(nodes), _warn)
    document: dict[str, Any] = node_labels(root) if labels else instances(root)
    text = json.dumps(document, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def fabric_from(path: Path | None, server: str) -> Fabric:
    """Return the fabric of a file, without one that of a running controller; raises HeddleErrors."""
    if path is not None:
        return load_fabric(path)
    from heddle.programs.console.client import connected, fabric_of  # gRPC takes longer to import than all else
    from heddle.v1 import heddle_pb2 as pb

    with connected(server) as client:
        return fabric_of(client.fabric.GetTopology(pb.GetTopologyRequest()))


def _named(nodes: str | None) -> list[str] | None:
    """Return the nodes that `--nodes` names; None without it."""
    if nodes is None:
        return None
    if nodes != STANDARD_INPUT:
        return _nodes_of(read_text(nodes, MAX_SETTINGS_BYTES), nodes)
    text = sys.stdin.read(MAX_SETTINGS_BYTES + 1)
    if len(text) > MAX_SETTINGS_BYTES:
        raise InputError(f"--nodes: more than {MAX_SETTINGS_BYTES >> 20} MiB")
    return _nodes_of(text, "--nodes")


def _nodes_of(text: str, name: str) -> list[str]:
    """Return the nodes of host lists, each once: sinfo prints a node for each of its partitions."""
    return list(dict.fromkeys(hosts_of(" ".join(dict.fromkeys(text.split())), name)))


def _tree(fabric: Fabric, nodes: Sequence[str] | None, note: Note) -> tuple[Group, Sequence[str]]:
    """Return the tree and the nodes that it must have; note which of them the fabric does not know."""
    tree = tree_of(fabric, nodes)
    if not tree.root.groups:
        raise InputError("the fabric has no host with a NIC of the compute network")
    if tree.unknown:
        more = ", …" if len(tree.unknown) > MAX_NAMED else ""
        note(f"{len(tree.unknown):,} nodes are no hosts of the fabric: {', '.join(tree.unknown[:MAX_NAMED])}{more}")
    return tree.root, [node for chain in tree.root.leaves() for node in chain[0].nodes] if nodes is None else nodes


def _warn(line: str) -> None:
    print(f"heddle: {line}", file=sys.stderr)


def _is_loaded(text: str, known: Sequence[str]) -> bool:
    """Return whether Slurm, which knows these nodes, shows the tree of a topology.conf."""
    shown, wanted = (
        {name: replace(switch, nodes=switch.nodes.intersection(known)) for name, switch in switches.items()}
        for switches in (
            loaded_switches(run_slurm("scontrol", "show", "topology")),
            switches_of(entries_of(text, Format.TREE)[0]),
        )
    )
    return shown == wanted


def _load(out: Path, text: str, form: Format, known: Sequence[str], before: bytes | None) -> bool:
    """Make Slurm read its files again where it has others, and check that it shows the tree; raises HeddleError.

    A reconfiguration that takes longer than Slurm's commands wait for fails, and is done all the same.
    """
    failure = ""
    try:
        if _is_loaded(text, known) if form is Format.TREE else text.encode() == before:
            return False
        run_slurm("scontrol", "reconfigure")
    except HeddleError as error:
        failure = str(error)
    if form is Format.TREE and _comes_to_show(text, known):
        return True
    if failure:
        restore(out, before)
        raise UnavailableError(f"{failure}; {out} is as it was before")
    if form is Format.TREE:
        where = "is this the file beside its slurm.conf?"
        raise UnavailableError(f"{out}: written, and Slurm shows another topology: {where}")
    return True


def _comes_to_show(text: str, known: Sequence[str]) -> bool:
    """Return whether Slurm shows the tree within LOADED_WITHIN_S."""
    end_s = time.monotonic() + LOADED_WITHIN_S
    while True:
        with suppress(HeddleError):
            if _is_loaded(text, known):
                return True
        if time.monotonic() > end_s:
            return False
        time.sleep(LOADED_POLL_S)
