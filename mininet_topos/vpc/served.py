"""The VPC lab with a controller, gateways and the hosts' VTEP agents, each as a process.

    with ServedLab("mixed") as lab:
        lab.apply(network())
        rows = lab.reach()

The controller listens on a Unix socket in the lab's directory. It is reachable from every network namespace without a
management network, and by clients: `heddle vpc list --server unix:/…`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from heddle.controller.config.gateways.gateway_file import load_gateway
from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.server_address import UNIX
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.config.wire import border_to, peering_to, vpc_to
from heddle.dataplane.config.wire_balancers import load_balancer_to
from heddle.dataplane.tables.compiler.archive import unpacked
from heddle.dataplane.tables.schema import Tables
from heddle.dataplane.verify.report import Report, verify
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.signals import stop_deferred
from heddle.mininet_topos.vpc.balanced import as_a_gateway_sees, balancer_config, web_servers
from heddle.mininet_topos.vpc.description import BALANCER, GATEWAYS, HOSTS, UNDERLAY_MTU_BYTES, ports_of
from heddle.mininet_topos.vpc.gateways import (
    controller_fabric,
    gateway_config,
    gateway_process,
    partner_config,
    write_yaml,
)
from heddle.mininet_topos.vpc.host_switch import BRIDGE
from heddle.mininet_topos.vpc.lab import VpcLab
from heddle.mininet_topos.vpc.probes import Probe, Prober
from heddle.mininet_topos.vpc.processes import NodeProcess
from heddle.mininet_topos.vpc.reach import Row, all_probes, compared, nodes
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

NAT_PORTS = {"gw1": {"first": 1024, "last": 33_023}, "gw2": {"first": 33_024, "last": 65_535}}
"""The ranges of partners must not overlap."""
ATTACHED_S, CALL_S = 60.0, 30.0
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Services:
    vpcs: rpc.VpcServiceStub
    gateways: rpc.GatewayServiceStub


class ServedLab:
    """A lab whose gateways and hosts are configured by a controller."""

    def __init__(self, vteps: str = "mixed", gateways: int = 1, progress: Progress = lambda line: None) -> None:
        """Prepare the lab; `with` creates it. `progress` is called with a line before each step."""
        self.lab, self._progress = VpcLab(vteps), progress
        self.gateway_ids = tuple(GATEWAYS)[:gateways]
        self.processes: dict[str, NodeProcess] = {}
        """By node: "controller", gateways, hosts, balancer; nginx of a machine."""
        self.url = ""
        """The address of the controller's page."""
        self._load_balancers: tuple[LoadBalancer, ...] = ()

    def __enter__(self) -> "ServedLab":
        self._progress("switches, hosts and virtual machines")
        self.lab.__enter__()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes and remove the lab; may be called again."""
        with stop_deferred():
            try:
                for process in self.processes.values():
                    process.terminate()
                for process in self.processes.values():
                    process.close()
            finally:
                self.lab.stop()

    @property
    def directory(self) -> Path:
        """Return the directory of the lab's files, sockets and logs."""
        return self.lab.entry.directory

    @property
    def server(self) -> str:
        """Return the controller's address."""
        return f"{UNIX}{self.directory}/controller.sock"

    def start_controller(self) -> None:
        """Start the controller and wait until it serves."""
        fabric = write_yaml(self.directory / "fabric.yaml", controller_fabric())
        words = ["run", str(fabric), "--grpc", self.server, "--openflow", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        words += ["--state", "none"]
        self.url = f"http://{self._run('controller', (), words).ready()['http']}/"

    def start_gateway(self, name: str) -> None:
        """Start a gateway; `processes[name].ready()` waits until it forwards."""
        more: dict[str, Any] = {"controller": self.server}
        if len(self.gateway_ids) > 1:
            more |= {"partner": partner_config(name), "nat_ports": NAT_PORTS[name]}
        config = write_yaml(self.directory / f"{name}.yaml", gateway_config(name, self.directory, **more))
        self.processes[name] = gateway_process(self.lab.net, self.lab.entry.environment, config, None)

    def start_agent(self, host: str) -> None:
        """Start a host's VTEP agent."""
        words = ["vtep", "--server", self.server, "--host", host, "--vtep", str(HOSTS[host])]
        words += ["--underlay-mtu", str(UNDERLAY_MTU_BYTES)]
        for (vni, mac), interface in ports_of(host).items():
            words += ["--port", f"{vni}/{mac_text(mac)}={interface}"]
        switch = self.lab.switches.get(host)
        if switch is not None:
            words += ["--open-vswitch", BRIDGE]
        self._run(host, switch.entrance if switch is not None else tuple(self.lab.net.host(host).entrance), words)

    def await_attached(self, *others: str) -> None:
        """Wait until all gateways, hosts and others are attached; raises PrerequisiteError with the missing ones."""
        wanted, deadline = {*self.gateway_ids, *HOSTS, *others}, time.monotonic() + ATTACHED_S
        with self._services() as services:
            while True:
                known = services.gateways.ListGateways(pb.ListGatewaysRequest(), timeout=CALL_S).gateways
                missing = wanted - {each.hello.gateway_id for each in known if each.attached}
                if not missing:
                    return
                for name in sorted(missing):
                    if not self.processes[name].is_running:
                        self.processes[name].ready()  # raises, with its last log line
                if time.monotonic() > deadline:
                    raise PrerequisiteError(f"{', '.join(sorted(missing))}: not attached within {ATTACHED_S:.0f} s")
                time.sleep(0.05)

    def serve_web(self) -> None:
        """Start nginx on the back ends, and the balancer; wait until it is attached."""
        self.processes |= web_servers(self.lab)
        config = balancer_config(self.server, self.directory)
        path = write_yaml(self.directory / f"{BALANCER}.yaml", config)
        self._run(BALANCER, tuple(self.lab.net.host(BALANCER).entrance), ["balancer", "--config", str(path)]).ready()
        self.await_attached(BALANCER)

    def await_healthy(self) -> None:
        """Wait until all back ends are found up; raises PrerequisiteError with those that are not."""
        deadline = time.monotonic() + ATTACHED_S
        while True:
            with self._services() as services:
                found = services.vpcs.ListLoadBalancers(pb.ListVpcsRequest(), timeout=CALL_S).load_balancers
            down = [f"{each.id} {end.ip}" for each in found for end in each.backends if not end.healthy]
            if not down:
                return
            if time.monotonic() > deadline:
                raise PrerequisiteError(f"back ends that are not up after {ATTACHED_S:.0f} s: {', '.join(down)}")
            time.sleep(0.05)

    def apply(self, network: NetworkConfig, load_balancers: Sequence[LoadBalancer] = ()) -> None:
        """Apply VPCs, peerings, load balancers and border rules; returns once all concerned have acknowledged them."""
        self._load_balancers = tuple(load_balancers)
        objects = pb.NetworkObjects(
            vpcs=map(vpc_to, network.vpcs),
            peerings=map(peering_to, sorted(network.peerings)),
            load_balancers=map(load_balancer_to, load_balancers),
            border=border_to(network.border),
        )
        with self._services() as services:
            services.vpcs.ApplyNetwork(objects, timeout=CALL_S)

    def tables(self, gateway: str) -> Tables:
        """Return a gateway's installed tables, read through the controller."""
        with self._services() as services:
            parts = services.gateways.ReadTables(pb.ReadTablesRequest(gateway_id=gateway), timeout=CALL_S)
            return unpacked(b"".join(part.data for part in parts))

    def verdict(self, network: NetworkConfig, gateway: str = "gw1") -> Report:
        """Return the report of `heddle verify isolation` on a gateway."""
        local = load_gateway(self.directory / f"{gateway}.yaml").local
        partners = [GATEWAYS[name] for name in self.gateway_ids if name != gateway]
        wanted, replying = as_a_gateway_sees(network, self._load_balancers)
        return verify(self.tables(gateway), local, wanted, partners, replying)

    def reach(self, probes: list[Probe] | None = None, gateway: str = "gw1") -> list[Row]:
        """Run probes, by default all, and compare the results with a gateway's tables."""
        with Prober(nodes(self.lab.net)) as prober:
            results = prober.run(all_probes() if probes is None else probes)
        return compared(results, self.tables(gateway))

    def _start(self) -> None:
        self._progress("the controller")
        self.start_controller()
        self._progress(f"{' and '.join(self.gateway_ids)}, and the VTEP agents of {', '.join(HOSTS)}")
        for name in self.gateway_ids:
            self.start_gateway(name)
        for host in HOSTS:
            self.start_agent(host)
        for name in (*self.gateway_ids, *HOSTS):
            self.processes[name].ready()
        self.await_attached()

    def _run(self, name: str, entrance: tuple[str, ...], words: list[str]) -> NodeProcess:
        log = self.directory / f"{name}.log"
        self.processes[name] = NodeProcess(name, entrance, words, self.lab.entry.environment, log)
        return self.processes[name]

    @contextmanager
    def _services(self) -> Iterator[_Services]:
        with grpc.insecure_channel(self.server) as channel:
            try:
                yield _Services(rpc.VpcServiceStub(channel), rpc.GatewayServiceStub(channel))
            except grpc.RpcError as error:
                raise PrerequisiteError(f"the controller: {error.details() or error.code()}") from None
