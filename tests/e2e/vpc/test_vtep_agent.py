"""A host's agent follows the interfaces of its endpoints when they appear, disappear and are renamed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml

from heddle.dataplane.vtep.linux import LinuxVtep
from heddle.foundation.address import mac_text
from tests.support.controllers.controller_process import PATIENCE_S
from tests.support.packets.namespaces import Namespace, endpoint, join
from tests.support.processes.ovs_host import OvsHost

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")
VTEPS = {"h1": IPv4Address("192.168.9.1"), "h2": IPv4Address("192.168.9.2")}
VNI, MACS = 100, {"h1": 0x0200_0000_0001, "h2": 0x0200_0000_0002}
ADDRESSES = {"h1": "10.0.0.1", "h2": "10.0.0.2"}
FABRIC = {
    "version": 1,
    "name": "small",
    "generate": {"kind": "spine_leaf", "spines": 1, "leaves": 2, "hosts_per_leaf": 1},
}
TENANTS = {
    "vpcs": [
        {
            "id": "red",
            "vni": VNI,
            "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.254"}],
            "endpoints": [
                {"ip": ADDRESSES[host], "mac": mac_text(MACS[host]), "vtep_ip": str(VTEPS[host])} for host in VTEPS
            ],
        }
    ]
}


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


class TwoHosts:
    """Host 1 with the agent under test, of either kind; host 2 with one of the kernel's VXLAN and a machine."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.server = folder, f"unix:{folder / 'grpc'}"
        self.spaces = {host: Namespace() for host in VTEPS}
        self.processes: list[subprocess.Popen[str]] = []
        self.machines: dict[str, Namespace] = {}
        self.ovs: OvsHost | None = None
        try:
            self._make(kind)
        except BaseException:
            self.close()
            raise

    def _make(self, kind: str) -> None:
        folder = self.folder
        join(self.spaces["h1"], "underlay", self.spaces["h2"], "underlay", 1600)
        if kind == "ovs":
            self.ovs = OvsHost(self.spaces["h1"], VTEPS["h1"], "underlay")
        else:
            self.spaces["h1"].run("ip", "addr", "add", f"{VTEPS['h1']}/24", "dev", "underlay")
        self.spaces["h2"].run("ip", "addr", "add", f"{VTEPS['h2']}/24", "dev", "underlay")
        files = {
            "fabric": FABRIC,
            "config": {"vteps": ["192.168.9.0/24"], "gateway_timeout_ms": 60_000},
            "tenants": TENANTS,
        }
        for name, content in files.items():
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
        closed = "127.0.0.1:0"
        run = ("run", "fabric.yaml", "--config", "config.yaml", "--openflow", closed, "--http", closed)
        self.start(*HEDDLE, *run, "--grpc", self.server)
        self.machine("h2", "tap2")
        for host in VTEPS:
            self.agent(host)
        self.heddle("vpc", "apply", str(folder / "tenants.yaml"))

    def start(self, *command: str) -> None:
        """Start a service and wait for its ready line."""
        with (self.folder / f"{len(self.processes)}.log").open("w") as log:
            started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder)
        self.processes.append(started)
        assert started.stdout is not None
        assert started.stdout.readline()

    def agent(self, host: str) -> None:
        entrance = self.ovs.switch.entrance if self.ovs is not None and host == "h1" else self.spaces[host].entrance
        kind = ("--open-vswitch", "vpc") if self.ovs is not None and host == "h1" else ()
        command = (*entrance, *HEDDLE, "vtep", "--server", self.server, "--host", host, "--vtep", str(VTEPS[host]))
        self.start(*command, "--underlay-mtu", "1600", *kind)

    def machine(self, host: str, port: str) -> None:
        """Create a virtual machine whose interface on the host has an alias that names its endpoint."""
        mac, claim = mac_text(MACS[host]), f"heddle:{VNI}/{mac_text(MACS[host])}"
        self.machines[host] = endpoint(self.spaces[host], port, mac, [f"{ADDRESSES[host]}/24"])
        self.spaces[host].run("ip", "link", "set", port, "alias", claim)

    def off(self, host: str) -> None:
        """Remove a virtual machine with its interface; the kernel would remove it some time after the namespace."""
        machine = self.machines.pop(host)
        machine.run("ip", "link", "del", "eth0")
        machine.close()

    def heddle(self, *words: str) -> None:
        done = subprocess.run(
            [*HEDDLE, *words, "--server", self.server], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr

    def bridged(self) -> set[str]:
        """Return the interfaces of host 1 that are on the VPC's bridge."""
        if self.ovs is not None:
            return set(self.ovs.switch.vsctl("list-ports", "vpc").split()) - {"hxflow"}
        links = json.loads(self.spaces["h1"].run("ip", "-j", "link", "show").stdout)
        return {link["ifname"] for link in links if link.get("master") == f"hb{VNI}"} - {f"hx{VNI}"}

    def close(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
        if self.ovs is not None:
            self.ovs.close()
        for space in (*self.machines.values(), *self.spaces.values()):
            space.close()


@pytest.fixture(scope="module", params=["kernel", "ovs"])
def hosts(request, tmp_path_factory) -> Iterator[TwoHosts]:
    folder = tmp_path_factory.mktemp("hosts")
    hosts = TwoHosts(folder, request.param)
    try:
        yield hosts
    finally:
        hosts.close()
    assert not any("Traceback" in log.read_text() for log in folder.glob("*.log"))


@pytest.fixture
def two(hosts) -> Iterator[TwoHosts]:
    """Lend the hosts to a test; host 1 has no machine before and after it."""
    yield hosts
    if "h1" in hosts.machines:
        hosts.off("h1")
    until(lambda: hosts.bridged() == set())


def test_interfaces_are_attached_and_detached_by_their_aliases(two):
    assert two.bridged() == set()
    for port in ("tap1", "another", "tap1"):
        two.machine("h1", port)
        until(lambda: two.machines["h2"].pings(ADDRESSES["h1"], count=1))
        assert two.bridged() == {port}
        two.off("h1")
        until(lambda: two.bridged() == set())
    assert LinuxVtep(VTEPS["h2"], 1600, two.spaces["h2"].entrance).installed().vnis == {VNI}


def test_an_interface_whose_alias_is_removed_leaves_its_vpc(two):
    two.machine("h1", "tap1")
    until(lambda: two.machines["h1"].pings(ADDRESSES["h2"], count=1))
    two.spaces["h1"].run("ip", "link", "set", "tap1", "alias", "")
    until(lambda: two.bridged() == set())
    assert not two.machines["h1"].pings(ADDRESSES["h2"], count=1)
