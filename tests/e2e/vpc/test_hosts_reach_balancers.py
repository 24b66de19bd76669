"""Hosts of both kinds spread flows to a virtual IP over balancers, and drop one that is gone from the group."""

import contextlib
import ctypes
import os
import socket
import time
from dataclasses import replace
from ipaddress import ip_address

import pytest

from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.vtep.desired import wanted
from heddle.dataplane.vtep.linux import LinuxVtep
from heddle.foundation.address import mac_text
from tests.e2e.vpc.test_linux_vtep import GATEWAYS, NETWORK, VNIS, mac_of, vtep_of
from tests.support.packets.namespaces import Namespace, endpoint, join
from tests.support.processes.ovs_host import OvsHost

pytestmark = pytest.mark.e2e

LIBC, CLONE_NEWNET = ctypes.CDLL(None, use_errno=True), 0x4000_0000
RED, VIP, FLOWS = VNIS["red"], ip_address("10.0.0.100"), 64
PATIENCE_S = 30
"""SYNs that are lost while the underlay's neighbours are resolved come again."""
BALANCERS = (vtep_of(8), vtep_of(9))
PORTS = {(RED, mac_of(1)): "red"}


def served_by(*vteps):
    return (VirtualIp(vpc="red", ip=VIP, vteps=vteps, back_ends=(ip_address("10.0.0.1"),)),)


class Site:
    """A host with one endpoint of red, and a namespace with the VTEPs of two balancers."""

    def __init__(self, kind):
        self.host, self.balancers = Namespace(), Namespace()
        join(self.host, "underlay", self.balancers, "underlay", 1600)
        for vtep in BALANCERS:
            self.balancers.run("ip", "addr", "add", f"{vtep}/24", "dev", "underlay")
        self.machine = endpoint(self.host, "red", mac_text(mac_of(1)), ("10.0.0.1/24",))
        self.ovs = OvsHost(self.host, vtep_of(1), "underlay") if kind == "ovs" else None
        if self.ovs is None:
            self.host.run("ip", "addr", "add", f"{vtep_of(1)}/24", "dev", "underlay")

    def apply(self, *vteps):
        driver = self.ovs.driver() if self.ovs else LinuxVtep(vtep_of(1), 1600, self.host.entrance)
        return driver.apply(wanted(NETWORK, vtep_of(1), GATEWAYS, served_by(*vteps)), PORTS)

    def flows(self):
        """Open FLOWS TCP connections to the virtual IP; return how many reach each balancer's VTEP, by their ports."""
        with contextlib.ExitStack() as stack:
            ears = {vtep: stack.enter_context(_socket_in(self.balancers, vtep)) for vtep in BALANCERS}
            for port in range(FLOWS):
                client = stack.enter_context(_client_in(self.machine, "10.0.0.1", 20_000 + port))
                with contextlib.suppress(BlockingIOError):
                    client.connect((str(VIP), 80))
            heard, deadline = {vtep: set() for vtep in BALANCERS}, time.monotonic() + PATIENCE_S
            while len(set.union(*heard.values())) < FLOWS and time.monotonic() < deadline:
                time.sleep(0.05)
                for vtep, ear in ears.items():
                    heard[vtep] |= _ports_heard(ear)
            return heard

    def close(self):
        if self.ovs:
            self.ovs.close()
        for space in (self.machine, self.host, self.balancers):
            space.close()


def _enter(namespace):
    if LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def _inside(space):
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{space.pid}/ns/net", os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(here)
        os.close(here)
        os.close(there)


def _socket_in(space, vtep):
    with _inside(space):
        ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.bind((str(vtep), 4789))
    ear.setblocking(False)
    return ear


def _client_in(space, source, port, kind=socket.SOCK_STREAM):
    with _inside(space):
        client = socket.socket(socket.AF_INET, kind)
    client.setblocking(False)
    client.bind((source, port))
    return client


def _ports_heard(ear):
    """Return the source ports of TCP packets to the virtual IP in VXLAN."""
    found = set()
    with contextlib.suppress(BlockingIOError):
        while True:
            packet = ear.recv(2048)[8 + 14 :]
            if packet[9] == 6 and packet[16:20] == VIP.packed:
                found.add(int.from_bytes(packet[20:22], "big"))
    return found


@pytest.fixture(params=["kernel", "ovs"])
def site(request):
    found = Site(request.param)
    yield found
    found.close()


def test_flows_are_spread_over_the_balancers_and_all_go_to_the_one_that_is_left(site):
    site.apply(*BALANCERS)
    assert site.apply(*BALANCERS) == 0
    before = site.flows()
    assert set.union(*before.values()) == set(range(20_000, 20_000 + FLOWS))
    assert min(len(ports) for ports in before.values()) > FLOWS // 8
    assert not set.intersection(*before.values())
    assert site.apply(BALANCERS[1]) > 0
    wanted_after = {BALANCERS[0]: set(), BALANCERS[1]: set(range(20_000, 20_000 + FLOWS))}
    deadline = time.monotonic() + PATIENCE_S
    while site.flows() != wanted_after:  # Open vSwitch revalidates its cache of flows some time after the change
        assert time.monotonic() < deadline
    site.apply()
    assert site.apply() == 0


def test_a_back_end_replies_from_the_virtual_ip_and_from_no_other_address(site):
    site.apply(*BALANCERS)
    for address in ("10.0.0.77", str(VIP)):
        site.machine.run("ip", "addr", "add", f"{address}/32", "dev", "lo")
    for key, value in (("arp_ignore", 1), ("arp_announce", 2)):  # as every back end of direct return needs it
        site.machine.run("sysctl", "-qw", f"net.ipv4.conf.all.{key}={value}")
    site.balancers.run("ip", "addr", "add", f"{vtep_of(2)}/24", "dev", "underlay")
    with _socket_in(site.balancers, vtep_of(2)) as ear:
        ear.settimeout(0.2)
        packet, deadline = b"", time.monotonic() + PATIENCE_S
        while not packet:  # the first ones are lost while the underlay's neighbours are resolved
            assert time.monotonic() < deadline
            for address in ("10.0.0.77", str(VIP)):
                with _client_in(site.machine, address, 80, socket.SOCK_DGRAM) as back_end:
                    back_end.sendto(b"reply", ("10.0.0.2", 20_000))
            with contextlib.suppress(TimeoutError):
                packet = ear.recv(2048)[8 + 14 :]
    assert (packet[12:16], packet[16:20]) == (VIP.packed, ip_address("10.0.0.2").packed)


def test_the_kernels_state_is_read_back_as_it_was_wanted():
    site = Site("kernel")
    try:
        site.apply(*BALANCERS)
        want = wanted(NETWORK, vtep_of(1), GATEWAYS, served_by(*BALANCERS))
        installed = LinuxVtep(vtep_of(1), 1600, site.host.entrance).installed()
        assert installed == replace(want, locals=frozenset(), virtual=frozenset())
        site.apply()
        assert "fdb" not in site.host.run("ip", "nexthop", "show").stdout
    finally:
        site.close()
