"""Kernel clients through the gateway's NAT in the VPC lab: many short connections, many ports, jumbo datagrams."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heddle.dataplane.control.status_socket import read_status, socket_path
from heddle.mininet_topos.vpc.description import GATEWAYS, VNIS, network
from heddle.mininet_topos.vpc.gateways import gateway_config, gateway_process, network_file, write_yaml
from heddle.mininet_topos.vpc.lab import VpcLab
from tests.support.packets.nic_pair import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CLIENTS = Path(__file__).parents[2] / "support" / "packets" / "nat_clients.py"
SERVER, PORT = "198.51.100.10", "8080"
FEW_PORTS = {"first": 20000, "last": 20999}
LONG = pytest.mark.soak


class Gateway:
    """The lab with one gateway, and a server in the internet."""

    def __init__(self, lab: VpcLab, **more: Any) -> None:
        self.lab, directory = lab, lab.entry.directory
        config = write_yaml(directory / "gw1.yaml", gateway_config("gw1", directory, **more))
        file = write_yaml(directory / "network.yaml", network_file(network()))
        self.process = gateway_process(lab.net, lab.entry.environment, config, file)
        self.process.ready()
        lab.program_hosts(network(), dict.fromkeys(VNIS.values(), GATEWAYS["gw1"]))
        self.server = self.started("internet", "serve", SERVER, PORT)
        for node in ("blue1", "internet"):
            lab.net.run(node, "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000")
        wait_for(lambda: self.role("blue1", "connect", SERVER, PORT, "1", "1")["failed"] == 0)

    def command(self, node: str, *words: str) -> list[str]:
        return [*self.lab.net.host(node).entrance, sys.executable, str(CLIENTS), *words]

    def started(self, node: str, *words: str) -> "subprocess.Popen[str]":
        """Start a role that prints a line once it is ready."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(self.command(node, *words), stdin=pipe, stdout=pipe, text=True)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    def role(self, node: str, *words: str) -> dict[str, Any]:
        done = subprocess.run(self.command(node, *words), text=True, capture_output=True, timeout=600, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        print(words[0], found)
        return found

    def status(self) -> dict[str, Any]:
        return read_status(socket_path(self.lab.entry.directory, "gw1"))

    def is_balanced(self) -> bool:
        status = self.status()
        return bool(status["received"] == status["ended"])

    def close(self) -> None:
        self.server.kill()
        self.server.communicate()
        assert self.process.stop() == 0
        assert "Traceback" not in self.process.log()


@pytest.fixture(scope="module")
def lab() -> Iterator[VpcLab]:
    with VpcLab() as found:
        yield found


@pytest.fixture
def gateway(lab: VpcLab, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    running = Gateway(lab, **getattr(request, "param", {}))
    yield running
    running.close()


SHORT, WHOLE = {"nat_ports": FEW_PORTS}, dict[str, Any]()


@pytest.mark.parametrize(
    ("gateway", "count"), [(SHORT, 4_000), pytest.param(WHOLE, 200_000, marks=LONG)], indirect=["gateway"]
)
def test_no_short_connection_fails_however_many_there_are(gateway: Gateway, count: int) -> None:
    found = gateway.role("blue1", "connect", SERVER, PORT, str(count), "8")
    assert found["failed"] == 0
    status = gateway.status()
    assert not {"ports_exhausted", "ports_limited", "connections_full"} & set(status["drops"])
    wait_for(gateway.is_balanced)
    if count < 10_000:
        assert status["gave_way"] > count / 2
        assert "gave way to new ones" in gateway.process.log()


@pytest.mark.parametrize(
    ("gateway", "count", "seconds"), [(WHOLE, 6_000, 1), pytest.param(WHOLE, 60_000, 10, marks=LONG)],
    indirect=["gateway"],
)  # fmt: skip
def test_every_udp_flow_from_a_port_of_its_own_gets_its_reply(gateway: Gateway, count: int, seconds: int) -> None:
    found = gateway.role("blue1", "spread", SERVER, PORT, str(count), str(seconds))
    assert found["replies"] == count
    assert gateway.status()["tables"]["mappings"]["used"] >= count


def test_a_connection_whose_mapping_is_lost_with_the_data_process_is_reset_at_once(gateway: Gateway) -> None:
    held = gateway.started("blue1", "hold", SERVER, PORT)

    def outcome() -> str:
        assert held.stdin is not None
        assert held.stdout is not None
        held.stdin.write("hello\n")
        held.stdin.flush()
        return str(json.loads(held.stdout.readline())["outcome"])

    assert outcome() == "hello"
    before = gateway.status()["pid"]
    gateway.lab.net.run("internet", "kill", "-9", str(before))
    wait_for(lambda: gateway.status()["pid"] not in (0, before) and gateway.status()["backend"] != "")
    assert outcome() == "ConnectionResetError"
    assert gateway.status()["slow_path"]["sent_reset"] >= 1
    held.kill()
    held.communicate()


@pytest.mark.alone  # the lab's Open vSwitch, which has no processor of its own, loses packets where others compute
@pytest.mark.parametrize("seconds", [2, pytest.param(20, marks=LONG)])
def test_jumbo_datagrams_pass_fragmented(gateway: Gateway, seconds: int) -> None:
    counting = gateway.started("internet", "count", "5000", "2")
    sent = gateway.role("blue1", "stream", SERVER, "5000", "8000", str(200_000_000), str(seconds))["sent"]
    out, _ = counting.communicate(timeout=120)
    found = json.loads(out)
    status = gateway.status()
    missed = sum(port["rx_missed"] for port in status["ports"].values())  # the kernel found the ring full
    print(sent, found, missed, status["punts"], status["drops"])
    assert found["bytes"] == 8000
    assert sent > 1000
    assert found["received"] >= sent - missed
    assert "too_big" not in status["punts"]
