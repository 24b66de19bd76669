"""Files that end slurmctld, or that keep nodes or jobs from running, for the nodes h1 to h16.

`FATAL` are those at which slurmctld 22.05 ends when it is reconfigured, `HARMFUL` those that it takes.
"""

SOUND = (
    "SwitchName=leaf1 Nodes=h[1-4]\nSwitchName=leaf2 Nodes=h[5-8]\nSwitchName=leaf3 Nodes=h[9-12]\n"
    "SwitchName=leaf4 Nodes=h[13-16]\nSwitchName=fabric Switches=leaf[1-4]\n"
)
NODES = [f"h{number}" for number in range(1, 17)]
_LONG = "l" * 65


def _with(old: str, new: str) -> str:
    assert old in SOUND
    return SOUND.replace(old, new)


FATAL = {
    "a range backwards": _with("h[1-4]", "h[4-1]"),
    "letters in brackets": _with("leaf[1-4]", "leaf[A-D]"),
    "an empty bracket": _with("h[1-4]", "h[]"),
    "a minus alone": _with("h[1-4]", "h[-]"),
    "an unknown key": _with("SwitchName=leaf1", "SwitchName=leaf1 Speed=3"),
    "a key of blocks": SOUND + "BlockSizes=4\n",
    "no key": SOUND + "leaf5\n",
    "a link speed in words": _with("SwitchName=leaf1", "SwitchName=leaf1 LinkSpeed=fast"),
    "an unknown child": _with("leaf[1-4]", "leaf[1-5]"),
    "a switch below itself": SOUND + "SwitchName=more Switches=more\n",
    "a loop of two": SOUND + "SwitchName=a Switches=b\nSwitchName=b Switches=a\n",
    "a loop above the leaves": _with("leaf[1-4]", "leaf[1-4],top") + "SwitchName=top Switches=fabric\n",
    "a switch twice": SOUND + "SwitchName=leaf1 Nodes=h[1-4]\n",
    "nodes and switches at once": _with("Switches=leaf[1-4]", "Switches=leaf[1-4] Nodes=h16"),
    "a switch without anything": SOUND + "SwitchName=empty\n",
}
HARMFUL = {
    "a bracket that stays open": _with("h[1-4]", "h[1-4"),
    "a bracket that was not opened": _with("h[1-4]", "h1-4]"),
    "a range without an end": _with("h[1-4]", "h[1-]"),
    "a name too long": _with("SwitchName=leaf1", f"SwitchName={_LONG}").replace("leaf[1-4]", f"leaf[2-4],{_LONG}"),
    "a name that is a list": SOUND + "SwitchName=leaf[5-6] Nodes=h1\n",
    "nothing": "",
    "comments alone": "# leaf1\n\n# leaf2\n",
    "a node in no switch": _with("h[13-16]", "h[13-15]"),
    "a leaf too few": _with("SwitchName=leaf4 Nodes=h[13-16]\n", "").replace("leaf[1-4]", "leaf[1-3]"),
    "no root": _with("SwitchName=fabric Switches=leaf[1-4]\n", ""),
    "two roots": _with("leaf[1-4]", "leaf[1-2]") + "SwitchName=other Switches=leaf[3-4]\n",
    "a node below two switches": _with("h[5-8]", "h[4-8]"),
    "a leaf below two switches": SOUND + "SwitchName=other Switches=leaf[1-4]\n",
    "an unknown node": _with("h[13-16]", "h[13-17]"),
    "a line that goes on": _with("Nodes=h[1-4]", "\\\nNodes=h[1-4]"),
    "another file": SOUND + "Include other.conf\n",
    "binary": "\x00\x01\x02",
}
BROKEN = {**FATAL, **HARMFUL}
