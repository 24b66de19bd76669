"""A machine cannot take the MAC or an address of its gateway or neighbours, on hosts of both kinds."""

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_RA, ICMPv6ND_Redirect, ICMPv6NDOptDstLLAddr, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.config.network import Endpoint, NetworkConfig, Subnet, Vpc
from heddle.dataplane.vtep import linux
from heddle.dataplane.vtep.agent import Driver
from heddle.dataplane.vtep.desired import wanted
from heddle.dataplane.vtep.linux import LinuxVtep, VtepError
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.namespace import network_namespace
from tests.e2e.vpc.test_linux_vtep import GATEWAY, mac_of, vtep_of
from tests.support.packets.namespaces import Namespace, endpoint, join
from tests.support.processes.ovs_host import OvsHost

pytestmark = pytest.mark.e2e

VNI, ETH_P_ALL, TIMEOUT_S, FRAMES = 100, 3, 5.0, 20
THIEF, VICTIM, REMOTE = 1, 7, 2
GATE, GATE_MAC = "10.0.0.254", mac_text(gateway_mac(VNI))
PORTS = {(VNI, mac_of(THIEF)): "red1", (VNI, mac_of(VICTIM)): "red7"}
NETWORK = NetworkConfig(
    generation=1,
    vpcs=(
        Vpc(
            id="red",
            vni=VNI,
            subnets=tuple(
                Subnet(prefix=ip_network(prefix), gateway=ip_address(gate))
                for prefix, gate in (("10.0.0.0/24", GATE), ("fd00::/64", "fd00::fe"))
            ),
            endpoints=tuple(
                Endpoint(ip=ip_address(ip), mac=mac_of(number), vtep=vtep_of(2 if number == REMOTE else 1))
                for number in (THIEF, VICTIM, REMOTE)
                for ip in (f"10.0.0.{number}", f"fd00::{number}")
            ),
        ),
    ),
)


class Ear:
    """A packet socket in a machine or host: it sends frames, and records those that arrive."""

    def __init__(self, space: Namespace, device: str) -> None:
        with network_namespace(space.pid):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self._socket.bind((device, 0))
        self._socket.setblocking(False)
        self.heard: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def hears(self, frame: bytes) -> int:
        """Return how often a frame, bare or in a tunnel, has arrived."""
        with suppress(BlockingIOError):
            while True:
                data, where = self._socket.recvfrom(1 << 16)
                if where[2] != socket.PACKET_OUTGOING:
                    self.heard.append(data)
        return sum(frame in heard for heard in self.heard)

    def forget(self) -> None:
        self.hears(b"")
        self.heard.clear()

    def until(self, frame: bytes) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not self.hears(frame):
            assert time.monotonic() < deadline, "the frame does not arrive"
            select.select([self._socket], [], [], 0.1)

    def close(self) -> None:
        self._socket.close()


class Host:
    """A host of either kind with two machines of one VPC; a far end receives what it sends to other VTEPs."""

    def __init__(self, kind: str) -> None:
        self._stack = ExitStack()
        try:
            self._make(kind)
        except BaseException:
            self.close()
            raise

    def _make(self, kind: str) -> None:
        self.host, self.far = self._namespace(), self._namespace()
        join(self.host, "underlay", self.far, "underlay", 1600)
        for address in (vtep_of(2), GATEWAY):
            self.far.run("ip", "addr", "add", f"{address}/24", "dev", "underlay")
        self.machines = {
            number: endpoint(
                self.host, f"red{number}", mac_text(mac_of(number)), (f"10.0.0.{number}/24", f"fd00::{number}/64")
            )
            for number in (THIEF, VICTIM)
        }
        for machine in self.machines.values():
            self._stack.callback(machine.close)
        if kind == "kernel":
            self.host.run("ip", "addr", "add", f"{vtep_of(1)}/24", "dev", "underlay")
            self.driver: Driver = LinuxVtep(vtep_of(1), 1600, self.host.entrance)
        else:
            ovs = OvsHost(self.host, vtep_of(1), "underlay")
            self._stack.callback(ovs.close)
            self.driver = ovs.driver()
        self.apply()
        self.ears = {number: Ear(machine, "eth0") for number, machine in self.machines.items()}
        self.underlay = Ear(self.far, "underlay")
        for ear in (*self.ears.values(), self.underlay):
            self._stack.callback(ear.close)
        first = good(VICTIM, GATE_MAC)
        while not self.underlay.hears(first):  # Open vSwitch drops packets until it knows the next hop's MAC
            self.ears[VICTIM].send(first)
            time.sleep(0.05)

    def _namespace(self) -> Namespace:
        space = Namespace()
        self._stack.callback(space.close)
        return space

    def apply(self) -> int:
        want = wanted(NETWORK, vtep_of(1), {VNI: GATEWAY})
        return self.driver.apply(want, PORTS)

    def attack(self, packet: Packet) -> int:
        """Send a frame from the thief; return how often it arrives at its neighbour or on the underlay."""
        frame = bytes(packet)
        for ear in (self.ears[VICTIM], self.underlay):
            ear.forget()
        self.ears[THIEF].send(frame)
        for mac, ear in ((mac_text(mac_of(VICTIM)), self.ears[VICTIM]), (GATE_MAC, self.underlay)):
            fence = good(THIEF, mac)  # it follows on the same path
            self.ears[THIEF].send(fence)
            ear.until(fence)
        return self.ears[VICTIM].hears(frame) + self.underlay.hears(frame)

    def astray(self) -> int:
        """Send frames from the victim to its gateway; return how many the thief receives. All must reach the tunnel."""
        frames = [good(VICTIM, GATE_MAC) for _ in range(FRAMES)]
        for frame in frames:
            self.ears[VICTIM].send(frame)
        self.underlay.until(frames[-1])
        assert [self.underlay.hears(frame) for frame in frames] == [1] * FRAMES
        return sum(self.ears[THIEF].hears(frame) for frame in frames)

    def close(self) -> None:
        self._stack.close()


def good(number: int, target_mac: str) -> bytes:
    """Return a frame of a machine that no other frame equals."""
    marked = UDP(sport=9, dport=9) / os.urandom(16)
    return bytes(Ether(src=mac_text(mac_of(number)), dst=target_mac) / IP(src=f"10.0.0.{number}", dst=GATE) / marked)


@pytest.fixture(scope="module", params=["kernel", "ovs"])
def made(request) -> Iterator[Host]:
    host = Host(request.param)
    yield host
    host.close()


ONLY_KERNEL = pytest.mark.parametrize("made", ["kernel"], indirect=True)
"""Open vSwitch's flows are compared as a whole (test_ovs_vtep), and neighbour discovery is left to the gateway."""


@pytest.fixture
def host(made) -> Host:
    made.apply()
    return made


OWN, OTHER = mac_text(mac_of(THIEF)), mac_text(mac_of(VICTIM))
ALL, ALL_6 = "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01"
MARK = UDP(sport=7, dport=7) / b"a packet of the thief"


def advertisement(target: str, *, solicited: int, source: str = "fd00::1") -> Packet:
    message = ICMPv6ND_NA(tgt=target, R=0, S=solicited, O=1) / ICMPv6NDOptDstLLAddr(lladdr=OWN)
    return Ether(src=OWN, dst=OTHER) / IPv6(src=source, dst="fd00::7", hlim=255) / message


SPOOFED = {
    "the gateway's MAC": Ether(src=GATE_MAC, dst=OTHER) / IP(src="10.0.0.1", dst="10.0.0.7") / MARK,
    "the gateway's MAC towards its tunnel": Ether(src=GATE_MAC, dst=ALL) / IP(src="10.0.0.1", dst=GATE) / MARK,
    "a neighbour's MAC": Ether(src=OTHER, dst=GATE_MAC) / IP(src="10.0.0.1", dst="10.0.0.9") / MARK,
    "a neighbour's address": Ether(src=OWN, dst=GATE_MAC) / IP(src="10.0.0.7", dst="10.0.0.9") / MARK,
    "a foreign address to a neighbour": Ether(src=OWN, dst=OTHER) / IP(src="10.9.9.9", dst="10.0.0.7") / MARK,
    "no address": Ether(src=OWN, dst=ALL) / IP(src="0.0.0.0", dst="255.255.255.255") / MARK,
    "a neighbour's IPv6 address": Ether(src=OWN, dst=GATE_MAC) / IPv6(src="fd00::7", dst="fd00::9") / MARK,
    "a foreign link-local address": Ether(src=OWN, dst=OTHER) / IPv6(src="fe80::1", dst="fd00::7") / MARK,
    "ARP that claims the gateway": Ether(src=OWN, dst=OTHER) / ARP(op=2, hwsrc=OWN, psrc=GATE, hwdst=OTHER),
    "gratuitous ARP": Ether(src=OWN, dst=ALL) / ARP(op=1, hwsrc=OWN, psrc="10.0.0.7", pdst="10.0.0.7"),
    "ARP with another's MAC inside": Ether(src=OWN, dst=OTHER) / ARP(op=2, hwsrc=OTHER, psrc="10.0.0.1", hwdst=OTHER),
    "an unsolicited advertisement": advertisement("fd00::1", solicited=0),
    "an advertisement of a neighbour": advertisement("fd00::7", solicited=1),
    "an advertisement of the gateway": advertisement("fd00::fe", solicited=1),
    "a router advertisement": Ether(src=OWN, dst=ALL_6) / IPv6(src="fd00::1", dst="ff02::1", hlim=255) / ICMPv6ND_RA(),
    "a redirect": Ether(src=OWN, dst=OTHER) / IPv6(src="fd00::1", dst="fd00::7", hlim=255) / ICMPv6ND_Redirect(),
    "a VLAN tag": Ether(src=OWN, dst=OTHER) / Dot1Q(vlan=5) / IP(src="10.0.0.7", dst="10.0.0.7") / MARK,
    "neither IP nor ARP": Ether(src=OWN, dst=OTHER, type=0x88B5) / b"an experimental protocol of the thief",
}


@pytest.mark.parametrize("kind", SPOOFED)
def test_a_spoofed_frame_is_dropped_at_its_port(host, kind):
    assert host.attack(SPOOFED[kind]) == 0


def test_a_stolen_gateway_mac_leads_no_packet_of_a_neighbour_astray(host):
    host.attack(Ether(src=GATE_MAC, dst=ALL) / IP(src="10.0.0.1", dst=GATE) / MARK)
    assert host.astray() == 0


def test_frames_of_a_machine_with_its_own_addresses_pass(host):
    assert host.attack(advertisement("fd00::1", solicited=1)) == 1
    assert host.attack(Ether(src=OWN, dst=OTHER) / ARP(op=2, hwsrc=OWN, psrc="10.0.0.1", pdst="10.0.0.7")) == 1
    assert host.machines[THIEF].pings("10.0.0.7", count=1)


def test_an_address_that_another_machine_has_is_detected_and_an_own_one_is_free(host):
    thief = host.machines[THIEF]
    probes = {ip: ARP(op=1, hwsrc=OWN, psrc="0.0.0.0", pdst=ip) for ip in ("10.0.0.1", "10.0.0.7")}
    for probe in probes.values():
        host.ears[THIEF].send(bytes(Ether(src=OWN, dst=ALL) / probe))
    host.ears[THIEF].until(bytes(ARP(op=2, hwsrc=OTHER, psrc="10.0.0.7", hwdst=OWN, pdst="0.0.0.0")))
    assert host.ears[THIEF].hears(bytes(ARP(op=2, hwsrc=OWN, psrc="10.0.0.1", hwdst=OWN, pdst="0.0.0.0"))) == 0
    thief.run("ip", "addr", "add", "fd00::1:1/64", "dev", "eth0")
    thief.run("ip", "addr", "del", "fd00::1:1/64", "dev", "eth0")


@ONLY_KERNEL
def test_machines_of_a_host_resolve_each_other_over_ipv6(host):
    assert host.machines[THIEF].pings("fd00::7", count=1)


DEVIATIONS = {
    "the filters are flushed": ("nft", "flush", "ruleset"),
    "a port learns": ("bridge", "link", "set", "dev", "red1", "learning", "on"),
    "a port is flooded": ("bridge", "link", "set", "dev", "red7", "flood", "on", "mcast_flood", "on"),
    "a foreign entry": ("bridge", "fdb", "add", GATE_MAC, "dev", "red1", "master", "static"),
    "an entry is gone": ("bridge", "fdb", "del", OTHER, "dev", "red7", "master"),
    "a rule before the others": ("nft", "insert", "rule", "netdev", "heddle", "e100_020000000001", "accept"),
}


@ONLY_KERNEL
@pytest.mark.parametrize("what", DEVIATIONS)
def test_a_deviating_host_is_repaired_and_a_second_call_changes_nothing(host, what):
    assert host.apply() == 0
    host.host.run(*DEVIATIONS[what])
    assert host.apply() > 0
    assert host.apply() == 0
    for spoofed in SPOOFED.values():
        host.ears[THIEF].send(bytes(spoofed))
    assert host.attack(SPOOFED["the gateway's MAC"]) == 0
    assert host.astray() == 0


def test_a_machine_that_is_removed_and_comes_back_is_filtered_again(host):
    fewer = replace(NETWORK.vpcs[0], endpoints=NETWORK.vpcs[0].endpoints[2:])
    want = wanted(replace(NETWORK, vpcs=(fewer,)), vtep_of(1), {VNI: GATEWAY})
    assert host.driver.apply(want, PORTS) > 0
    assert host.driver.apply(want, PORTS) == 0
    assert host.apply() > 0
    assert host.attack(SPOOFED["a neighbour's address"]) == 0


@ONLY_KERNEL
def test_filters_that_could_not_be_written_are_written_by_the_next_call(host, monkeypatch):
    driver = host.driver
    assert isinstance(driver, LinuxVtep)
    host.host.run("nft", "flush", "ruleset")
    with monkeypatch.context() as patched:
        patched.setattr(linux, "NFT_BATCH", ("false",))
        for _ in range(2):
            with pytest.raises(VtepError):
                host.apply()
    assert host.apply() > 0
    assert host.attack(SPOOFED["a neighbour's address"]) == 0
