"""What Slurm makes of a topology.conf: its lists expanded, its switches with all nodes below them.

Written from topology.conf(5) and scontrol(1), "hostlist expression". It takes sound files only.
"""


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
