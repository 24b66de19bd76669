"""The batches for iproute2 turn any state of a host into any other, without touching entries that stay."""

from ipaddress import IPv4Address, ip_address

from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.vtep.bridge_ports import (
    ENDPOINT_FLAGS,
    TUNNEL_FLAGS,
    BridgeEntry,
    BridgePort,
    attached,
    device_of,
    port_changes,
    station_changes,
)
from heddle.dataplane.vtep.desired import ANY_MAC, Forward, HostState, Local, NeighbourEntry
from heddle.dataplane.vtep.linux import changes
from heddle.dataplane.vtep.port_filters import filter_changes, filters, listed

VTEP = IPv4Address("192.168.9.1")
VNIS, MACS = (5, 70000), (ANY_MAC, 0x020000000001, 0x020000000002)
VTEPS, ADDRESSES = ("192.168.9.2", "192.168.9.3"), ("10.0.0.1", "fd00::1")


@st.composite
def states(draw):
    vnis = draw(st.frozensets(st.sampled_from(VNIS)))
    slots = [(vni, mac) for vni in sorted(vnis) for mac in MACS]
    forwards = {
        Forward(vni, mac, IPv4Address(draw(st.sampled_from(VTEPS)))) for vni, mac in slots if draw(st.booleans())
    }
    neighbours = {
        NeighbourEntry(vni, ip_address(ip), draw(st.sampled_from(MACS[1:])))
        for vni in sorted(vnis)
        for ip in ADDRESSES
        if draw(st.booleans())
    }
    return HostState(vnis=vnis, forwards=frozenset(forwards), neighbours=frozenset(neighbours))


class Kernel:
    """A model of the kernel that executes the batches and refuses what the kernel refuses."""

    def __init__(self, state: HostState) -> None:
        self.devices = {name for vni in state.vnis for name in (device_of(vni), f"hb{vni}")}
        self.fdb = {(device_of(f.vni), f.mac, str(f.vtep)) for f in state.forwards}
        self.neighbours = {(device_of(n.vni), str(n.ip)): n.mac for n in state.neighbours}

    def do(self, line: str) -> None:
        words = line.split()
        _HANDLERS[words[0], words[1]](self, words)

    def add_link(self, words):
        assert words[2] not in self.devices
        self.devices.add(words[2])

    def set_link(self, words):
        assert words[3] in self.devices

    def del_link(self, words):
        name = words[3]
        self.devices.remove(name)
        self.fdb = {row for row in self.fdb if row[0] != name}
        self.neighbours = {key: mac for key, mac in self.neighbours.items() if key[0] != name}

    def replace_fdb(self, words):
        mac, device, vtep = _fdb(words)
        assert device in self.devices
        assert mac != ANY_MAC
        self.fdb = {row for row in self.fdb if row[:2] != (device, mac)} | {(device, mac, vtep)}

    def append_fdb(self, words):
        mac, device, vtep = _fdb(words)
        assert device in self.devices
        assert (device, mac, vtep) not in self.fdb
        self.fdb.add((device, mac, vtep))

    def del_fdb(self, words):
        mac, device, vtep = _fdb(words)
        self.fdb.remove((device, mac, vtep))

    def replace_neighbour(self, words):
        assert words[6] in self.devices
        self.neighbours[words[6], words[2]] = int(words[4].replace(":", ""), 16)

    def del_neighbour(self, words):
        del self.neighbours[words[4], words[2]]


_HANDLERS = {
    ("link", "add"): Kernel.add_link,
    ("link", "set"): Kernel.set_link,
    ("link", "del"): Kernel.del_link,
    ("fdb", "replace"): Kernel.replace_fdb,
    ("fdb", "append"): Kernel.append_fdb,
    ("fdb", "del"): Kernel.del_fdb,
    ("neigh", "replace"): Kernel.replace_neighbour,
    ("neigh", "del"): Kernel.del_neighbour,
}


def _fdb(words):
    return int(words[2].replace(":", ""), 16), words[4], words[6]


@given(states(), states())
def test_the_lines_turn_one_state_into_the_other(have, want):
    kernel, goal = Kernel(have), Kernel(want)
    links, bridges = changes(have, want, VTEP, 1450)
    late = [line for line in links if line.startswith(("neigh del", "link del"))]
    for line in [*(line for line in links if line not in late), *bridges, *late]:
        kernel.do(line)
    assert (kernel.devices, kernel.fdb, kernel.neighbours) == (goal.devices, goal.fdb, goal.neighbours)


@given(states())
def test_an_installed_state_needs_no_line(state):
    assert changes(state, state, VTEP, 1450) == ([], [])


ONE_LOCAL = HostState(vnis=frozenset({5}), locals=frozenset({Local(5, ip_address("10.0.0.1"), MACS[1])}))
NO_FLAGS = "learning off flood off mcast_flood off bcast_flood off"


def test_a_foreign_port_is_detached_from_a_vpcs_bridge_and_an_endpoint_neither_learns_nor_is_flooded():
    masters = {"red": "", "stranger": "hb5", "other": "hb6", "up": "br0"}
    have = {name: BridgePort(bridge, (True,) * 4) for name, bridge in masters.items()}
    have["hx5"] = BridgePort("hb5", TUNNEL_FLAGS)
    assert port_changes(have, ONE_LOCAL, {(5, MACS[1]): "red"}) == [
        "link set dev red master hb5 up",
        f"link set dev red type bridge_slave {NO_FLAGS}",
        "link set dev stranger nomaster",
    ]
    installed = {"red": BridgePort("hb5", ENDPOINT_FLAGS), "hx5": BridgePort("hb5", TUNNEL_FLAGS)}
    assert port_changes(installed, ONE_LOCAL, {(5, MACS[1]): "red"}) == []


@given(st.lists(st.sampled_from([(mac, port) for mac in MACS[1:] for port in ("red", "hx5", "gone")])), st.booleans())
def test_entries_of_a_bridge_become_the_desired_ones(rows, learns):
    entries = {BridgeEntry("hb5", mac, port) for mac, port in dict(rows).items()}
    want = attached(ONE_LOCAL, {(5, MACS[1]): "red"})
    table = {each.mac: each.port for each in entries if each.port != "gone"}
    for line in station_changes((set(), entries) if learns else (entries, set()), want, {5}):
        words = line.split()
        mac = int(words[2].replace(":", ""), 16)
        if words[1] == "del":
            assert table.pop(mac) == words[4]
        else:
            table[mac] = words[4]
    assert table == {MACS[1]: "red"}


def test_filters_are_written_only_where_they_differ_and_never_all_at_once():
    want = filters(ONE_LOCAL, {(5, MACS[1]): "red"})
    ((name, rules),) = want.items()
    body = "".join(f"\t\t{rule}\n" for rule in rules)
    text = f"table netdev heddle {{\n\tchain {name} {{\n{body}\t}}\n}}\ntable netdev other {{\n\tchain x {{\n\t}}\n}}\n"
    assert listed(text) == want
    assert filter_changes(want, want) == ([], [])
    assert filter_changes(want, {}) == ([f"flush chain netdev heddle {name}"], ["delete table netdev heddle"])
    assert filter_changes(None, {}) == ([], [])
    before, after = filter_changes({name: (*rules[:-1], "accept"), "old": ("hook",)}, want)
    assert before[:3] == [
        "add table netdev heddle",
        "flush chain netdev heddle old",
        f"flush chain netdev heddle {name}",
    ]
    assert (len(before), after) == (3 + len(rules) - 1, ["delete chain netdev heddle old"])


def test_a_chain_whose_interface_has_another_name_is_made_anew():
    (have, want) = (filters(ONE_LOCAL, {(5, MACS[1]): port}) for port in ("red", "blue"))
    before, after = filter_changes(have, want)
    (name,) = want
    assert before[1:4] == [
        f"flush chain netdev heddle {name}",
        f"delete chain netdev heddle {name}",
        f"add chain netdev heddle {name} {{ {want[name][0]} }}",
    ]
    assert after == []
