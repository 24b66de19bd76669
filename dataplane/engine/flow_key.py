"""The word of a flow's key that is not an address: `ports << 32 | protocol << 24 | VNI`."""

from heddle.dataplane.jit import inline

VNI = 0xFF_FFFF
"""The bits of the VNI."""


@inline
def key_of(ports: int, protocol: int, vni: int) -> int:
    """Return the key's word of a packet with these ports (`burst.PACKET`)."""
    return ports << 32 | protocol << 24 | vni


@inline
def swapped(ports: int) -> int:
    """Return the ports of the reverse direction."""
    return (ports & 0xFFFF) << 16 | ports >> 16 & 0xFFFF
