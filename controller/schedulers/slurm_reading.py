"""Read topology files of Slurm, and what `scontrol show topology` and `scontrol show config` print.

Less is taken than Slurm takes: no line that goes on in the next one, no Include, no quotes, no name with two brackets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from heddle.controller.model.error import InputError
from heddle.controller.schedulers.host_list import hosts_of
from heddle.controller.schedulers.slurm_files import Format

MAX_NAME_LENGTH = 64
MAX_SHOWN_LENGTH = 60
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_NAME_LENGTH}}}")
_ENTRY = r"[A-Za-z0-9._-]+(?:\[[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*\])?"
_LIST = re.compile(f"{_ENTRY}(?:,{_ENTRY})*")
YAML_SINCE = (25, 5)
_PLUGIN = re.compile(r"^TopologyPlugin\s*=\s*(\S+)", re.MULTILINE)
_VERSION = re.compile(r"^SLURM_VERSION\s*=\s*([0-9]{1,4})\.([0-9]{1,4})\S*", re.MULTILINE)
_LINK_SPEED = re.compile(r"[0-9]{1,9}")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEYS = {Format.TREE: ("SwitchName", ("Nodes", "Switches", "LinkSpeed")), Format.BLOCK: ("BlockName", ("Nodes",))}
_YAML_FORM = (
    "must be one topology: topology, cluster_default: true, a tree of switches with texts for nodes or children"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A switch or block of a file: it has nodes or children, as many as the file names."""

    name: str
    nodes: tuple[str, ...]
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch with all nodes below it."""

    nodes: frozenset[str]
    children: frozenset[str]


class TextError(Exception):
    """What is wrong with a text, in one line."""


def entries_of(text: str, form: Format) -> tuple[list[Entry], str]:
    """Return the entries of a file and its block sizes; raises TextError."""
    return (_yaml_entries(text), "") if form is Format.YAML else _conf_entries(text, form)


def switches_of(entries: list[Entry]) -> dict[str, Switch]:
    """Return the switches of a tree without problems."""
    by_name = {each.name: each for each in entries}

    def below(entry: Entry) -> Iterator[str]:
        yield from entry.nodes
        for child in entry.children:
            yield from below(by_name[child])

    return {each.name: Switch(nodes=frozenset(below(each)), children=frozenset(each.children)) for each in entries}


def loaded_switches(text: str) -> dict[str, Switch]:
    """Return the switches of `scontrol show topology`; lines of another form are left out."""
    found = {}
    for line in text.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "SwitchName" in fields:
            lists = (fields.get(key) for key in ("Nodes", "Switches"))
            nodes, children = (frozenset(hosts_of(each, "scontrol")) if each else frozenset[str]() for each in lists)
            found[fields["SwitchName"]] = Switch(nodes=nodes, children=children)
    return found


def unread(config: str, form: Format) -> str:
    """Return why a Slurm that prints this as `scontrol show config` would not read a file; empty where it would.

    Slurm 22.05 with topology/tree ends at a file of blocks (`fatal: something wrong with opening/reading`).
    """
    if form is Format.YAML:
        version = _VERSION.search(config)
        if version and (int(version[1]), int(version[2])) >= YAML_SINCE:
            return ""
        return f"topology.yaml needs Slurm 25.05 or later, this is {version[0].split()[-1] if version else 'unknown'}"
    plugin = _PLUGIN.search(config)
    found, wanted = plugin[1] if plugin else "unknown", f"topology/{form}"
    return "" if found == wanted else f"Slurm's TopologyPlugin is {_shown(found)}, --format {form} is for {wanted}"


def _conf_entries(text: str, form: Format) -> tuple[list[Entry], str]:
    first, others = _KEYS[form]
    entries, sizes = [], ""
    for number, line in enumerate(text.split("\n"), 1):
        pairs = [word.partition("=") for word in line.partition("#")[0].split()]
        found = {key: value for key, _, value in pairs}
        if form is Format.BLOCK and list(found) == ["BlockSizes"] and not sizes:
            sizes = found["BlockSizes"]
        elif pairs:
            if pairs[0][0] != first or not set(found) <= {first, *others} or len(found) < len(pairs):
                raise TextError(f"line {number}: must be {first}=NAME, then {', '.join(others)} at most once each")
            if not _LINK_SPEED.fullmatch(found.get("LinkSpeed", "1")):
                raise TextError(f"line {number}: LinkSpeed must be a number")
            entries.append(_entry(found[first], found.get("Nodes"), found.get("Switches")))
    return entries, sizes


def _yaml_entries(text: str) -> list[Entry]:
    try:
        (topology,) = yaml.load(text, Loader=_LOADER)
        if list(topology) != ["topology", "cluster_default", "tree"] or topology["cluster_default"] is not True:
            raise TextError(_YAML_FORM)
        switches = topology["tree"]["switches"]
        if any(not set(each) <= {"switch", "nodes", "children"} for each in switches):
            raise TextError(_YAML_FORM)
        return [_entry(each["switch"], each.get("nodes"), each.get("children")) for each in switches]
    except (yaml.YAMLError, TypeError, ValueError, KeyError, AttributeError, RecursionError):
        raise TextError(_YAML_FORM) from None


def _entry(name: str, nodes: str | None, children: str | None) -> Entry:
    """Return the entry with its lists expanded; raises TextError, or TypeError for what is no text."""
    if not _NAME.fullmatch(name):
        raise TextError(f"{_shown(name)} is no name of up to {MAX_NAME_LENGTH} letters, digits, dots, '_' and '-'")
    if (nodes is None) == (children is None):
        raise TextError(f"{name}: must have either nodes or switches below it")
    return Entry(name=name, nodes=_expanded(nodes, name), children=_expanded(children, name))


def _expanded(text: str | None, name: str) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        if _LIST.fullmatch(text):
            return tuple(hosts_of(text, name))
    except InputError as error:
        raise TextError(str(error)) from None
    raise TextError(f"{name}: {_shown(text)} is no list such as node[1-128,200]")


def _shown(text: str) -> str:
    return repr(text[:MAX_SHOWN_LENGTH])
