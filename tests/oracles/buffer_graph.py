"""Find cyclic buffer dependencies (PFC deadlocks) in the rules of a network, whatever fails next.

A packet that enters a switch by one link and leaves it by another makes the buffer of the one wait for that of the
other. A packet's destination and entry are followed; its source port and address are left open, so any rule that some
packet to the destination matches counts, and of a group every bucket: cables may fail while it is held.
"""

import networkx

OPEN = {"udp_src", "ipv4_src"}


def exits(network, switch, in_port, dst):
    """Return the ports by which RoCE packets to an address may leave a switch, in any state of its ports."""
    packet = {"in_port": in_port, "eth_type": 0x0800, "ip_proto": 17, "udp_dst": 4791, "ipv4_dst": dst}
    found, tables = set(), [0]
    for table in tables:
        for entry in network.tables.get((switch, table), ()):
            known = [field for field in entry.fields if field[0] not in OPEN]
            if not all(name in packet and packet[name] & mask == value for name, value, mask in known):
                continue
            for action in entry.actions:
                verb, _, argument = action.partition(":")
                if verb == "goto_table":
                    tables += [int(argument)] if int(argument) not in tables else []
                else:
                    found |= {int(argument)} if verb == "output" else set(network.groups[switch, int(argument)])
            if len(known) == len(entry.fields):
                break  # all packets match: later entries get none
    return found - {in_port}


def dependencies(fabric, network):
    """Return which link, named by its sending port, waits for which next link."""
    graph = networkx.DiGraph()
    for dst in fabric.nics:
        waiting = [(*tuple(src.port), None) for src in fabric.nics if src is not dst]
        known = set(waiting)
        while waiting:
            switch, in_port, before = waiting.pop()
            for port in exits(network, switch, in_port, dst.ip):
                if (switch, port) not in network.wire:
                    continue
                if before is not None:
                    graph.add_edge(before, (switch, port))
                then = (*network.wire[switch, port], (switch, port))
                if then not in known:
                    known.add(then)
                    waiting.append(then)
    return graph


def cycle(fabric, network):
    """Return a cycle of links that wait for each other, as text; empty where there is none."""
    try:
        found = networkx.find_cycle(dependencies(fabric, network))
    except networkx.NetworkXNoCycle:
        return ""
    return " -> ".join(f"{switch}:{port}" for (switch, port), _ in found)
