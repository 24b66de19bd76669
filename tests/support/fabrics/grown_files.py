"""A fabric file and what may become of it: the cases of a start with another file."""

_HEAD = "version: 1\nname: yard\n"
YARD = _HEAD + "generate: {kind: spine_leaf, spines: 2, leaves: 3, hosts_per_leaf: 2, gbps: 40}\n"
LEAF_MORE = YARD.replace("leaves: 3", "leaves: 4")
SPINE_MORE = (
    YARD
    + "switches: [{id: spine3, role: spine}]\nlinks:\n"
    + "".join(f'  - {{a: "leaf{leaf}:9", b: "spine3:{leaf}", gbps: 40}}\n' for leaf in (1, 2, 3))
)
"""The new cables are behind the others: no port of a switch has another number."""
SPINES_BEYOND = (
    YARD
    + "switches: [{id: spine3, role: spine}, {id: spine4, role: spine}, {id: spine5, role: spine}]\nlinks:\n"
    + "".join(
        f'  - {{a: "leaf{leaf}:{spine + 6}", b: "spine{spine}:{leaf}", gbps: 40}}\n'
        for leaf in (1, 2, 3)
        for spine in (3, 4, 5)
    )
)
"""More than twice the uplinks: more than ports have room for."""
SLOWER = YARD + 'links: [{a: "leaf3:2", b: "spine2:3", gbps: 20}]\n'
_ONE_SPINE = "generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 3, links_per_spine: 2, gbps: 40}\n"
RACK_SLOWER = YARD + 'links: [{a: "leaf1:1", b: "spine1:1", gbps: 20}, {a: "leaf1:2", b: "spine2:1", gbps: 20}]\n'
"""All uplinks of a leaf at half their rate: ports mean the same, loads do not."""
PARALLEL = (_HEAD + _ONE_SPINE, _HEAD + _ONE_SPINE + 'links: [{a: "leaf1:9", b: "spine1:9", gbps: 40}]\n')
"""Two cables from each leaf to the one spine, and a third one from one leaf."""
THREE_SPINES = YARD.replace("spines: 2", "spines: 3")
THREE_SLOWER = THREE_SPINES + 'links: [{a: "leaf3:2", b: "spine2:3", gbps: 10}]\n'
"""Three uplinks, one of them at a quarter of its rate: shares and home blocks of before there was a reserve differ."""
