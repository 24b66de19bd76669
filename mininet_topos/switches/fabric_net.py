"""Build a Mininet network from a fabric, with the fabric's ids and port numbers and real links.

Bridges and interfaces in the root namespace have short names unique to the lab; `FabricNet` maps them to the fabric's
ids. The build order, each step one batch: host shells, veth pairs, bridges, then the configuration of all hosts.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from heddle.controller.model.address import ip_text
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.fabric import Fabric, Nic, PortRef
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.registry import LabEntry
from heddle.mininet_topos.queues.classes import add_classes
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.mininet_nodes import LabHost, new_mininet
from heddle.mininet_topos.switches.ovs import OpenVSwitch
from heddle.mininet_topos.wire import shaping

STATIC_ARP_ABOVE_HOSTS = 16
MAX_INTERFACE_NAME_LENGTH = 15
LAB_TOOLS = ("mnexec", "nsenter", "ip", "tc", "ss", "ethtool")
OFFLOADS = "tx off rx off sg off tso off gso off gro off"


class FabricNet:
    """The switches, hosts and links of one lab.

    `interface_of[port]` is the root namespace's interface of a switch port; `device_of[nic id]` is the device in its
    host's namespace. `mininet` is the Mininet network; its hosts and switches are found by the fabric's ids.
    """

    def __init__(
        self,
        fabric: Fabric,
        entry: LabEntry,
        ovs: OpenVSwitch | None,
        static_arp: bool | None = None,
        queues: QueueSettings | None = None,
    ) -> None:
        """Assign names; `start` builds the network. A network of routers has no `ovs`.

        With `static_arp` None hosts have static entries where there are more than 16, else real ARP.

        With `queues` switch ports get the traffic classes of the queue model instead of one plain queue.
        """
        self.fabric, self._ovs, self._entry, self._queues = fabric, ovs, entry, queues
        self.bridge_of = {
            switch.id: f"{entry.prefix}s{number}" for number, switch in enumerate(fabric.switches, start=1)
        }
        self.nics_of_host = _nics_of_host(fabric)
        self.device_of = {
            nic.id: f"eth{number}" for nics in self.nics_of_host.values() for number, nic in enumerate(nics)
        }
        self.interface_of: dict[PortRef, str] = {port: self._interface(port) for port in _ports(fabric)}
        self._static_arp = len(self.nics_of_host) > STATIC_ARP_ABOVE_HOSTS if static_arp is None else static_arp
        self.mininet = new_mininet()

    @property
    def ovs(self) -> OpenVSwitch:
        """Return the Open vSwitch of the bridges; raises PrerequisiteError where the switches are routers."""
        if self._ovs is None:
            raise PrerequisiteError("the switches of this lab are routers: it has no Open vSwitch and no rules")
        return self._ovs

    @property
    def namespaces(self) -> Mapping[str, int]:
        """Return by interface of a switch the process whose network namespace has it; none: the root namespace."""
        return {}

    def switch_cpu_ns(self) -> int:
        """Return the processor time that the switches have taken."""
        return process_cpu_ns(self.ovs.pid)

    def first_hop_mac(self, src: Nic, dst: Nic) -> int:
        """Return the destination address of a frame from one NIC to another: the other's own, as bridges forward it."""
        return dst.mac

    def start(self) -> None:
        """Create hosts, links and bridges; raises PrerequisiteError if the machine refuses."""
        for host in self.nics_of_host:
            self.mininet.addHost(host, entry=self._entry, ip=None)
        for switch in self.fabric.switches:
            bridge = self.mininet.addSwitch(
                switch.id, bridge=self.bridge_of[switch.id], ovs=self.ovs, dpid=f"{switch.datapath_id:016x}"
            )
            self.mininet.nameToNode[bridge.name] = bridge  # Mininet's prompt finds nodes by their own name
        self._describe_links()
        self._make_links()
        self._configure_hosts()
        self.mininet.built = True
        self.mininet.start()
        self._await_hosts()
        self._check_port_numbers()

    def stop(self) -> None:
        """End the hosts' shells; the lab's registration removes bridges, interfaces and namespaces."""
        for host in self.mininet.hosts:
            host.terminate()

    def host(self, host: str) -> LabHost:
        """Return the Mininet host: `.cmd(...)` runs a command in it, `.popen(...)` starts one."""
        return self.mininet[host]

    def nic_command(self, nic: Nic, *command: str) -> list[str]:
        """Return a command line that runs in the namespace of the NIC's host."""
        return [*self.host(nic.host).entrance, *command]

    def connect_controller(self, port: int, address: str = "127.0.0.1") -> None:
        """Set the controller of every switch; a switch retries at least once a second."""
        arguments = []
        for number, bridge in enumerate(self.bridge_of.values()):
            arguments += ["--", f"--id=@c{number}", "create", "controller", f'target="tcp:{address}:{port}"']
            arguments += ["max_backoff=1000", "inactivity_probe=5000", "connection_mode=out-of-band"]
            arguments += ["--", "set", "bridge", bridge, f"controller=@c{number}"]
        self.ovs.vsctl(*arguments)

    def disconnect_controller(self) -> None:
        """Remove the controller of every switch; the rules stay (fail mode secure)."""
        self.ovs.vsctl(*(word for bridge in self.bridge_of.values() for word in ("--", "del-controller", bridge)))

    def connected_switches(self) -> frozenset[str]:
        """Return the ids of the switches that are connected to a controller now."""
        table = json.loads(self.ovs.vsctl("--format=json", "--columns=_uuid,is_connected", "list", "controller"))
        alive = {row[0][1] for row in table["data"] if row[1] is True}
        bridges = json.loads(self.ovs.vsctl("--format=json", "--columns=name,controller", "list", "bridge"))
        held = {name for name, controller in bridges["data"] if controller[0] == "uuid" and controller[1] in alive}
        return frozenset(switch for switch, bridge in self.bridge_of.items() if bridge in held)

    def set_cable(self, cable_id: str, up: bool) -> None:
        """Set a cable (`Cable.id`, or either of its directed link ids; a NIC's by the NIC's id) down or up."""
        interface = self.interface_of[self.switch_ports(cable_id)[0]]
        ip_batch([f"link set dev {interface} {'up' if up else 'down'}"])

    def switch_ports(self, cable_id: str) -> tuple[PortRef, ...]:
        """Return the switch ports that a cable joins, the lower one first; of a NIC's cable the only one."""
        if cable_id in self.fabric.nic_by_id:
            return (self.fabric.nic_by_id[cable_id].port,)
        cable = self.fabric.cable_by_link[cable_id]
        return cable.lower, cable.upper

    def egresses(self) -> list[shaping.Egress]:
        """Return the shaped switch ports of the root namespace."""
        return [self._egress(self.interface_of[port], bps) for port, bps in port_rates(self.fabric)]

    def _egress(self, interface: str, rate_bps: int) -> shaping.Egress:
        """Return the shaping of a link; with the queue model no catch-up burst, which would trigger ECN and PFC."""
        fastest_bps = max(nic.capacity_bps for nic in self.fabric.nics)
        catch_up_ns = shaping.catch_up_time_ns(shaping.QUEUE_BYTES, fastest_bps) if self._queues is None else 0
        return shaping.Egress(interface=interface, rate_bps=rate_bps, catch_up_ns=catch_up_ns)

    def _interface(self, port: PortRef) -> str:
        name = f"{self.bridge_of[port.switch]}p{port.number}"
        if len(name) > MAX_INTERFACE_NAME_LENGTH:
            raise InputError(f"port {port}: the lab has no interface name for a port number this high")
        return name

    def _describe_links(self) -> None:
        """Describe the links to Mininet under the real interface names."""
        for cable in self.fabric.cables:
            self.mininet.addLink(
                self.mininet[cable.lower.switch], self.mininet[cable.upper.switch],
                port1=cable.lower.number, port2=cable.upper.number,
                intfName1=self.interface_of[cable.lower], intfName2=self.interface_of[cable.upper],
            )  # fmt: skip
        for nic in self.fabric.nics:
            self.mininet.addLink(
                self.mininet[nic.port.switch], self.mininet[nic.host], port1=nic.port.number,
                intfName1=self.interface_of[nic.port], intfName2=self.device_of[nic.id], addr2=mac_text(nic.mac),
            )  # fmt: skip

    def _make_links(self) -> None:
        """Create all veth pairs, disable IPv6 on them (its traffic would be counted), shape them and set them up."""
        common = f"mtu {shaping.MTU_BYTES} group {self._entry.link_group}"
        batch = [
            f"link add {self.interface_of[cable.lower]} {common} "
            f"type veth peer name {self.interface_of[cable.upper]} {common}"
            for cable in self.fabric.cables
        ]
        batch += [
            f"link add {self.interface_of[nic.port]} {common} type veth peer name {self.device_of[nic.id]} "
            f"mtu {shaping.MTU_BYTES} address {mac_text(nic.mac)} netns {self.mininet[nic.host].pid}"
            for nic in self.fabric.nics
        ]
        ip_batch(batch)
        for interface in self.interface_of.values():
            switch_off_ipv6 = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
            if switch_off_ipv6.exists():
                switch_off_ipv6.write_text("1")
        self._shape()
        ip_batch([f"link set group {self._entry.link_group} up"])

    def _shape(self) -> None:
        egresses = self.egresses()
        if self._queues is None:
            shaping.shape_switch_ports(egresses)
        else:
            add_classes([(egress.interface, egress.rate_bps) for egress in egresses], self._queues)

    def _configure_hosts(self) -> None:
        """Start the configuration script of every host; they run in parallel with the creation of the bridges."""
        neighbours = self._neighbour_commands() if self._static_arp else {}
        for number, (host, nics) in enumerate(self.nics_of_host.items()):
            script = self._entry.directory / f"host{number}.sh"
            script.write_text(self._host_script(nics, neighbours))
            self.mininet[host].sendCmd(f". {script}")

    def _await_hosts(self) -> None:
        for host in self.nics_of_host:
            complaint = self.mininet[host].waitOutput().strip()
            if complaint:
                raise PrerequisiteError(f"host {host} could not be set up: {complaint.splitlines()[0]}")

    def _host_script(self, nics: tuple[Nic, ...], neighbours: Mapping[str, str]) -> str:
        """Return the shell script that configures one host's devices in its namespace."""
        lines = [f"echo 1 2>/dev/null > /proc/sys/net/ipv6/conf/{scope}/disable_ipv6" for scope in ("all", "default")]
        settings = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 0}
        lines += [f"echo {value} > /proc/sys/net/ipv4/conf/all/{name}" for name, value in settings.items()]
        batch = ["link set dev lo up"]
        queues: list[str] = []
        own = {nic.id for nic in nics}
        for metric, nic in enumerate(nics, start=1):
            device = self.device_of[nic.id]
            batch += [f"link set dev {device} up", f"addr add {ip_text(nic.ip)}/32 dev {device}"]
            others = {other: entry for other, entry in neighbours.items() if other not in own}
            batch += self._host_routes(nic, metric, others)
            lines.append(f"ethtool -K {device} {OFFLOADS} >/dev/null 2>&1")
            queues += self._egress(device, nic.capacity_bps).nic_commands
        lines += ["ip -batch - <<'END'", *batch, "END", "tc -batch - <<'END'", *queues, "END"]
        return "\n".join(lines) + "\n"

    def _host_routes(self, nic: Nic, metric: int, neighbours: Mapping[str, str]) -> list[str]:
        """Return the lines that route a NIC's traffic, and what its host knows of other NICs."""
        device = self.device_of[nic.id]
        default = f"route add default dev {device} src {ip_text(nic.ip)} metric {metric}"
        return [default, *(f"neigh replace {entry} dev {device}" for entry in neighbours.values())]

    def _neighbour_commands(self) -> dict[str, str]:
        return {nic.id: f"{ip_text(nic.ip)} lladdr {mac_text(nic.mac)} nud permanent" for nic in self.fabric.nics}

    def _check_port_numbers(self) -> None:
        """Raise PrerequisiteError unless Open vSwitch has given each port the fabric's port number."""
        table = json.loads(self.ovs.vsctl("--format=json", "--columns=name,ofport", "list", "interface"))
        given = dict(table["data"])
        for port, interface in self.interface_of.items():
            if given.get(interface) != port.number:
                log = self.ovs.directory / "ovs-vswitchd.log"
                raise PrerequisiteError(
                    f"Open vSwitch could not make port {port} (it has {given.get(interface)}): see {log}"
                )


def require_lab_tools() -> None:
    """Raise PrerequisiteError with the remedy if this process cannot create namespaces and links."""
    if os.geteuid() != 0:
        raise PrerequisiteError("the lab makes network namespaces, which takes root: run it with sudo")
    for tool in LAB_TOOLS:
        if shutil.which(tool) is None:
            raise PrerequisiteError(f"{tool} is not installed: run `make setup`")
    attempt = subprocess.run(["mnexec", "-n", "true"], capture_output=True, text=True, check=False)
    if attempt.returncode != 0:
        why = attempt.stderr.strip() or f"status {attempt.returncode}"
        raise PrerequisiteError(f"network namespaces are not allowed here ({why}): run outside of this container")


def ip_batch(commands: Sequence[str], entrance: Sequence[str] = (), options: Sequence[str] = ()) -> None:
    """Run lines of ip(8) in the namespace that `entrance` enters; raises PrerequisiteError with its first complaint."""
    words = [*entrance, "ip", *options, "-batch", "-"]
    done = subprocess.run(words, input="\n".join(commands), text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(f"ip refused to make the lab's links: {done.stderr.strip().splitlines()[0]}")


def _nics_of_host(fabric: Fabric) -> dict[str, tuple[Nic, ...]]:
    found: dict[str, list[Nic]] = {}
    for nic in fabric.nics:
        found.setdefault(nic.host, []).append(nic)
    return {host: tuple(nics) for host, nics in found.items()}


def process_cpu_ns(pid: int) -> int:
    """Return the processor time of a process, user and system, from /proc/<pid>/stat."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 10**9 // os.sysconf("SC_CLK_TCK")


def port_rates(fabric: Fabric) -> list[tuple[PortRef, int]]:
    """Return every switch port with its rate in bit/s: the ports of cables, then those of NICs."""
    found = [(port, cable.capacity_bps) for cable in fabric.cables for port in (cable.lower, cable.upper)]
    return found + [(nic.port, nic.capacity_bps) for nic in fabric.nics]


def _ports(fabric: Fabric) -> list[PortRef]:
    return [port for port, _ in port_rates(fabric)]
