"""`heddle balancer` attached to a controller: services by call, health to events, tables explained and verified."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest
import yaml

from heddle.dataplane.control.status_socket import read_status, socket_path
from tests.support.controllers.served_controller import served
from tests.support.packets.namespaces import Namespace, join
from tests.support.processes.commands import Commands

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")
READY_S, PATIENCE_S = 800, 60
ENDS = ("10.0.0.51", "10.0.0.52")
LISTEN = "import socket,sys,time\nears = [socket.create_server((ip, 80)) for ip in sys.argv[1:]]\ntime.sleep(999)"
NETWORK = {
    "vpcs": [{
        "id": "red", "vni": 100, "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}],
        "endpoints": [
            {"ip": ip, "mac": f"02:00:00:00:00:{ip[-2:]}", "vtep_ip": "192.0.2.5"} for ip in ("10.0.0.10", *ENDS)
        ],
    }],
    "load_balancers": [{
        "id": "web", "vpc_id": "red", "vip": "10.0.0.100", "port": 80, "backends": [{"ip": ip} for ip in ENDS],
        "health_check": {"kind": "tcp", "interval_ms": 100, "timeout_ms": 90, "rise": 1, "fall": 1},
    }],
}  # fmt: skip


class Site:
    """A controller, and a balancer in a namespace whose loopback has the back ends' addresses, for its probes."""

    def __init__(self, controller, folder):
        self.controller, self.folder, self.commands = controller, folder, Commands()
        self.space, self.other = Namespace(), Namespace()
        join(self.space, "u0", self.other, "u1", mtu_bytes=1600)
        for ip in ENDS:
            self.space.run("ip", "addr", "add", f"{ip}/32", "dev", "lo")
        self.listening: Any = None
        self.listen()
        path = folder / "lb1.yaml"
        path.write_text(yaml.safe_dump({
            "version": 1, "balancer_id": "lb1", "controller": controller.grpc, "runtime_dir": str(folder),
            "backend": "af-packet", "connections": 1 << 12,
            "interfaces": [{"name": "u0", "address": "192.0.2.1", "network": "192.0.2.0/24"}],
            "sites": [{"vpc": "red", "source_pool": ["10.0.0.201"]}],
        }))  # fmt: skip
        self.errors = folder / "errors"
        with self.errors.open("w") as errors:
            self.process = self.space.start(
                *HEDDLE, "balancer", "--config", str(path), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.process.stdout
        assert json.loads(self.process.stdout.readline())["ready"], self.errors.read_text()

    def listen(self):
        self.listening = self.space.start(sys.executable, "-c", LISTEN, *ENDS)

    def heddle(self, *words):
        done = self.commands.run(*words, "--server", self.controller.grpc)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def healthy(self):
        (found,) = json.loads(self.heddle("vpc", "balancers", "--json"))["load_balancers"]
        return [end["ip"] for end in found["backends"] if end.get("healthy")]

    def until(self, holds):
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.errors.read_text()
            time.sleep(0.1)

    def close(self):
        self.commands.close()
        for process in (self.listening, self.process):
            process.terminate()
            process.wait(30)
        if self.process.stdout:
            self.process.stdout.close()
        for space in (self.space, self.other):
            space.close()


@pytest.fixture
def site(tmp_path):
    with served(grpc=f"unix:{tmp_path}/grpc", vteps=["192.0.2.0/24"]) as controller:
        found = Site(controller, tmp_path)
        yield found
        found.close()


def test_a_balancer_serves_what_a_controller_sends_and_reports_its_health(site, tmp_path):
    path = tmp_path / "network.yaml"
    path.write_text(yaml.safe_dump(NETWORK))
    site.heddle("vpc", "apply", str(path))
    (service,) = read_status(socket_path(site.folder, "lb1"))["balancer"]["services"]
    assert (service["id"], [end["ip"] for end in service["back_ends"]]) == ("web", list(ENDS))
    site.until(lambda: site.healthy() == list(ENDS))
    generation = read_status(socket_path(site.folder, "lb1"))["generation_offered"]

    flow = ("explain", "--vip", "red/10.0.0.100:80", "--from", "10.0.0.10:40000", "--json")
    (explained,) = json.loads(site.heddle(*flow))["balancers"]
    assert explained["back_end"]["ip"] in ENDS
    assert any("32768 slots" in line or "32769 slots" in line for line in explained["why"])
    assert json.loads(site.heddle("verify", "isolation", "--json"))["balancers"] == {"lb1": []}

    site.listening.terminate()
    site.until(lambda: site.healthy() == [])
    (explained,) = json.loads(site.heddle(*flow))["balancers"]
    assert (explained["back_end"], explained["text"]) == (None, "lb1: refused: no back end is up")
    events = [json.loads(line) for line in site.heddle("events", "--json").splitlines()]
    texts = [each["text"] for each in events if each["subject"] == "web"]
    assert "all back ends are down at lb1; new connections are refused" in texts
    site.listening.wait(10)
    site.listen()
    site.until(lambda: site.healthy() == list(ENDS))
    (explained,) = json.loads(site.heddle(*flow))["balancers"]
    assert explained["back_end"]["ip"] in ENDS
    # Health is written into the tables in use: no generation is compiled for it.
    assert read_status(socket_path(site.folder, "lb1"))["generation_offered"] == generation
