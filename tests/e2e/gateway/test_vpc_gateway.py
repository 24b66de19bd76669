"""A gateway in the VPC lab: reachability by real packets through the kernels' VXLAN."""

import subprocess
from collections.abc import Iterator

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.dataplane.control.status_socket import read_status, socket_path
from heddle.mininet_topos.vpc.description import GATEWAYS, VNIS, VPC_MTU_BYTES, network
from heddle.mininet_topos.vpc.gateways import gateway_config, gateway_process, network_file, write_yaml
from heddle.mininet_topos.vpc.lab import VpcLab
from tests.support.packets.nic_pair import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def served() -> Iterator[VpcLab]:
    with VpcLab() as lab:
        directory = lab.entry.directory
        config = write_yaml(directory / "gw1.yaml", gateway_config("gw1", directory))
        file = write_yaml(directory / "network.yaml", network_file(network()))
        gateway = gateway_process(lab.net, lab.entry.environment, config, file)
        gateway.ready()
        lab.program_hosts(network(), dict.fromkeys(VNIS.values(), GATEWAYS["gw1"]))
        yield lab
        assert gateway.stop() == 0
        assert "Traceback" not in gateway.log()


def pings(lab: VpcLab, *paths: tuple[str, ...]) -> list[bool]:
    """Ping on all paths at once; return where a reply arrives. The first may be lost during neighbour resolution.

    A path is the source, and ping's words with the target.
    """
    patient = ("ping", "-c", "5", "-i", "0.2", "-W", "2")
    started = [
        lab.net.host(source).popen([*patient, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for source, *words in paths
    ]
    return [not ping.wait(60) for ping in started]


REACHED = {
    "its gateway": ("red1", "10.0.0.254"),
    "its gateway by IPv6": ("red1", "fd00:10::fe"),
    "another subnet of its VPC": ("red1", "10.0.1.3"),
    "the other tenant does as well": ("blue1", "10.0.1.3"),
    "a peer that allows it": ("red1", "10.9.0.1"),
    "and back": ("green1", "10.0.0.1"),
    "the internet, by NAT": ("red1", "198.51.100.10"),
    "the internet, by an address that two VPCs share": ("green1", "198.51.100.10"),
    "the internet, by a floating IP": ("red2", "198.51.100.10"),
    "its own site": ("blue1", "172.16.0.10"),
    "a VPC from its site": ("site", "10.0.0.1"),
}
REFUSED = {
    "a VPC that is no peer": ("blue1", "10.9.0.1"),
    "another tenant's site": ("red1", "172.16.0.10"),
    "the storage network, but for what the border allows": ("red1", "192.0.2.10"),
    "the management network": ("red1", "192.0.2.200"),
    "a floating IP, but for what its rules allow": ("internet", "203.0.113.20"),
    "a peer by a family that no rule allows": ("red1", "fd00:9::1"),
}


@pytest.fixture(scope="module")
def replied(served) -> dict[tuple[str, str], bool]:
    """On which paths a reply arrives: all have the same time."""
    paths = [*REACHED.values(), *REFUSED.values()]
    return dict(zip(paths, pings(served, *paths), strict=True))


@pytest.mark.parametrize("path", REACHED.values(), ids=REACHED)
def test_it_reaches(replied, path):
    assert replied[path]


@pytest.mark.parametrize("path", REFUSED.values(), ids=REFUSED)
def test_it_does_not_reach(replied, path):
    assert not replied[path]


def test_a_packet_of_four_kilobytes_is_routed_whole(served):
    assert pings(served, ("red1", "-s", str(VPC_MTU_BYTES - 28), "-M", "do", "10.0.1.3")) == [True]


def test_a_packet_above_the_mtu_gets_an_error_with_the_mtu(served):
    with pytest.raises(PrerequisiteError):
        served.net.run("red1", "ping", "-c", "2", "-W", "2", "-s", "2000", "-M", "do", "198.51.100.10")
    route = served.net.run("red1", "ip", "route", "get", "198.51.100.10")
    assert "mtu 1500" in route


def test_received_packets_are_transmitted_punted_or_dropped(served):
    assert pings(served, ("red1", "10.0.1.3")) == [True]

    def counters_agree() -> bool:
        found = read_status(socket_path(served.entry.directory, "gw1"))
        return found["received"] == found["ended"] > 0

    wait_for(counters_agree)  # a packet may be in flight
