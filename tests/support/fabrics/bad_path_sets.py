"""What no path set can be made for, and the line that says so."""

SHAPE = {"kind": "spine_leaf", "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "gbps": 100}
TOO_MANY = "3, but leaves of this fabric have at most 2 paths between them: ask for at most so many"
PORTS = [{"port": "p0-leaf1:9", "gbps": 100}, {"port": "p0-leaf2:9", "gbps": 100}]
TWICE = {"id": "h9", "nics": [{"id": "h9-n0", "ip": "10.9.0.1", "ports": PORTS}]}
ONE_PLANE = (
    "hosts[0].nics[0].ports[1].port: p0-leaf2:9 is in plane 0, as p0-leaf1:9: a NIC has one port a plane; "
    "plug it into a switch of another, or give each port its `plane`"
)


def document(**more: object) -> dict[str, object]:
    """Return a fabric file of two planes, with other keys."""
    return {"version": 1, "name": "lab", "generate": {**SHAPE, "planes": 2}, **more}
