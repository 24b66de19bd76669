"""Where a packet came from, and how an answer gets back there.

```
from a tunnel:   Ethernet | IPv4 | UDP 4789 | VXLAN | Ethernet | ARP or IP
from elsewhere:  Ethernet | (802.1Q) | ARP or IP
```
"""

from dataclasses import dataclass

from dataplane.config.local import Side
from dataplane.control.slow.directory import Directory, Port, Tenant
from dataplane.control.slow.frames import IPV4, UDP, VXLAN_PORT, ethernet, vxlan
from dataplane.control.slow.view import Ip, Link, read_ip, read_link
from dataplane.engine.rings import Punted

_TUNNEL_BYTES = 16
"""Of the headers of UDP and VXLAN."""
_HAS_VNI = 0x08


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """The headers around an inner frame."""

    link: Link
    ip: Ip
    vni: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A packet's way here; `link` is the frame that was looked at: within a tunnel the inner one."""

    number: int
    """Of the port."""
    port: Port
    link: Link
    missing_bytes: int
    """Of the frame: of a jumbo frame only the first are at hand."""
    tunnel: Tunnel | None
    tenant: Tenant | None
    """The VPC from which it came; None for the provider's sides and for one that is no longer there."""
    routed_to: Tenant | None
    """The VPC in which it was punted: a peer's, where it had been routed there."""

    @property
    def account(self) -> int:
        """On whose account the work goes: that of the VPC, or of the port's outside."""
        return self.tenant.vni if self.tenant else -1 - self.number

    def ip(self) -> Ip | None:
        """Return the packet in the frame."""
        return read_ip(self.link.kind, self.link.payload, self.missing_bytes)

    def back(self, kind: int, packet: bytes) -> tuple[int, bytes]:
        """Return port and frame of an answer from the gateway to whoever sent the packet."""
        mac = self.tenant.mac if self.tunnel and self.tenant else self.port.mac
        return self.through(ethernet(self.link.source, mac, kind, packet, self.link.vlan))

    def through(self, frame: bytes) -> tuple[int, bytes]:
        """Return port and frame, in the tunnel if the question came through one.

        It goes to the MAC that the question came from, so it needs no neighbour that is known; from the VTEP that was
        spoken to, which may be a partner's.
        """
        tunnel = self.tunnel
        if tunnel is None:
            return self.number, frame
        around = vxlan(tunnel.vni, tunnel.ip.target, tunnel.ip.source, frame, _traffic_class(frame))
        return self.number, ethernet(tunnel.link.source, self.port.mac, IPV4, around, tunnel.link.vlan)


def _traffic_class(frame: bytes) -> int:
    """Return what the outer header takes over of an inner IP packet: its DSCP (RFC 2983), never ECN."""
    link = read_link(frame)
    if link is None or len(link.payload) < 2:
        return 0
    if link.kind == IPV4:
        return link.payload[1] & 0xFC
    return int.from_bytes(link.payload[:2], "big") >> 4 & 0xFC if link.payload[0] >> 4 == 6 else 0


def read_origin(punted: Punted, directory: Directory) -> Origin | None:
    """Return where a packet came from; None where its frame is none, or of a port that is not there."""
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


def _read_tunnel(link: Link, missing_bytes: int) -> Tunnel | None:
    ip = read_ip(link.kind, link.payload, missing_bytes) if link.kind == IPV4 else None
    if ip is None or ip.protocol != UDP or ip.is_fragment or len(ip.payload) < _TUNNEL_BYTES:
        return None
    head = ip.payload[:_TUNNEL_BYTES]
    if int.from_bytes(head[2:4], "big") != VXLAN_PORT or not head[8] & _HAS_VNI:
        return None
    return Tunnel(link=link, ip=ip, vni=int.from_bytes(head[12:15], "big"))
