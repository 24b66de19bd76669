"""What Slurm makes of a topology.conf or topology.yaml: its lists expanded, its switches with all nodes below them.

Written from topology.conf(5), topology.yaml(5) and scontrol(1), "hostlist expression". It takes sound files only. YAML
is read by libyaml, as Slurm's serializer does.
"""

import yaml


def expanded(text: str) -> list[str]:
    """Return the names of a list with at most one bracket a name, at its end."""
    found, name, inside = [], "", ""
    depth = 0
    for letter in text + ",":
        if letter == "[":
            depth = 1
        elif letter == "]":
            for part in inside.split(","):
                first, _, last = part.partition("-")
                numbers = range(int(first), int(last or first) + 1)
                found += [name + str(number).rjust(len(first), "0") for number in numbers]
            depth, inside, name = 0, "", ""
        elif depth:
            inside += letter
        elif letter == ",":
            if name:
                found.append(name)
            name = ""
        else:
            name += letter
    return found


def switches(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return the nodes and children that each SwitchName or BlockName line names."""
    found = {}
    for line in text.splitlines():
        words = dict(word.split("=") for word in line.split("#")[0].split())
        name = words.get("SwitchName") or words.get("BlockName")
        if name:
            assert name not in found
            found[name] = (expanded(words.get("Nodes", "")), expanded(words.get("Switches", "")))
    return found


def nodes_below(found: dict[str, tuple[list[str], list[str]]], name: str) -> list[str]:
    """Return the nodes below a switch, as often as they are reached."""
    nodes, children = found[name]
    return nodes + [node for child in children for node in nodes_below(found, child)]


def block_sizes(text: str) -> list[int]:
    """Return the sizes that the only BlockSizes line names."""
    (line,) = (line for line in text.splitlines() if line.startswith("BlockSizes="))
    return [int(size) for size in line.partition("=")[2].split(",")]


def yaml_switches(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return the nodes and children of each switch of the only topology of a topology.yaml."""
    (topology,) = yaml.load(text, Loader=yaml.CSafeLoader)
    plugins = [key for key in topology if key not in ("topology", "cluster_default")]
    assert next(iter(topology)) == "topology", "topology.yaml(5): it comes first"
    assert plugins == ["tree"]
    assert topology["cluster_default"] is True
    found = {}
    for switch in topology["tree"]["switches"]:
        assert switch["switch"] not in found
        assert set(switch) <= {"switch", "nodes", "children"}
        found[switch["switch"]] = (expanded(switch.get("nodes", "")), expanded(switch.get("children", "")))
    return found
