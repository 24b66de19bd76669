"""What LLDP daemons of routers and SONiC's Redis hear reaches a running controller, without OpenFlow.

Plugs are exchanged live: named, left out, and cleared when they are put back. `-rP` prints the times.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
import redis

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.switches.fabric_net import ip_batch
from heddle.telemetry.agent.sources.sonic import APPL_DB
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.processes import redis_server as of_redis
from tests.support.processes.lldp_daemons import is_installed, lldp_daemons
from tests.support.processes.mosquitto import PROGRAM as MOSQUITTO
from tests.support.processes.mosquitto import mosquitto

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path(MOSQUITTO).exists(), reason="mosquitto is not installed (scripts/setup all)"),
]
FABRIC = (
    "version: 1\nname: heard\nsteering: hash\n"
    "generate: {kind: spine_leaf, spines: 3, leaves: 2, hosts_per_leaf: 1, gbps: 0.02}\n"
)
CONFIG = "cabling_max_percent: 50\ntelemetry: {{broker: '127.0.0.1:{port}', period_ms: 200}}\n"
TIMEOUT_S = 60.0
A, B = PortRef("leaf1", 1), PortRef("leaf1", 2)
EXCHANGED = "leaf1:1 and leaf1:2 are exchanged"
WRONG = {"leaf1:1>spine1:1", "leaf1:2>spine2:1"}
AGENT = (sys.executable, "-m", "heddle.programs.console.main", "agent")


@pytest.fixture
def fabric(tmp_path: Path) -> Fabric:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    return load_fabric(tmp_path / "fabric.yaml")


@pytest.fixture
def heard(fabric: Fabric, tmp_path: Path) -> "Iterator[Heard]":
    """Run a broker, and a controller that listens to it."""
    with mosquitto() as broker:
        (tmp_path / "heddle.yaml").write_text(CONFIG.format(port=broker.port))
        controller = Controller(tmp_path / "fabric.yaml", more=("--config", str(tmp_path / "heddle.yaml")))
        try:
            yield Heard(controller, broker.port)
        finally:
            controller.end()


class Heard:
    """A controller, and the agents that report to it."""

    def __init__(self, controller: Controller, broker_port: int) -> None:
        self.controller, self._broker = controller, broker_port

    @contextmanager
    def agent(self, *words: str, environment: Mapping[str, str] | None = None) -> Iterator[None]:
        command = [*AGENT, "--fabric", "heard", "--broker", f"127.0.0.1:{self._broker}", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]
            yield
        finally:
            process.terminate()
            process.communicate(timeout=20)

    def topology(self) -> pb.Topology:
        return self.controller.fabric.GetTopology(pb.GetTopologyRequest())

    def until(self, holds: Callable[[pb.Topology], bool]) -> float:
        """Wait until a topology holds what is wanted; return when it did."""
        end = time.monotonic() + TIMEOUT_S
        while not holds(found := self.topology()):
            assert time.monotonic() < end, (found.miscablings, [(link.id, link.heard) for link in found.links])
            time.sleep(0.02)
        return time.monotonic()

    def judge(self, fabric: Fabric, exchange: Callable[[], None]) -> None:
        """Exchange two plugs and put them back, and demand the condition, what is left out, and the end of both."""
        self.until(lambda found: all(link.heard for link in found.links if link.id in fabric.cable_by_link))
        assert not self.topology().miscablings
        for time_of in ("named", "cleared"):
            began_s = time.monotonic()
            exchange()
            wanted = ([EXCHANGED], WRONG) if time_of == "named" else ([], set[str]())
            seen_s = self.until(partial(_is, fabric, wanted))
            print(f"FIGURES {time_of} {seen_s - began_s:.2f} s after the exchange")


def _is(fabric: Fabric, wanted: tuple[list[str], set[str]], found: pb.Topology) -> bool:
    left_out = {fabric.cable_by_link[link.id].id for link in found.links if link.left_out}
    return ([each.text for each in found.miscablings], left_out) == wanted


@pytest.mark.parametrize(
    "real",
    [
        pytest.param(True, marks=pytest.mark.skipif(not is_installed(), reason="lldpd is not installed"), id="lldpd"),
        pytest.param(False, id="frames of the test"),
    ],
)
def test_what_daemons_of_routers_hear_names_plugs_that_are_exchanged_live(
    fabric: Fabric, heard: Heard, tmp_path: Path, real: bool
) -> None:
    with RoutedLab(fabric) as lab, lldp_daemons(lab, real=real) as daemons:
        net = lab.net
        ports: dict[str, dict[str, int]] = {switch.id: {} for switch in fabric.switches}
        for port, interface in net.interface_of.items():
            ports[port.switch][interface] = port.number
        listed = {name: {"pid": net.host(name).pid, "ports": mine} for name, mine in ports.items()}
        (tmp_path / "routers.json").write_text(json.dumps(listed))
        words = ["--source", "emulated", "--lab", str(tmp_path)]
        for name, path in daemons.socket_of.items():
            words += ["--switch", name, "--lldpd", f"{name}={path}"]

        def exchange() -> None:
            first, second, entrance = net.interface_of[A], net.interface_of[B], net.host("leaf1").entrance
            moves = ((first, "aside"), (second, first), ("aside", second))
            ip_batch([f"link set dev {name} down" for name in (first, second)], entrance)
            ip_batch([f"link set dev {was} name {name}" for was, name in moves], entrance)
            ip_batch([f"link set dev {name} up" for name in (first, second)], entrance)

        with heard.agent(*words, environment=daemons.environment):
            heard.judge(fabric, exchange)


class Sonic:
    """A SONiC switch's Redis: its counters, and the neighbours of its ports as lldp_syncd writes them."""

    def __init__(self, server: of_redis.RedisServer, switch: str, ports: int) -> None:
        self.url, self.switch = server.url, switch
        with server.client() as client:
            counters = of_redis.SonicCounters(client, ports=ports)
            counters.write_maps()
            counters.write(1)
        self._appl = redis.Redis(unix_socket_path=str(server.socket), db=APPL_DB)

    def hear(self, port: PortRef, far: PortRef) -> None:
        row = {
            "lldp_rem_sys_name": far.switch, "lldp_rem_port_id": alias(far), "lldp_rem_port_id_subtype": "5",
            "lldp_rem_port_desc": f"to {port.switch}", "lldp_rem_chassis_id_subtype": "4",
            "lldp_rem_chassis_id": "0c:42:a1:00:00:01", "lldp_rem_time_mark": "3",
        }  # fmt: skip
        self._appl.hset(f"LLDP_ENTRY_TABLE:{alias(port)}", mapping=row)


def alias(port: PortRef) -> str:
    return f"Ethernet{4 * (port.number - 1)}"


@pytest.mark.skipif(not Path(of_redis.PROGRAM).exists(), reason="redis-server is not installed (scripts/setup all)")
def test_what_sonic_switches_hear_names_plugs_that_are_exchanged(fabric: Fabric, heard: Heard) -> None:
    far: dict[PortRef, PortRef] = {}
    for cable in fabric.cables:
        far |= {cable.lower: cable.upper, cable.upper: cable.lower}
    with ExitStack() as stack:
        switches = {
            switch.id: Sonic(stack.enter_context(of_redis.redis_server()), switch.id, ports=4)
            for switch in fabric.switches
        }

        def write() -> None:
            for port, other in far.items():
                switches[port.switch].hear(port, other)

        def exchange() -> None:
            far[A], far[B] = far[B], far[A]
            far[far[A]], far[far[B]] = A, B
            write()

        write()
        for switch in switches.values():
            stack.enter_context(heard.agent("--source", "sonic", "--switch", switch.switch, "--redis", switch.url))
        heard.judge(fabric, exchange)
