"""Run commands in the nodes of a running lab from another process; `nodes.json` of the lab names their processes."""

import json
from collections.abc import Mapping

from heddle.controller.model.error import InputError, NotFoundError
from heddle.mininet_topos.host.registry import LabEntry, entry_of, living_labs

_FILE = "nodes.json"


def write_nodes(entry: LabEntry, pids: Mapping[str, int]) -> None:
    """Record by node name which process holds the node's network namespace."""
    draft = entry.directory / f"{_FILE}.new"
    draft.write_text(json.dumps(pids))
    draft.replace(entry.directory / _FILE)


def node_command_prefix(lab_id: str | None, node: str) -> tuple[list[str], dict[str, str]]:
    """Return the command prefix (nsenter) and the environment that run a command in a node.

    Raises NotFoundError if there is no such lab, InputError if the lab has no such node or `lab_id` is ambiguous.
    """
    labs = {each: entry_of(each) for each in living_labs()}
    found = {each: entry for each, entry in labs.items() if (entry.directory / _FILE).exists()}
    if lab_id is not None:
        found = {each: entry for each, entry in found.items() if each == lab_id}
    if not found:
        start = "start one with `heddle lab fabric` or `heddle lab vpc`"
        raise NotFoundError(f"no lab {lab_id} runs here" if lab_id else f"no lab runs here; {start}")
    if len(found) > 1:
        raise InputError(f"several labs run here, name one by --lab: {', '.join(sorted(found))}")
    (entry,) = found.values()
    pids: dict[str, int] = json.loads((entry.directory / _FILE).read_text())
    if node not in pids:
        raise InputError(f"{node!r} is no node of lab {entry.id}; the nodes are {', '.join(pids)}")
    return command_prefix_of(entry, pids[node], node)


def command_prefix_of(entry: LabEntry, pid: int, node: str) -> tuple[list[str], dict[str, str]]:
    """Return prefix and environment for a node whose process is `pid`.

    The environment carries the lab's tag, so that the command ends with the lab, and selects the node's own Open
    vSwitch where it has one.
    """
    switch = entry.directory / f"ovs-{node}"
    mine = {f"OVS_{kind}DIR": str(switch) for kind in ("RUN", "DB", "LOG")} if switch.is_dir() else {}
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"], {**entry.environment, **mine}
