"""Build a network of routers from a fabric: a network namespace per switch, its ports with the fabric's rates in it."""

import subprocess
from collections.abc import Collection, Mapping

from heddle.controller.model.address import ip_text
from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.fabric import Fabric, Nic, PortRef
from heddle.controller.model.steering_traits import traits_of
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.host.registry import LabEntry
from heddle.mininet_topos.routed import static_sids
from heddle.mininet_topos.routed.frr import FrrRouters
from heddle.mininet_topos.routed.routes import Routes, Routing, cables_of
from heddle.mininet_topos.routed.static_sids import StaticSids
from heddle.mininet_topos.switches.fabric_net import FabricNet, ip_batch, port_rates
from heddle.mininet_topos.wire import shaping

GATEWAY = "169.254.0.1"
"""The address of every leaf on the links of its NICs (RFC 3927: link-local)."""
GATEWAY_MAC = 0x02FE00000000
"""The address of the leaf's port towards the n-th NIC is this plus n: locally administered."""
TIME_EXCEEDED = 11
SETTINGS = {
    "ip_forward": 1,
    "conf/all/rp_filter": 0,
    "conf/default/rp_filter": 0,
    "fib_multipath_hash_policy": 1,  # addresses, protocol and ports; Linux hashes addresses alone by default
    "icmp_errors_use_inbound_ifaddr": 1,  # an error names the cable by which the packet came in
    "icmp_ratemask": 6168 & ~(1 << TIME_EXCEEDED),  # by default one such error a second and destination
}
SEED = "fib_multipath_hash_seed"
SEED_STEP = 7919
_DEV_HEADINGS, _DEV_SENT_BYTES = 2, 8


class RoutedNet(FabricNet):
    """The routers, hosts and links of one lab; a router's shell is `host(switch id)`."""

    def __init__(self, fabric: Fabric, entry: LabEntry, routing: Routing, seeded: bool) -> None:
        """Assign names and routes; `seeded` gives every router a hash seed of its own, else all hash alike."""
        super().__init__(fabric, entry, None)
        self.routes, self._seeded = Routes(fabric, routing), seeded
        self.bgp = FrrRouters(fabric, self.routes, entry, self._entrance) if routing is Routing.BGP else None
        """The routers find their routes by themselves; None: `reroute` does."""
        self._leaf_mac = {nic.id: GATEWAY_MAC + number for number, nic in enumerate(fabric.nics)}
        self._down: set[PortRef] = set()
        self.sids = StaticSids(fabric, self._leaf_mac) if traits_of(fabric).in_packets else None

    @property
    def namespaces(self) -> Mapping[str, int]:
        """Return by interface of a router the process whose network namespace has it."""
        return {name: self.mininet[port.switch].pid for port, name in self.interface_of.items()}

    def switch_cpu_ns(self) -> int:
        """Return 0: routers forward in the kernel, where senders are charged for it."""
        return 0

    def first_hop_mac(self, src: Nic, dst: Nic) -> int:
        """Return the destination address of a frame from one NIC to another: that of its leaf."""
        return self._leaf_mac[src.id]

    def start(self) -> None:
        """Create hosts, routers and links; raises PrerequisiteError if the machine refuses."""
        for node in (*self.nics_of_host, *(switch.id for switch in self.fabric.switches)):
            self.mininet.addHost(node, entry=self._entry, ip=None)
        self._make_cables()
        self._configure_hosts()
        for number, switch in enumerate(self.fabric.switches):
            self._configure_router(switch.id, SEED_STEP * (number + 1) if self._seeded else 0)
        self._await_hosts()
        for switch in self.fabric.switches:
            self.set_sids(switch.id)
        self.reroute()  # only now: a nexthop needs a carrier, so both ends of its cable are up
        if self.bgp is not None:
            self.bgp.start()
        self.mininet.built = True

    def set_cable(self, cable_id: str, up: bool) -> None:
        """Set a cable down or up; without BGP routes over a cable that is down stay until `reroute`."""
        ports = self.switch_ports(cable_id)
        change = self._down.difference_update if up else self._down.update
        change(ports)
        for port in ports:
            lines = [f"link set dev {self.interface_of[port]} {'up' if up else 'down'}"]
            nic = self.fabric.nic_by_port.get(port)
            ip_batch([*lines, *(self._to_nic(nic) if nic is not None and up else ())], self._entrance(port.switch))
        if up:
            for port in ports:
                self.set_sids(port.switch)

    def reroute(self, failed: Collection[str] = ()) -> None:
        """Replace the routes of all routers around failed cables, as a routing protocol does once it has converged.

        Routers with BGP do so by themselves.
        """
        if self.bgp is not None:
            return
        for switch in self.fabric.switches:
            ip_batch(self.routes.lines(switch.id, self.interface_of, failed), self._entrance(switch.id))

    def read_queues(self) -> Mapping[str, shaping.QueueCounters]:
        """Return the counters of all egress queues by interface."""
        found: dict[str, shaping.QueueCounters] = {}
        for switch in self.fabric.switches:
            words = [*self._entrance(switch.id), "tc", "-s", "-j", "qdisc", "show"]
            text = subprocess.run(words, text=True, capture_output=True, check=True).stdout
            found |= shaping.parse_counters(text, self._interfaces(switch.id))
        return found

    def sent_bytes(self, switch: str) -> Mapping[str, int]:
        """Return the bytes that each interface of a router has sent, from /proc/PID/net/dev (proc_pid_net(5))."""
        with open(f"/proc/{self.mininet[switch].pid}/net/dev") as file:
            rows = (line.split(":", 1) for line in file.readlines()[_DEV_HEADINGS:])
            return {name.strip(): int(counters.split()[_DEV_SENT_BYTES]) for name, counters in rows}

    def _interfaces(self, switch: str) -> list[str]:
        return [name for port, name in self.interface_of.items() if port.switch == switch]

    def _entrance(self, node: str) -> list[str]:
        return self.host(node).entrance

    def set_sids(self, switch: str) -> None:
        """Set the static SIDs of a router, where packets name paths; a port that goes down loses its own."""
        if self.sids is not None:
            own = {port: name for port, name in self.interface_of.items() if port.switch == switch}
            up = {port: name for port, name in own.items() if port not in self._down}
            try:
                ip_batch(self.sids.lines(switch, up), self._entrance(switch))
            except PrerequisiteError as error:
                raise PrerequisiteError(f"{error}; static SIDs need {static_sids.NEEDS}") from None

    def _make_cables(self) -> None:
        pids = {node.name: node.pid for node in self.mininet.hosts}
        common = f"mtu {shaping.MTU_BYTES}"
        ends = {
            port: f"{self.interface_of[port]} {common} {self._mac(port)} netns {pids[port.switch]}"
            for cable in self.fabric.cables
            for port in (cable.lower, cable.upper)
        }
        batch = [
            f"link add {ends[cable.lower]} type veth peer name {ends[cable.upper]}" for cable in self.fabric.cables
        ]
        batch += [
            f"link add {self.interface_of[nic.port]} {common} address {mac_text(self._leaf_mac[nic.id])} "
            f"netns {pids[nic.port.switch]} type veth peer name {self.device_of[nic.id]} {common} "
            f"address {mac_text(nic.mac)} netns {pids[nic.host]}"
            for nic in self.fabric.nics
        ]
        ip_batch(batch)

    def _configure_router(self, switch: str, seed: int) -> None:
        """Set a router's sysctls, addresses, neighbours and queues."""
        names = self.interface_of
        self._set(switch, seed)
        lines = ["link set dev lo up", *(self.sids.first_lines() if self.sids is not None else ())]
        for cable, port in cables_of(self.fabric, switch):
            far = cable.upper if port == cable.lower else cable.lower
            own, peer = (ip_text(self.routes.address_of[end]) for end in (port, far))
            lines += [f"link set dev {names[port]} up", f"addr add {own} peer {peer} dev {names[port]}"]
        for nic in self.fabric.nics_of_leaf.get(switch, ()):
            device = names[nic.port]
            lines += [f"link set dev {device} up", f"addr add {GATEWAY}/32 dev {device}", *self._to_nic(nic)]
        ip_batch(lines, self._entrance(switch))
        if self.sids is not None:
            ip_batch([static_sids.OWN_PACKETS], self._entrance(switch), ("-6",))
        rates = {names[port]: bps for port, bps in port_rates(self.fabric) if port.switch == switch}
        shaping.shape_switch_ports([self._egress(name, bps) for name, bps in rates.items()], self._entrance(switch))

    def _to_nic(self, nic: Nic) -> list[str]:
        """Return the lines of a leaf's route to a NIC; the port loses them when it goes down."""
        device, address = self.interface_of[nic.port], ip_text(nic.ip)
        return [
            f"route replace {address}/32 dev {device}",
            f"neigh replace {address} lladdr {mac_text(nic.mac)} dev {device} nud permanent",
        ]

    def _mac(self, port: PortRef) -> str:
        """Return the words that give a cable's end its address: the kernel's choice, but where packets name paths."""
        return "" if self.sids is None else f"address {mac_text(self.sids.mac_of[port])}"

    def _set(self, switch: str, seed: int) -> None:
        """Write the sysctls of a router's namespace; raises PrerequisiteError where the kernel lacks one."""
        settings = {f"ipv4/{name}": value for name, value in (SETTINGS | ({SEED: seed} if seed else {})).items()}
        if self.sids is not None:
            settings |= {f"ipv6/{name}": value for name, value in static_sids.SETTINGS.items()}
            devices = self._interfaces(switch)
            of_port = static_sids.PORT_SETTINGS
            settings |= {f"ipv6/conf/{dev}/{name}": value for dev in devices for name, value in of_port.items()}
        with network_namespace(self.mininet[switch].pid):
            for name, value in settings.items():
                try:
                    with open(f"/proc/sys/net/{name}", "w") as file:
                        file.write(str(value))
                except OSError as error:
                    raise PrerequisiteError(f"this kernel refuses net.{name} of a router: {error}") from None

    def _host_routes(self, nic: Nic, metric: int, neighbours: Mapping[str, str]) -> list[str]:
        """Return the lines that route a NIC's traffic to its leaf."""
        device, mac = self.device_of[nic.id], mac_text(self._leaf_mac[nic.id])
        return [
            f"neigh replace {GATEWAY} lladdr {mac} dev {device} nud permanent",
            f"route add default via {GATEWAY} dev {device} onlink src {ip_text(nic.ip)} metric {metric}",
        ]
