"""Follow a packet by its uSIDs, as text: an oracle that shares no code with `model.srv6`.

The world is (tables, cables, NICs). Tables are `{switch: {"e003": ("shift and send", port)}}`, with the actions
`shift`, `shift and send` and `send`, and numbers of ports. Cables and NICs are `{(switch, port): (switch, port)}` and
`{(switch, port): NIC}`.
"""

import ipaddress

MAX_STEPS = 64


def walk(world, switch, address):
    """Return the cables as ((switch, port), (switch, port)), where the packet ends, and its uSIDs there."""
    tables, cables, nics = world
    groups = ipaddress.IPv6Address(address).exploded.split(":")
    carried = groups[2:]
    taken = []
    for _ in range(MAX_STEPS):
        action, port = tables[switch].get(carried[0], ("drop", None))
        if action == "drop":
            return taken, f"dropped by {switch}", carried
        if action.startswith("shift"):
            carried = [*carried[1:], "0000"]
        if port is None:
            continue
        if (switch, port) in nics:
            return taken, nics[switch, port], carried
        far = cables[switch, port]
        taken.append(((switch, port), far))
        switch = far[0]
    return taken, "loops", carried
