"""`heddle gateway` on veth pairs: it forwards, reloads without a lost packet, comes back from a crash, and ends."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from dataplane.control.window import ask, socket_of
from mininet_topos.queues.attach import network_namespace
from tests.e2e.veth_ports import Wires

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

HEDDLE = (sys.executable, "-m", "controller.cli.main")
READY_S = 300
"""Without compiled kernels on disk the first start makes them."""
PATIENCE_S = 120
HOST, HOST_MAC, ROUTER, ROUTER_MAC = "192.0.2.5", "02:aa:00:00:00:05", "198.51.100.254", "02:bb:00:00:00:fe"
GATEWAY_MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
NETWORK = {
    "vpcs": [
        {
            "id": "red",
            "vni": 77,
            "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}],
            "endpoints": [{"ip": "10.0.0.5", "mac": "02:10:00:00:00:05", "vtep_ip": HOST}],
            "nat": {"public_ip": "198.51.100.10"},
        }
    ]
}


class Running:
    """A gateway process on wires 0 (underlay) and 1 (external), and the machines at their other ends."""

    def __init__(self, wires: Wires, folder: Path, backend: str) -> None:
        self.wires, self.folder = wires, folder
        self.id = f"gw-{os.getpid()}-{backend}"
        self.network = folder / "network.yaml"
        self.serve(NETWORK)
        config = {
            "gateway_id": self.id,
            "runtime_dir": str(folder),
            "backend": backend,
            "limits": {"connections": 1 << 14, "mappings": 1 << 12},
            "interfaces": [
                {"name": "g0", "side": "underlay", "mac": GATEWAY_MACS[0], "address": "192.0.2.1",
                 "network": "192.0.2.0/24"},
                {"name": "g1", "side": "external", "mac": GATEWAY_MACS[1], "address": "198.51.100.1",
                 "network": "198.51.100.0/24", "router": ROUTER},
            ],
        }  # fmt: skip
        (folder / "gateway.yaml").write_text(yaml.safe_dump(config))
        inside = ("nsenter", "-t", str(wires.near.pid), "-n")
        self.errors = folder / "errors"
        command = [
            *inside,
            *HEDDLE,
            "gateway",
            "--config",
            str(folder / "gateway.yaml"),
            "--network",
            str(self.network),
        ]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.held: list[list[bytes]] = [[], []]
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], READY_S)[0], self.told()
        self.ready = json.loads(self.process.stdout.readline() or "{}")
        assert self.ready, self.told()

    def serve(self, network: dict) -> None:
        self.network.write_text(yaml.safe_dump(network))

    def told(self) -> str:
        """Return what it wrote to standard error so far."""
        return self.errors.read_text()

    def look(self) -> None:
        """Answer what asks for a machine's address, and keep the rest."""
        for port, (address, mac) in enumerate(((HOST, HOST_MAC), (ROUTER, ROUTER_MAC))):
            for frame in self.wires.arrived(port):
                if frame[12:14] != b"\x08\x06":
                    self.held[port].append(frame)
                    continue
                asked = Ether(frame)[ARP]
                if asked.op == 1 and asked.pdst == address:
                    answer = ARP(op=2, hwsrc=mac, psrc=address, hwdst=asked.hwsrc, pdst=asked.psrc)
                    self.wires.send(port, bytes(Ether(src=mac, dst=asked.hwsrc) / answer))

    def send(self, number: int) -> None:
        """Have the tenant's machine send a numbered packet to the internet."""
        told = UDP(sport=4000, dport=5000) / Raw(number.to_bytes(4, "big"))
        inner = Ether(src="02:10:00:00:00:05", dst="02:48:00:00:00:4d") / IP(src="10.0.0.5", dst="203.0.113.9") / told
        outer = IP(src=HOST, dst="192.0.2.1", flags="DF") / UDP(sport=50000, dport=4789, chksum=0)
        self.wires.send(0, bytes(Ether(src=HOST_MAC, dst=GATEWAY_MACS[0]) / outer / VXLAN(vni=77, flags=8) / inner))

    def arrived(self) -> list[int]:
        """Return the numbers of what came out to the internet."""
        self.look()
        frames, self.held[1] = self.held[1], []
        return [int.from_bytes(bytes(Ether(frame)[Raw])[:4], "big") for frame in frames]

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert self.process.poll() is None, self.told()
            assert time.monotonic() < deadline, f"waited in vain: {self.told()}"
            time.sleep(0.01)

    def forwards(self) -> None:
        """Wait until packets pass: neighbours have to be found first."""

        def one_passed() -> bool:
            self.send(0)
            time.sleep(0.02)
            return bool(self.arrived())

        self.until(one_passed)
        self.until(lambda: not self.arrived() and self.at_rest())

    def at_rest(self) -> bool:
        found = self.status()
        time.sleep(0.05)
        return found["received"] == found["ended"] == self.status()["received"]

    def status(self) -> dict:
        return ask(socket_of(self.folder, self.id))

    def show(self, *options: str) -> str:
        """Return what `heddle gateway show` prints."""
        command = [*HEDDLE, "gateway", "show", self.id, "--runtime-dir", str(self.folder), *options]
        return subprocess.run(command, text=True, capture_output=True, timeout=READY_S, check=True).stdout

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.communicate()


@pytest.fixture
def wires() -> Iterator[Wires]:
    wires = Wires()
    yield wires
    wires.close()


@pytest.fixture(params=["af-xdp", "af-packet"])
def gateway(request: pytest.FixtureRequest, wires: Wires, tmp_path: Path) -> Iterator[Running]:
    running = Running(wires, tmp_path, request.param)
    yield running
    running.close()


def test_it_forwards_counts_and_ends(gateway: Running) -> None:
    assert gateway.ready["ready"] is True
    gateway.forwards()
    for number in range(500):
        gateway.send(number)
    seen: list[int] = []
    gateway.until(lambda: len(seen_by(gateway, seen)) >= 500)
    assert seen == list(range(500))
    gateway.until(gateway.at_rest)
    found = json.loads(gateway.show("--json"))
    assert "connections: 1 of 16,384" in gateway.show()
    assert found["tables"]["connections"]["used"] == 1
    assert not set(found["drops"]) - {"no_neighbour"}
    assert gateway.stop() == 0
    assert gateway.told() == "" or "AF_PACKET" in gateway.told()
    assert not Path(f"/proc/{found['pid']}").exists()


def seen_by(gateway: Running, seen: list[int]) -> list[int]:
    seen += gateway.arrived()
    return seen


def reloaded(gateway: Running, times: int) -> bool:
    return gateway.told().count("is served as read anew") >= times


def test_a_reload_under_traffic_loses_nothing(gateway: Running) -> None:
    gateway.forwards()
    sent, stop = [0], threading.Event()

    def keep_sending() -> None:
        while not stop.is_set():
            sent[0] += 1
            gateway.send(sent[0])

    thread = threading.Thread(target=keep_sending)
    thread.start()
    seen: list[int] = []
    try:
        for reload in range(1, 6):
            vpc = {**NETWORK["vpcs"][0], "security_rules": [{"allow": True, "direction": "out", "protocol": "any",
                   "remote_cidr": f"203.0.{reload}.0/24"}]}  # fmt: skip
            gateway.serve({"vpcs": [vpc]})
            gateway.process.send_signal(signal.SIGHUP)
            gateway.until(partial(reloaded, gateway, reload))
            seen_by(gateway, seen)
    finally:
        stop.set()
        thread.join()
    gateway.until(lambda: len(seen_by(gateway, seen)) >= sent[0])
    assert seen == list(range(1, sent[0] + 1))
    assert gateway.stop() == 0


def test_a_network_file_that_is_unsound_changes_nothing(gateway: Running) -> None:
    gateway.forwards()
    gateway.serve({"vpcs": [{**NETWORK["vpcs"][0], "vni": 0}]})
    gateway.process.send_signal(signal.SIGHUP)
    gateway.until(lambda: "what was served before goes on" in gateway.told())
    assert "vni: 0 is not within" in gateway.told()
    gateway.forwards()
    assert gateway.stop() == 0


def test_a_data_process_that_is_killed_comes_back_and_the_books_agree(gateway: Running) -> None:
    gateway.forwards()
    old = gateway.status()["pid"]
    os.kill(old, signal.SIGKILL)
    gateway.until(lambda: gateway.status()["pid"] not in (0, old) and gateway.status()["generation_in_use"] > 0)
    gateway.forwards()
    found = gateway.status()
    assert found["restarts"] == 1
    assert found["received"] == found["ended"]
    assert gateway.told().count("the data process was ended by SIGKILL; started again in") == 1
    assert gateway.stop() == 0


def test_when_the_control_process_is_killed_nothing_is_left(gateway: Running) -> None:
    pid = gateway.status()["pid"]
    gateway.process.kill()
    gateway.process.wait(60)
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_answers_ping_and_tells_its_metrics(gateway: Running) -> None:
    gateway.forwards()
    gateway.wires.near.run("ip", "link", "set", "lo", "up")
    with network_namespace(gateway.wires.near.pid):
        page = urllib.request.urlopen(f"http://{gateway.ready['metrics']}/metrics", timeout=60).read().decode()
    assert 'heddle_gateway_received_packets_total{port="g0"}' in page
    ping = Ether(src=ROUTER_MAC, dst=GATEWAY_MACS[1]) / IP(src=ROUTER, dst="198.51.100.1") / ICMP(id=7, seq=1)
    gateway.wires.send(1, bytes(ping))

    def answered() -> bool:
        gateway.look()
        return any(ICMP in Ether(frame) and Ether(frame)[ICMP].type == 0 for frame in gateway.held[1])

    gateway.until(answered)
    assert gateway.stop() == 0


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ({"interfaces": [{"name": "nowhere0", "side": "underlay", "address": "192.0.2.1"}]}, 2, "nowhere0"),
        ({"interfaces": [{"name": "nowhere0", "side": "underlay", "address": "192.0.2.1", "mac": GATEWAY_MACS[0]}]},
         1, "nowhere0"),
        ({"backnd": "auto"}, 2, "backnd: unknown key, did you mean backend?"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_said_in_one_line(tmp_path: Path, change: dict, status: int, why: str) -> None:
    config = {
        "gateway_id": "gw-none", "runtime_dir": str(tmp_path),
        "interfaces": [{"name": "lo", "side": "underlay", "address": "192.0.2.1", "mac": GATEWAY_MACS[0]}], **change,
    }  # fmt: skip
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(config))
    said = subprocess.run(
        ["unshare", "--net", *HEDDLE, "gateway", "--config", str(tmp_path / "gateway.yaml")],
        text=True, capture_output=True, timeout=READY_S,
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (status, "")
    assert len(said.stderr.splitlines()) == 1
    assert why in said.stderr
