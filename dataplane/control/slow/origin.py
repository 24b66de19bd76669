"""Determine where a punted packet came from, and build the frame that returns a reply there.

```
from a tunnel:   Ethernet | IPv4 | UDP 4789 | VXLAN | Ethernet | ARP or IP
from elsewhere:  Ethernet | (802.1Q) | ARP or IP
```
"""

from dataclasses import dataclass

from heddle.dataplane.config.local import Side
from heddle.dataplane.control.slow.directory import Directory, Port, Tenant
from heddle.dataplane.control.slow.frames import ethernet, vxlan
from heddle.dataplane.control.slow.view import EthernetFrame, Ip, read_ip, read_link
from heddle.dataplane.engine.rings import Punted
from heddle.dataplane.packet.ethernet import IPV4
from heddle.dataplane.packet.transport import UDP
from heddle.dataplane.packet.vxlan import VXLAN_PORT

_TUNNEL_BYTES = 16
"""Size of the UDP and VXLAN headers."""
_HAS_VNI = 0x08


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """Outer headers of a VXLAN packet."""

    link: EthernetFrame
    ip: Ip
    vni: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a packet came from; `link` is its Ethernet header, in a tunnel the inner one."""

    number: int
    """Port number."""
    port: Port
    link: EthernetFrame
    missing_bytes: int
    """Bytes of the frame that were not punted: only the start of a jumbo frame is."""
    tunnel: Tunnel | None
    tenant: Tenant | None
    """The VPC of the sender; None on the provider's sides, and for a VPC that was deleted."""
    routed_to: Tenant | None
    """The VPC in which the packet was punted: a peer's, if it had been routed there."""

    @property
    def account(self) -> int:
        """Return the key of the rate limits: the sender's VNI, or -1 - port number outside of VPCs."""
        return self.tenant.vni if self.tenant else -1 - self.number

    def ip(self) -> Ip | None:
        """Return the IP packet in the frame; None if it is malformed."""
        return read_ip(self.link.kind, self.link.payload, self.missing_bytes)

    def back(self, kind: int, packet: bytes) -> tuple[int, bytes]:
        """Return port and frame of a reply from the gateway to the sender."""
        mac = self.tenant.mac if self.tunnel and self.tenant else self.port.mac
        return self.through(ethernet(self.link.source, mac, kind, packet, self.link.vlan))

    def through(self, frame: bytes) -> tuple[int, bytes]:
        """Return port and frame of a reply, encapsulated if the request came through a tunnel.

        It is sent to the request's source MAC, so no neighbour has to be resolved. Its outer source is the VTEP that
        received the request, which may be the partner's.
        """
        tunnel = self.tunnel
        if tunnel is None:
            return self.number, frame
        around = vxlan(tunnel.vni, tunnel.ip.target, tunnel.ip.source, frame, _traffic_class(frame))
        return self.number, ethernet(tunnel.link.source, self.port.mac, IPV4, around, tunnel.link.vlan)


def _traffic_class(frame: bytes) -> int:
    """Return the traffic class for the outer header: the inner packet's DSCP (RFC 2983), without ECN."""
    link = read_link(frame)
    if link is None or len(link.payload) < 2:
        return 0
    if link.kind == IPV4:
        return link.payload[1] & 0xFC
    return int.from_bytes(link.payload[:2], "big") >> 4 & 0xFC if link.payload[0] >> 4 == 6 else 0


def read_origin(punted: Punted, directory: Directory) -> Origin | None:
    """Return where a packet came from; None for a malformed frame or an unknown port."""
    port, link = directory.port(punted.in_port), read_link(punted.frame)
    if port is None or link is None:
        return None
    missing = max(0, punted.length - len(punted.frame))
    tunnel, tenant = None, None
    if port.side is Side.UNDERLAY:
        tunnel = _read_tunnel(link, missing)
        if tunnel is not None:
            tenant = directory.tenant(tunnel.vni)
            link = read_link(tunnel.ip.payload[_TUNNEL_BYTES:])
            if link is None:
                return None
    elif port.side is Side.CUSTOMER:
        tenant = directory.customer(link.vlan)
    return Origin(
        number=punted.in_port,
        port=port,
        link=link,
        missing_bytes=missing,
        tunnel=tunnel,
        tenant=tenant,
        routed_to=directory.tenant(punted.vni),
    )


def _read_tunnel(link: EthernetFrame, missing_bytes: int) -> Tunnel | None:
    ip = read_ip(link.kind, link.payload, missing_bytes) if link.kind == IPV4 else None
    if ip is None or ip.protocol != UDP or ip.is_fragment or len(ip.payload) < _TUNNEL_BYTES:
        return None
    head = ip.payload[:_TUNNEL_BYTES]
    if int.from_bytes(head[2:4], "big") != VXLAN_PORT or not head[8] & _HAS_VNI:
        return None
    return Tunnel(link=link, ip=ip, vni=int.from_bytes(head[12:15], "big"))
