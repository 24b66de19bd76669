"""Simulate an OpenFlow 1.3 network on listing rows (plain JSON) by linear search; shares no code with the product.

A packet is a dict of OpenFlow field names to integers. `Network` wires ports by hand from cables and NICs.
"""

from collections import Counter
from dataclasses import dataclass, field

PREREQUISITES = {
    "ipv4_src": {"eth_type": 0x0800},
    "ipv4_dst": {"eth_type": 0x0800},
    "ip_proto": {"eth_type": 0x0800},
    "udp_src": {"ip_proto": 17},
    "udp_dst": {"ip_proto": 17},
    "arp_tpa": {"eth_type": 0x0806},
}


def number(text):
    """Read an integer, 0x..., or a dotted address."""
    if isinstance(text, int):
        return text
    if "." in text:
        a, b, c, d = (int(part) for part in text.split("."))
        assert all(0 <= octet <= 255 for octet in (a, b, c, d))
        return ((a * 256 + b) * 256 + c) * 256 + d
    return int(text, 0)


def value_and_mask(name, text):
    bits = {"ipv4_src": 32, "ipv4_dst": 32, "arp_tpa": 32, "udp_src": 16}.get(name)
    if bits is None or not isinstance(text, str) or "/" not in text:
        return number(text), -1
    value, mask = text.split("/")
    if "." in value and "." not in mask:
        mask_bits = (2**bits - 1) // 2 ** (bits - int(mask)) * 2 ** (bits - int(mask))
    else:
        mask_bits = number(mask)
    assert number(value) & ~mask_bits == 0, f"{name}={text}: a value bit outside the mask"
    assert mask_bits != 0, f"{name}={text}: a mask of nothing"
    return number(value), mask_bits


class Entry:
    def __init__(self, row):
        self.priority, self.actions, self.kind, self.row = row["priority"], row["actions"], row["kind"], row
        for name in row["match"]:
            for needed, value in PREREQUISITES.get(name, {}).items():
                assert row["match"].get(needed) == value, f"{row}: {name} without {needed}={value}"
        self.fields = [(name, *value_and_mask(name, text)) for name, text in row["match"].items()]
        self.packets = 0

    def matches(self, packet):
        return all(name in packet and packet[name] & mask == value for name, value, mask in self.fields)


@dataclass
class Journey:
    """A packet's path: (switch, out port) hops, and the NIC that it reached or the reason that it did not."""

    hops: list = field(default_factory=list)
    nic: str | None = None
    end: str = ""
    last: Entry | None = None


class Network:
    def __init__(self, fabric, rule_rows, group_rows, down_cables=(), down_switches=()):
        self.tables, self.groups, self.wire, self.nic_at = {}, {}, {}, {}
        self.dead_ports, self.down_switches = set(), set(down_switches)
        for row in rule_rows:
            self.tables.setdefault((row["switch"], row["table"]), []).append(Entry(row))
        for entries in self.tables.values():
            entries.sort(key=lambda entry: -entry.priority)
        for row in group_rows:
            assert row["type"] == "fast_failover"
            assert (row["switch"], row["group_id"]) not in self.groups
            self.groups[row["switch"], row["group_id"]] = row["buckets"]
        for cable in fabric.cables:
            low, high = tuple(cable.lower), tuple(cable.upper)
            self.wire[low], self.wire[high] = high, low
            if cable.id in down_cables or low[0] in self.down_switches or high[0] in self.down_switches:
                self.dead_ports |= {low, high}
        self.start = {}
        for nic in fabric.nics:
            self.nic_at[tuple(nic.port)] = nic.id
            self.start[nic.id] = tuple(nic.port)

    def send(self, nic, packet):
        journey = Journey()
        switch, in_port = self.start[nic]
        for _ in range(12):
            if switch in self.down_switches:
                journey.end = "switch down"
                return journey
            port = self.forward(switch, {**packet, "in_port": in_port}, journey)
            if port is None:
                return journey
            if port == in_port:
                journey.end = "hairpin"
                return journey
            journey.hops.append((switch, port))
            if (switch, port) in self.nic_at:
                journey.nic, journey.end = self.nic_at[switch, port], "delivered"
                return journey
            if (switch, port) in self.dead_ports or (switch, port) not in self.wire:
                journey.end = "dead port"
                return journey
            switch, in_port = self.wire[switch, port]
        journey.end = "loop"
        return journey

    def forward(self, switch, packet, journey):
        table = 0
        while True:
            hit = next((entry for entry in self.tables.get((switch, table), ()) if entry.matches(packet)), None)
            if hit is None:
                journey.end, journey.last = f"no entry in {switch} table {table}", None
                return None
            hit.packets += 1
            journey.last = hit
            if not hit.actions:
                journey.end = "dropped"
                return None
            assert len(hit.actions) == 1
            verb, _, argument = hit.actions[0].partition(":")
            if verb == "goto_table":
                assert int(argument) > table, "a goto leads to a later table"
                table = int(argument)
            elif verb == "output":
                return int(argument)
            else:
                assert verb == "group"
                live = [p for p in self.groups[switch, int(argument)] if (switch, p) not in self.dead_ports]
                if not live:
                    journey.end = "no live bucket"
                    return None
                return live[0]


def roce(src, dst, port):
    return {
        "eth_type": 0x0800, "ip_proto": 17, "ipv4_src": src, "ipv4_dst": dst, "udp_src": port, "udp_dst": 4791,
    }  # fmt: skip


def ping(src, dst):
    return {"eth_type": 0x0800, "ip_proto": 1, "ipv4_src": src, "ipv4_dst": dst}


def tcp(src, dst):
    return {"eth_type": 0x0800, "ip_proto": 6, "ipv4_src": src, "ipv4_dst": dst}


def arp(target):
    return {"eth_type": 0x0806, "arp_tpa": target}


PFC = {"eth_type": 0x8808}


def faults_of_path(fabric, journey, down_cables=(), down_switches=()):
    """Return the faults of a delivered path: it must go up, then down, over live cables, and visit no switch twice."""
    tier = {switch.id: {"leaf": 0, "agg": 1}.get(switch.role.value, 2) for switch in fabric.switches}
    cable_at = {tuple(end): cable for cable in fabric.cables for end in (cable.lower, cable.upper)}
    found, went_down, met = [], False, Counter(switch for switch, _ in journey.hops)
    found += [f"{switch} met twice" for switch, times in met.items() if times > 1]
    for switch, port in journey.hops[:-1]:
        cable = cable_at[switch, port]
        other = cable.upper.switch if cable.lower.switch == switch else cable.lower.switch
        if cable.id in down_cables or {switch, other} & set(down_switches):
            found.append(f"{cable.id} is down")
        if tier[other] < tier[switch]:
            went_down = True
        elif went_down:
            found.append(f"up again at {switch}")
    return found
