"""What switches read of planned RoCE packets: as they are, or in the outer IPv6 header that names their path (SRv6)."""

from typing import NamedTuple

from heddle.controller.model.rule import ETH_IPV4, IP_UDP, ROCE_PORT

ROCE_BYTES = 4_096 + 64
"""The largest RoCEv2 packet with its headers: RoCE sets DF, so a smaller MTU discards."""
_OUTER_BYTES = 40
_ETH_IPV6, _IP_IN_IP = 0x86DD, 4
_ARP = ("ARP", "ARP_REQUEST", "ARP_REPLY")
_OF_UPPER_LAYERS = ("TCP_FLAGS", "ICMP_TYPE", "ICMP_CODE", "ICMPV6_TYPE", "ICMPV6_CODE")


class Packets(NamedTuple):
    """The packets of planned flows, as switches see them.

    `port` is the destination port, None where no port is read. Where packets name their paths no hash selects any.
    """

    size_bytes: int
    ether_type: int
    protocol: int
    port: int | None
    unseen_by: tuple[str, ...]
    """Types of access lists that see none of them: the switch's own services, the other version of IP."""
    ip_types: tuple[str, ...]
    other_ip_types: tuple[str, ...]
    """Values of IP_TYPE that fit all of them, and none."""
    never: tuple[str, ...]
    """Fields of access lists that none of them has."""
    name_paths: bool = False

    @property
    def words(self) -> str:
        """Return how access lists recognise them."""
        return f"IPv6, next header {self.protocol}" if self.port is None else f"UDP port {self.port}"


PLAIN = Packets(
    size_bytes=ROCE_BYTES,
    ether_type=ETH_IPV4,
    protocol=IP_UDP,
    port=ROCE_PORT,
    unseen_by=("CTRLPLANE", "L3V6", "MIRRORV6"),
    ip_types=("ANY", "IP", "IPV4ANY", "NON_IPV6", "NON_ARP"),
    other_ip_types=("NON_IP", "NON_IPV4", "IPV6ANY", *_ARP),
    never=(*_OF_UPPER_LAYERS, "SRC_IPV6", "DST_IPV6", "NEXT_HEADER"),
)
IN_SRV6 = Packets(
    size_bytes=ROCE_BYTES + _OUTER_BYTES,
    ether_type=_ETH_IPV6,
    protocol=_IP_IN_IP,
    port=None,
    unseen_by=("CTRLPLANE", "L3", "MIRROR"),
    ip_types=("ANY", "IP", "IPV6ANY", "NON_IPV4", "NON_ARP"),
    other_ip_types=("NON_IP", "NON_IPV6", "IPV4ANY", *_ARP),
    never=(*_OF_UPPER_LAYERS, "SRC_IP", "DST_IP"),
    name_paths=True,
)
