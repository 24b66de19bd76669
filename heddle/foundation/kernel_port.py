"""Compute the UDP source port that Linux gives to a RoCEv2 connection whose program asks for none.

The port follows from a label of 20 bits (`rdma_flow_label_to_udp_sport`), which both ends of a connection share: both
send from the same port. Where the RDMA connection manager (CM) connects, the label is that of its ports, as the
connecting end has them (`cma_get_roce_udp_flow_label`); elsewhere it is that of the queue pair numbers
(`rdma_calc_flow_label`).
"""

PORT_BASE = 0xC000
LABEL_MASK = 0xFFFFF


def kernel_source_port(src_qpn: int, dst_qpn: int) -> int:
    """Return the UDP source port of a connection without a flow label, by its queue pair numbers in either order."""
    label = src_qpn * dst_qpn
    label ^= label >> 20
    label ^= label >> 40
    return _port_of(label & LABEL_MASK)


def cm_source_port(active_port: int, service_port: int) -> int:
    """Return the UDP source port of a connection by the CM: the connecting end's own port, and the one it connected to.

    0 for the ports whose label is 0: such a connection has the port of its queue pair numbers.
    """
    label = (active_port * 31 + service_port) & LABEL_MASK
    return _port_of(label) if label else 0


def _port_of(label: int) -> int:
    return ((label & 0x3FFF) ^ (label >> 14)) | PORT_BASE
