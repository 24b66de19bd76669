"""Create and remove the VPC lab: segments, hosts and machines, without gateways and VTEP agents.

with VpcLab() as lab:
    lab.net.run("red1", "ping", "-c", "1", "10.0.0.2")
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface
from types import TracebackType

from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.vtep.agent import Driver
from heddle.dataplane.vtep.desired import wanted
from heddle.dataplane.vtep.linux import LinuxVtep
from heddle.dataplane.vtep.openvswitch import OpenVSwitchVtep
from heddle.mininet_topos.host.registry import LabEntry, LabRegistration
from heddle.mininet_topos.host.signals import TerminationAsException, stop_deferred
from heddle.mininet_topos.switches.fabric_net import require_lab_tools
from heddle.mininet_topos.switches.ovs import OpenVSwitch, require_open_vswitch
from heddle.mininet_topos.vpc.description import HOSTS, UNDERLAY, UNDERLAY_MTU_BYTES, VTEP_KINDS, ports_of
from heddle.mininet_topos.vpc.host_switch import BRIDGE, HostSwitch
from heddle.mininet_topos.vpc.net import VpcNet


class VpcLab:
    """Segments, hosts and machines; `program_hosts`, or the agents of `ServedLab`, program the VTEPs."""

    def __init__(self, vteps: str = "kernel") -> None:
        """Prepare a lab with VTEPs of a key of VTEP_KINDS; `with`, or `start`, creates it."""
        self.vteps = VTEP_KINDS[vteps]
        self.switches: dict[str, HostSwitch] = {}
        self._registration: LabRegistration | None = None
        self._ovs: OpenVSwitch | None = None
        self._net: VpcNet | None = None
        self._termination: TerminationAsException | None = None

    def __enter__(self) -> "VpcLab":
        try:
            self.start()
            return self
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def net(self) -> VpcNet:
        """Return the Mininet network."""
        assert self._net is not None, "the lab is not running"
        return self._net

    @property
    def entry(self) -> LabEntry:
        """Return the lab's registry entry: its directory and the environment for its processes."""
        assert self._registration is not None, "the lab is not running"
        return self._registration.entry

    def start(self) -> None:
        """Create the lab; raises PrerequisiteError with the remedy if this host cannot, and then leaves nothing."""
        require_lab_tools()
        require_open_vswitch()
        self._termination = TerminationAsException()
        with stop_deferred():
            self._registration = LabRegistration()
        self._ovs = OpenVSwitch(self.entry)
        self._ovs.start()
        self._net = VpcNet(self.entry, self._ovs)
        self._net.start()
        for host, kind in self.vteps.items():
            if kind == "ovs":
                self._start_switch(host)

    def _start_switch(self, host: str) -> None:
        directory = self.entry.directory / f"ovs-{host}"
        directory.mkdir()
        self.switches[host] = HostSwitch(self.net.host(host).entrance, directory, self.entry.environment)
        address, endpoints = IPv4Interface(f"{HOSTS[host]}/{UNDERLAY.prefixlen}"), sorted(ports_of(host).values())
        self.switches[host].start("underlay", address, endpoints)

    def program_hosts(self, network: NetworkConfig, gateways: Mapping[int, IPv4Address]) -> None:
        """Program every host's VTEP without agents; `gateways` maps VNIs to the VTEP of the VPC's gateway."""
        for host, vtep in HOSTS.items():
            driver: Driver
            if host in self.switches:
                driver = OpenVSwitchVtep(vtep, BRIDGE, self.switches[host].entrance)
            else:
                driver = LinuxVtep(vtep, UNDERLAY_MTU_BYTES, self.net.host(host).entrance)
            driver.apply(wanted(network, vtep, gateways), ports_of(host))

    def stop(self) -> None:
        """Remove the lab; may be called at any stage and repeatedly."""
        with stop_deferred():
            if self._net is not None:
                self._net.stop()
            if self._registration is not None:
                self._registration.end()
            if self._ovs is not None:
                self._ovs.stop()
            self._net, self._ovs, self._registration, self.switches = None, None, None, {}
        if self._termination is not None:
            self._termination.end()
