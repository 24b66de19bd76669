"""The VPC lab as a Mininet network: segments are bridges of the lab's Open vSwitch, nodes and machines are hosts."""

import subprocess
from collections.abc import Sequence

from heddle.controller.model.error import PrerequisiteError
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.registry import LabEntry
from heddle.mininet_topos.switches.mininet_nodes import LabHost, new_mininet
from heddle.mininet_topos.switches.ovs import OpenVSwitch
from heddle.mininet_topos.vpc.description import (
    ATTACHMENTS,
    INTERNET_SERVER,
    MACHINES,
    NODES,
    PORTS,
    SEGMENTS,
    SITE_REACHES,
    STRANGERS,
    UNDERLAY_MTU_BYTES,
    VPC_MTU_BYTES,
    Attachment,
    Machine,
)

OFFLOADS = "tx off rx off sg off tso off gso off gro off"
"""Disabled everywhere: a userspace gateway needs single packets with valid checksums."""


class VpcNet:
    """The network; `run("red1", "ping", …)` runs a command in a machine."""

    def __init__(self, entry: LabEntry, ovs: OpenVSwitch) -> None:
        """Prepare names; `start` creates the network."""
        self._entry, self._ovs = entry, ovs
        self.bridge_of = {segment: f"{entry.prefix}{segment[:1]}" for segment in SEGMENTS}
        self.port_of = {
            (attachment.node, attachment.segment): f"{self.bridge_of[attachment.segment]}{number}"
            for number, attachment in enumerate(ATTACHMENTS)
        }
        self.mininet = new_mininet()

    def start(self) -> None:
        """Create bridges, hosts and links; raises PrerequisiteError."""
        for name in (*NODES, *(machine.name for machine in MACHINES)):
            self.mininet.addHost(name, entry=self._entry, ip=None)
        self._make_links()
        self._make_bridges()
        for attachment in ATTACHMENTS:
            self._configure(attachment)
        for machine in PORTS:
            self._configure_machine(machine)
        self.run("internet", "ip", "addr", "add", f"{INTERNET_SERVER}/32", "dev", "lo")
        for prefix in SITE_REACHES:
            self.run("site", "ip", "route", "add", prefix, "dev", "gateway")
        for node, router in STRANGERS.items():  # the gateway has to drop these packets
            self.run(node, "ip", "route", "add", "10.0.0.0/8", "via", router)
        self.mininet.built = True

    def stop(self) -> None:
        """End the hosts' shells; interfaces and namespaces are removed with the lab's registration."""
        for host in self.mininet.hosts:
            host.terminate()

    def host(self, name: str) -> LabHost:
        """Return the Mininet host of a node or machine."""
        return self.mininet[name]

    def run(self, node: str, *command: str, given: str | None = None) -> str:
        """Run a command in a node; return its output. Raises PrerequisiteError if it fails."""
        words = [*self.host(node).entrance, *command]
        done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
            raise PrerequisiteError(f"{node}: {' '.join(command)}: {reason.splitlines()[0]}")
        return done.stdout

    def _make_links(self) -> None:
        group = f"group {self._entry.link_group}"
        lines = []
        for attachment in ATTACHMENTS:
            outer = self.port_of[attachment.node, attachment.segment]
            mac = f"address {mac_text(attachment.mac)} " if attachment.mac is not None else ""
            mtu = f"mtu {attachment.mtu_bytes}"
            lines.append(
                f"link add {outer} {mtu} {group} type veth peer name {attachment.device} {mtu} {mac}"
                f"netns {self.host(attachment.node).pid}"
            )
        lines += [
            f"link add {machine.name} mtu {UNDERLAY_MTU_BYTES} netns {self.host(machine.host).pid} type veth peer "
            f"name {machine.device} mtu {VPC_MTU_BYTES} address {mac_text(machine.mac)} "
            f"netns {self.host(machine.node or machine.name).pid}"
            for machine in PORTS
        ]
        _run(["ip", "-batch", "-"], "\n".join(lines))
        _run(["ip", "link", "set", "group", str(self._entry.link_group), "up"])

    def _make_bridges(self) -> None:
        words: list[str] = []
        for segment, bridge in self.bridge_of.items():
            words += ["--", "add-br", bridge, "--", "set", "bridge", bridge, "fail_mode=standalone"]
            words += [f"datapath_type={self._ovs.datapath_type}"]
            for attachment in ATTACHMENTS:
                if attachment.segment == segment:
                    words += ["--", "add-port", bridge, self.port_of[attachment.node, segment]]
                    words += [f"tag={attachment.vlan}"] if attachment.vlan is not None else []
        self._ovs.vsctl(*words)
        for port in self.port_of.values():
            _run(["ethtool", "-K", port, *OFFLOADS.split()])

    def _configure(self, attachment: Attachment) -> None:
        device, lines = attachment.device, [f"link set lo up\nlink set {attachment.device} up"]
        lines += [f"addr add {address} dev {device}" for address in attachment.addresses]
        self.run(attachment.node, "ethtool", "-K", device, *OFFLOADS.split())
        self.run(attachment.node, "ip", "-batch", "-", given="\n".join(lines))

    def _configure_machine(self, machine: Machine) -> None:
        self.run(machine.host, "ethtool", "-K", machine.name, *OFFLOADS.split())
        self.run(machine.host, "ip", "link", "set", machine.name, "up")
        node, device = machine.node or machine.name, machine.device
        lines = ["link set lo up", f"link set {device} up"]
        lines += [f"addr add {address} dev {device}{' nodad' * (':' in address)}" for address in machine.addresses]
        lines += [f"route add default via {gateway} dev {device}" for gateway in machine.gateways if ":" not in gateway]
        self.run(node, "ethtool", "-K", device, *OFFLOADS.split())
        self.run(node, "ip", "-batch", "-", given="\n".join(lines))
        six = "\n".join(f"route add default via {gate} dev {device}" for gate in machine.gateways if ":" in gate)
        if six:
            self.run(node, "ip", "-6", "-batch", "-", given=six)


def _run(words: Sequence[str], text: str = "") -> None:
    done = subprocess.run(words, input=text, text=True, capture_output=True, check=False)
    if done.returncode:
        raise PrerequisiteError(f"{words[0]} failed: {done.stderr.strip().splitlines()[0]}")
