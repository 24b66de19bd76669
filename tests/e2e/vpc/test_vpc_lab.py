"""The VPC lab: nodes are where the description places them, and tenants share nothing but addresses."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.vpc.description import GATEWAYS, HOSTS, MACHINES, VNIS, VPC_MTU_BYTES, network
from heddle.mininet_topos.vpc.lab import VpcLab

pytestmark = pytest.mark.e2e
ETH_P_ALL = 3
MARK = b"of red's"


@pytest.fixture(scope="module")
def lab() -> Iterator[VpcLab]:
    with VpcLab() as lab:
        lab.program_hosts(network(), dict.fromkeys(VNIS.values(), GATEWAYS["gw1"]))
        yield lab


def pings(lab: VpcLab, source: str, *words: str) -> bool:
    try:
        lab.net.run(source, "ping", "-c", "2", "-i", "0.1", "-W", "2", *words)
    except PrerequisiteError:
        return False
    return True


def test_hosts_reach_each_other_on_the_underlay(lab):
    assert all(pings(lab, a, str(ip)) for a in HOSTS for host, ip in HOSTS.items() if host != a)


@pytest.mark.parametrize("tenant", ["red", "blue"])
@pytest.mark.parametrize("address", ["10.0.0.2", "fd00:10::2"])
def test_machines_of_a_subnet_reach_each_other_with_packets_of_full_size(lab, tenant, address):
    head = 28 if "." in address else 48
    assert pings(lab, f"{tenant}1", "-s", str(VPC_MTU_BYTES - head), "-M", "do", address)


def test_frames_of_one_tenant_reach_no_machine_of_another(lab):
    with ExitStack() as opened:
        ears = {machine: opened.enter_context(ear_of(lab, machine.name)) for machine in MACHINES}
        assert pings(lab, "red1", "-p", MARK.hex(), "10.0.0.2")
        heard = {machine.name: frames_of_red(ear) for machine, ear in ears.items()}
    assert heard.pop("red1") > 0
    assert heard.pop("red2") > 0
    assert heard == dict.fromkeys(heard, 0)


def ear_of(lab: VpcLab, machine: str) -> socket.socket:
    """Open a packet socket that receives all frames of a machine."""
    with network_namespace(lab.net.host(machine).pid):
        ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    ear.setblocking(False)
    return ear


def frames_of_red(ear: socket.socket) -> int:
    found = 0
    with suppress(BlockingIOError):
        while True:
            found += MARK in ear.recv(1 << 16)
    return found


def test_the_site_is_behind_its_vlan_and_the_internet_on_its_own_segment(lab):
    assert pings(lab, "storage", "192.0.2.200")
    assert not pings(lab, "internet", "172.16.0.1")
