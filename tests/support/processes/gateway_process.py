"""Run `heddle gateway` on veth pairs, and act as the hosts at their other ends."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.control.status_socket import read_status, socket_path
from tests.support.packets.veth_ports import Wires

HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")
READY_S = 900
"""The first start compiles kernels if the cache is empty."""
PATIENCE_S = 120
HOST, HOST_MAC, ROUTER, ROUTER_MAC = "192.0.2.5", "02:aa:00:00:00:05", "198.51.100.254", "02:bb:00:00:00:fe"
GATEWAY_MACS = tuple(f"02:00:00:00:00:0{number}" for number in range(1, 5))
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
    """A gateway process on wires 0 (underlay) and 1 (external), and the hosts at their other ends."""

    def __init__(
        self, wires: Wires, folder: Path, backend: str, *, number: int = 1, more: Mapping[str, Any] | None = None,
        under: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Start a pair's gateway `number`, 1 or 2, on its own wires.

        `more` extends its config file; `under` is a command prefix, such as `setpriv …`.
        """
        self.wires, self.folder, self.ports = wires, folder, (2 * number - 2, 2 * number - 1)
        self.id = f"gw{number}-{os.getpid()}-{backend}"
        self.network = folder / f"network{number}.yaml"
        self.macs = GATEWAY_MACS[2 * number - 2 : 2 * number]
        self.vtep, own = f"192.0.2.{number}", f"198.51.100.{number}"
        inward, out = (wires.names[port] for port in self.ports)
        self.serve(NETWORK)
        config = {
            "gateway_id": self.id,
            "runtime_dir": str(folder),
            "backend": backend,
            "limits": {"connections": 1 << 14, "mappings": 1 << 12},
            "interfaces": [
                {"name": inward, "side": "underlay", "mac": self.macs[0], "address": self.vtep,
                 "network": "192.0.2.0/24"},
                {"name": out, "side": "external", "mac": self.macs[1], "address": own, "network": "198.51.100.0/24",
                 "router": ROUTER},
            ],
            **(more or {}),
        }  # fmt: skip
        path = folder / f"gateway{number}.yaml"
        path.write_text(yaml.safe_dump(config))
        inside = ("nsenter", "-t", str(wires.near.pid), "-n", *under)
        self.errors = folder / f"errors{number}"
        command = [*inside, *HEDDLE, "gateway", "--config", str(path)]
        if "controller" not in config:
            command += ["--network", str(self.network)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.held: list[list[bytes]] = [[], []]
        try:
            self.ready = self._ready()
        except BaseException:
            self.close()
            raise

    def _ready(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], READY_S)[0], self.log_text()
        line = self.process.stdout.readline()
        assert line, self.log_text()
        return json.loads(line)

    def serve(self, network: dict) -> None:
        self.network.write_text(yaml.safe_dump(network))

    def log_text(self) -> str:
        """Return what the process has written to standard error."""
        return self.errors.read_text()

    def poll(self) -> None:
        """Reply to ARP requests for the hosts' addresses, and keep the other frames received."""
        for side, (address, mac) in enumerate(((HOST, HOST_MAC), (ROUTER, ROUTER_MAC))):
            port = self.ports[side]
            for frame in self.wires.arrived(port):
                request = Ether(frame).getlayer(ARP)
                if request is not None and request.op == 1 and request.pdst == address:
                    reply = ARP(op=2, hwsrc=mac, psrc=address, hwdst=request.hwsrc, pdst=request.psrc)
                    self.wires.send(port, bytes(Ether(src=mac, dst=request.hwsrc) / reply))
                else:
                    self.held[side].append(frame)

    def send(self, number: int, vtep: str = "") -> None:
        """Send a numbered packet of the tenant to the internet, through this gateway's VTEP or another."""
        udp = UDP(sport=4000, dport=5000) / Raw(number.to_bytes(4, "big"))
        inner = Ether(src="02:10:00:00:00:05", dst="02:48:00:00:00:4d") / IP(src="10.0.0.5", dst="203.0.113.9") / udp
        outer = IP(src=HOST, dst=vtep or self.vtep, flags="DF") / UDP(sport=50000, dport=4789, chksum=0)
        self.wires.send(
            self.ports[0], bytes(Ether(src=HOST_MAC, dst=self.macs[0]) / outer / VXLAN(vni=77, flags=8) / inner)
        )

    def outside(self) -> list[Packet]:
        """Return the tenant's packets received on the external wire."""
        self.poll()
        frames, self.held[1] = self.held[1], []
        return [packet for packet in map(Ether, frames) if UDP in packet]

    def arrived(self) -> list[int]:
        """Return the numbers of the tenant's packets received on the external wire."""
        return [int.from_bytes(bytes(packet[Raw])[:4], "big") for packet in self.outside()]

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert self.process.poll() is None, self.log_text()
            assert time.monotonic() < deadline, f"timeout: {self.log_text()}"
            time.sleep(0.01)

    def forwards(self) -> None:
        """Wait until packets pass: neighbours have to be resolved first."""

        def one_passed() -> bool:
            self.send(0)
            time.sleep(0.02)
            return bool(self.arrived())

        self.until(one_passed)
        self.until(lambda: self.at_rest() and not self.arrived())  # in this order: none arrives after the look for them

    def at_rest(self) -> bool:
        found = self.status()
        time.sleep(0.05)
        return found["received"] == found["ended"] == self.status()["received"]

    def status(self) -> dict:
        return read_status(socket_path(self.folder, self.id))

    def show(self, *options: str) -> str:
        """Return what `heddle gateway show` prints."""
        command = [*HEDDLE, "gateway", "show", self.id, "--runtime-dir", str(self.folder), *options]
        return subprocess.run(command, text=True, capture_output=True, timeout=READY_S, check=True).stdout

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.communicate()
