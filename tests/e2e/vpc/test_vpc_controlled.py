"""The VPC lab under its controller: changes reach hosts and gateways, and failures of programs stop no traffic."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

import pytest

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.config.network import Endpoint, NetworkConfig
from heddle.dataplane.control.status_socket import read_status, socket_path
from heddle.foundation.address import mac_text
from heddle.mininet_topos.vpc.description import HOSTS, MACHINES, network
from heddle.mininet_topos.vpc.gateways import network_file, write_yaml
from heddle.mininet_topos.vpc.probes import SERVICES, Probe, Prober
from heddle.mininet_topos.vpc.reach import all_probes, nodes
from heddle.mininet_topos.vpc.served import ServedLab
from tests.e2e.vpc.test_vpc_lab import ear_of
from tests.support.packets.namespaces import Namespace
from tests.support.processes.commands import Commands

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
TIMEOUT_S = 60
WHOLE = network()
COMMANDS = Commands()


def heddle(lab: ServedLab, *words: str) -> Any:
    return COMMANDS.result(*words, "--server", lab.server, "--json")


def apply(lab: ServedLab, wanted: NetworkConfig, folder: Path) -> None:
    heddle(lab, "vpc", "apply", str(write_yaml(folder / "tenants.yaml", network_file(wanted))))


@pytest.fixture(scope="module")
def running() -> Iterator[ServedLab]:
    with ServedLab("mixed") as lab, closing(COMMANDS):
        yield lab
        for name in lab.processes:
            assert "Traceback" not in lab.processes[name].log(), lab.processes[name].log()


@pytest.fixture
def lab(running, tmp_path) -> ServedLab:
    apply(running, WHOLE, tmp_path)
    return running


def who(lab: ServedLab, source: str, target: str) -> str:
    """Return the node that replies to a ping, "" for none."""
    (node,) = replies(lab, (source, target))
    return node


def replies(lab: ServedLab, *paths: tuple[str, str]) -> list[str]:
    """Ping on all paths at once; return the nodes that reply, "" for none within the timeout of the prober."""
    probes = [Probe(source, ip_address(target), SERVICES[0]) for source, target in paths]
    with Prober(nodes(lab.lab.net)) as prober:
        results = prober.run(probes)
    return [results[probe].by for probe in probes]


@contextmanager
def nothing_lost(lab: ServedLab, *paths: tuple[str, str]) -> Iterator[None]:
    """Ping twenty times a second on each path during the block; every echo needs a reply."""
    for source, target in paths:
        lab.lab.net.run(source, "ping", "-c", "5", "-i", "0.2", target)
    with ExitStack() as running:
        pings = {
            path: running.enter_context(Echoes(lab, lab.directory / f"ping{number}", *path))
            for number, path in enumerate(paths)
        }
        yield
        sent = {path: ping.newest() for path, ping in pings.items()}
        # These replies follow everything sent during the block.
        until(lambda: all(ping.newest() > sent[path] + 20 for path, ping in pings.items()))
        assert {path: ping.lost() for path, ping in pings.items() if ping.lost()} == {}


class Echoes:
    """A ping that runs during the block, with the numbers of its replies."""

    def __init__(self, lab: ServedLab, file: Path, source: str, target: str) -> None:
        self._file = file
        with file.open("wb") as output:
            self._process = lab.lab.net.host(source).popen(["ping", "-i", "0.05", target], stdout=output)

    def __enter__(self) -> "Echoes":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def came(self) -> list[int]:
        return [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", self._file.read_text())]

    def newest(self) -> int:
        return max(self.came(), default=0)

    def lost(self) -> list[int]:
        """Return the numbers before the newest that are missing; later ones may be under path."""
        return sorted(set(range(1, self.newest())) - set(self.came()))


WAYS = (("red1", "10.0.0.2"), ("red2", "10.0.1.3"), ("blue1", "10.0.1.3"), ("green1", "198.51.100.10"))
"""Between hosts of both kinds, and through the gateway: within a VPC and to the internet."""


def everything_agrees(lab: ServedLab) -> bool:
    return all(row.agrees for row in lab.reach(all_probes(("red1", "blue2", "green1", "site", "internet"))))


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def without(machine: str) -> NetworkConfig:
    (gone,) = [m for m in MACHINES if m.name == machine]
    addresses = {ip_interface(address).ip for address in gone.addresses}
    red = WHOLE.vpcs[0]
    left = tuple(endpoint for endpoint in red.endpoints if endpoint.ip not in addresses)
    return replace(WHOLE, vpcs=(replace(red, endpoints=left, floating_ips=()), *WHOLE.vpcs[1:]))


@pytest.mark.parametrize(("machine", "peer", "address"), [("red1", "red2", "10.0.0.1"), ("red2", "red1", "10.0.0.2")])
def test_a_removed_endpoint_is_unreachable_and_an_added_one_reachable_at_once(lab, tmp_path, machine, peer, address):
    twin, paths = "blue" + machine[-1], [(source, address) for source in (peer, "red3", "blue3")]
    apply(lab, without(machine), tmp_path)
    assert replies(lab, *paths) == ["", "", twin]
    apply(lab, WHOLE, tmp_path)
    assert replies(lab, *paths) == [machine, machine, twin]


def test_packets_of_a_removed_endpoint_are_dropped(lab, tmp_path):
    apply(lab, without("red2"), tmp_path)
    paths = (("red2", "10.0.0.1"), ("red2", "198.51.100.10"), ("red1", "10.0.1.3"))
    assert replies(lab, *paths) == ["", "", "red3"]


def test_a_peering_ends_and_begins_by_command(lab):
    heddle(lab, "vpc", "unpeer", "red", "green")
    assert who(lab, "red1", "10.9.0.1") == ""
    heddle(lab, "vpc", "peer", "red", "green")
    assert who(lab, "red1", "10.9.0.1") == "green1"


def test_a_change_of_one_vpc_loses_no_packet_of_any(lab, tmp_path):
    with nothing_lost(lab, *WAYS):
        apply(lab, replace(WHOLE, border=()), tmp_path)
        apply(lab, WHOLE, tmp_path)


@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_restart_of_a_vtep_agent_loses_no_packet(lab, host):
    with nothing_lost(lab, *WAYS):
        lab.processes[host].kill()
        time.sleep(0.5)
        lab.start_agent(host)
        lab.processes[host].ready()
        lab.await_attached()
        until(lambda: runs_newest(lab, host))
    assert everything_agrees(lab)


def runs_newest(lab: ServedLab, name: str) -> bool:
    known = heddle(lab, "vpc", "gateways")
    return any(
        each["hello"]["gateway_id"] == name and each["acknowledged_generation"] == known["generation"]
        for each in known["gateways"]
    )


def test_traffic_continues_over_a_restart_of_the_controller(lab, tmp_path):
    with nothing_lost(lab, *WAYS):
        lab.processes["controller"].kill()
        time.sleep(1)
        assert who(lab, "blue3", "172.16.0.10") == "site"
        lab.start_controller()
        lab.await_attached()
        assert who(lab, "red3", "198.51.100.10") == "internet"
    apply(lab, WHOLE, tmp_path)
    assert everything_agrees(lab)
    assert heddle(lab, "verify", "isolation")["sound"]


def test_a_killed_gateway_gets_the_whole_state(lab):
    lab.processes["gw1"].kill()
    lab.start_gateway("gw1")
    lab.processes["gw1"].ready()
    lab.await_attached()
    until(lambda: runs_newest(lab, "gw1"))
    assert everything_agrees(lab)


@contextmanager
def neighbour_of(lab: ServedLab, thief: str, folder: Path) -> Iterator[Namespace]:
    """Add machine red7 to the thief's host and VPC."""
    (host, vtep) = ("h1", HOSTS["h1"]) if thief == "red1" else ("h2", HOSTS["h2"])
    red = WHOLE.vpcs[0]
    seventh = Endpoint(ip=ip_address("10.0.0.7"), mac=0x0200_0000_0007, vtep=vtep)
    machine = Namespace()
    try:
        link = ("ip", "link", "add", "red7", "mtu", "1450", "type", "veth", "peer", "name", "eth0")
        lab.lab.net.run(host, *link, "address", mac_text(seventh.mac), "netns", str(machine.pid))
        lab.lab.net.run(host, "ip", "link", "set", "red7", "up", "alias", f"heddle:100/{mac_text(seventh.mac)}")
        off = [word for feature in ("tx", "tso", "gso") for word in (feature, "off")]
        machine.run("ethtool", "-K", "eth0", *off)
        machine.run("ip", "link", "set", "eth0", "up")
        machine.run("ip", "addr", "add", f"{seventh.ip}/24", "dev", "eth0")
        machine.run("ip", "route", "add", "default", "via", "10.0.0.254")
        apply(lab, replace(WHOLE, vpcs=(replace(red, endpoints=(*red.endpoints, seventh)), *WHOLE.vpcs[1:])), folder)
        until(lambda: machine.pings("198.51.100.10", count=1))
        yield machine
    finally:
        machine.run("ip", "link", "del", "eth0")
        machine.close()


@pytest.mark.parametrize("thief", ["red1", "red2"])
def test_a_machine_that_steals_its_gateways_mac_gets_no_packet_of_its_neighbour(lab, tmp_path, thief):
    with neighbour_of(lab, thief, tmp_path) as victim, ear_of(lab.lab, thief) as ear:
        theft = bytes.fromhex("ffffffffffff") + gateway_mac(100).to_bytes(6, "big") + b"\x08\x06" + bytes(46)
        ear.bind(("eth0", 0))
        ear.send(theft)
        assert " 0% packet loss" in victim.run("ping", "-c", "20", "-i", "0.05", "198.51.100.10").stdout
        astray = 0
        with suppress(BlockingIOError):
            while True:
                astray += ear.recv(1 << 16)[6:12] == bytes.fromhex("020000000007")
        assert astray == 0


def test_tcp_with_the_checksums_of_a_veth_with_offloads_is_counted_and_reported_once(lab):
    veths = (("red1", "eth0"), ("h1", "underlay"))
    for node, device in veths:
        lab.lab.net.run(node, "ethtool", "-K", device, "tx", "on")
    try:
        for _ in range(2):
            lab.lab.net.host("red1").popen(
                ["timeout", "1", "bash", "-c", ": < /dev/tcp/198.51.100.10/22"]
            ).communicate()
        until(lambda: "wrong checksums" in lab.processes["gw1"].log())
    finally:
        for node, device in veths:
            lab.lab.net.run(node, "ethtool", "-K", device, "tx", "off")
    assert lab.processes["gw1"].log().count("wrong checksums") == 1
    assert read_status(socket_path(lab.directory, "gw1"))["drops"]["bad_checksum"] >= 2


def test_flows_deleted_from_open_vswitch_are_restored_and_the_agent_says_so(lab):
    agent, flows = lab.processes["h2"], ("ovs-ofctl", "-O", "OpenFlow14")
    before = len(agent.log())

    def deleted_and_reported() -> bool:
        lab.lab.switches["h2"].run(*flows, "del-flows", "vpc")
        until(lambda: "actions=" in lab.lab.switches["h2"].run(*flows, "dump-flows", "vpc"))
        until(lambda: who(lab, "red2", "10.0.0.1") == "red1")
        return "differed from the desired state: repaired" in agent.log()[before:]

    # What an earlier test changed may arrive just now. It restores the flows as well, and reports nothing.
    until(deleted_and_reported)
