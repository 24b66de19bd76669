"""Routes of hosts by `heddle export sids --format iproute2`: their kernels send TCP over the planned cables."""

import socket
import subprocess

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import Nic, PortRef
from heddle.controller.model.srv6 import Sids
from heddle.controller.sids.host_routes import HostRoutes
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.routed.static_sids import link_local
from tests.e2e.lab.test_routed_fabric import planned

pytestmark = pytest.mark.e2e

SENT_BYTES = 100_000
ACKS_BYTES = SENT_BYTES // 2


@pytest.fixture(params=["route", "ua"])
def lab(request, tmp_path):
    path = tmp_path / "fabric.yaml"
    shape = "{kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 0.01}"
    path.write_text(f"version: 1\nsteering: srv6\nsrv6: {{last_hop: {request.param}}}\ngenerate: {shape}\n")
    with RoutedLab(load_fabric(path)) as built:
        yield built


def route_to_leaf(lab: RoutedLab, nic: Nic) -> list[str]:
    """Return the commands that route the block to a NIC's leaf, which an operator has besides the export."""
    assert lab.routers.sids is not None
    mac, device = lab.routers.sids.mac_of[nic.port], lab.net.device_of[nic.id]
    return [
        f"sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.{device}.disable_ipv6=0",
        f"ip -6 addr replace {link_local(nic.mac)}/64 dev {device} nodad",
        f"ip -6 neigh replace {link_local(mac)} lladdr {mac_text(mac)} dev {device} nud permanent",
        f"ip -6 route replace fcbb::/32 via {link_local(mac)} dev {device}",
    ]


def sent_by_tcp(lab: RoutedLab, source: Nic, target: Nic) -> dict[PortRef, int]:
    """Send bytes from one host to another; return what each port between switches has sent meanwhile."""
    before = sent(lab)
    address = str(socket.inet_ntoa(target.ip.to_bytes(4)))
    with network_namespace(lab.net.host(target.host).pid):
        server = socket.create_server((address, 5_000))
    with network_namespace(lab.net.host(source.host).pid):
        client = socket.create_connection((address, 5_000), timeout=20)
    with server, client, server.accept()[0] as accepted:
        client.sendall(bytes(SENT_BYTES))
        client.shutdown(socket.SHUT_WR)
        assert sum(iter(lambda: len(accepted.recv(1 << 16)), 0)) == SENT_BYTES
    return {port: count - before[port] for port, count in sent(lab).items()}


def sent(lab: RoutedLab) -> dict[PortRef, int]:
    names = {port: lab.routers.interface_of[port] for cable in lab.fabric.cables for port in (cable.lower, cable.upper)}
    counts = {switch.id: lab.routers.sent_bytes(switch.id) for switch in lab.fabric.switches}
    return {port: counts[port.switch][name] for port, name in names.items()}


def test_the_kernels_of_hosts_send_tcp_over_the_planned_cables(lab):
    flows = planned(lab.fabric)
    routes = HostRoutes(lab.fabric, Sids(lab.fabric), flows)
    for nic in lab.fabric.nics:
        script = "\n".join([*route_to_leaf(lab, nic), *routes.lines(nic.id)])
        subprocess.run([*lab.net.host(nic.host).entrance, "sh", "-e"], input=script, text=True, check=True)
    for flow in flows:
        nics = lab.fabric.nic_by_id
        found = sent_by_tcp(lab, nics[flow.src_nic], nics[flow.dst_nic])
        cables = lab.fabric.cable_by_link
        ports = {
            cables[link].lower if link == cables[link].up_link else cables[link].upper
            for link in flow.links
            if link in cables
        }
        assert {port for port, count in found.items() if count > ACKS_BYTES} == ports
