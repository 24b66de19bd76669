"""The counters of a NIC since its process started, under the names of mlx5 where those exist.

`ethtool -S`: rx_prio3_pause, rx_prio3_pause_duration (microseconds), tx_prio3_bytes, rx_vport_rdma_unicast_packets,
…, out_of_buffer. `hw_counters` of the RDMA device: np_cnp_sent, np_ecn_marked_roce_packets, rp_cnp_handled,
rp_cnp_ignored, out_of_sequence, packet_seq_err, local_ack_timeout_err, duplicate_request, rx_icrc_encapsulated.
The others are Heddle's own: packets by type, frames that the device refused, and frames for other NICs, ICMPv6
errors that quote packets of open queue pairs.
"""

from collections.abc import Iterable

from heddle.mininet_topos.nic.pause import PfcState
from heddle.mininet_topos.nic.receiver import ReceiveQueue
from heddle.mininet_topos.nic.sender import SendQueue
from heddle.mininet_topos.wire.pause_frame import PRIORITIES

COUNTERS = (
    "tx_data_packets", "tx_ack_packets", "rx_data_packets", "rx_ack_packets", "rx_cnp_packets", "rx_foreign_packets",
    "rx_unknown_qp_packets", "rx_icrc_encapsulated", "tx_refused", "out_of_buffer", "np_ecn_marked_roce_packets",
    "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored", "rx_path_errors",
)  # fmt: skip
REQUESTER_ERRORS = ("packet_seq_err", "local_ack_timeout_err")
RESPONDER_ERRORS = ("out_of_sequence", "duplicate_request")


class PortCounters:
    """All counters of one NIC; `counts` holds those that are incremented one by one."""

    def __init__(self) -> None:
        """Create all counters at zero."""
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.rx_packets, self.rx_bytes = [0] * PRIORITIES, [0] * PRIORITIES
        self.tx_packets, self.tx_bytes = [0] * PRIORITIES, [0] * PRIORITIES
        self.tx_pause = [0] * PRIORITIES
        self._closed = dict.fromkeys(REQUESTER_ERRORS + RESPONDER_ERRORS, 0)

    def sent(self, priority: int, size_bytes: int) -> None:
        """Count a transmitted RoCE frame."""
        self.tx_packets[priority] += 1
        self.tx_bytes[priority] += size_bytes

    def received(self, priority: int, size_bytes: int) -> None:
        """Count a received RoCE frame."""
        self.rx_packets[priority] += 1
        self.rx_bytes[priority] += size_bytes

    def close(self, sending: Iterable[SendQueue], receiving: Iterable[ReceiveQueue]) -> None:
        """Add the error counters of queue pairs that are about to be removed."""
        self._closed = self._errors(sending, receiving)

    def totals(
        self, sending: Iterable[SendQueue], receiving: Iterable[ReceiveQueue], pauses: PfcState, now_ns: int
    ) -> dict[str, int]:
        """Return every counter by name."""
        totals = {**self.counts, **self._errors(sending, receiving)}
        directions = (("rx", self.rx_packets, self.rx_bytes), ("tx", self.tx_packets, self.tx_bytes))
        for direction, packets, sizes in directions:
            totals[f"{direction}_vport_rdma_unicast_packets"] = sum(packets)
            totals[f"{direction}_vport_rdma_unicast_bytes"] = sum(sizes)
            for priority in range(PRIORITIES):
                totals[f"{direction}_prio{priority}_packets"] = packets[priority]
                totals[f"{direction}_prio{priority}_bytes"] = sizes[priority]
        for priority in range(PRIORITIES):
            totals[f"rx_prio{priority}_pause"] = pauses.frames[priority]
            totals[f"rx_prio{priority}_pause_transition"] = pauses.transitions[priority]
            totals[f"rx_prio{priority}_pause_duration"] = pauses.paused_ns(priority, now_ns) // 1000
            totals[f"tx_prio{priority}_pause"] = self.tx_pause[priority]
        return totals

    def _errors(self, sending: Iterable[SendQueue], receiving: Iterable[ReceiveQueue]) -> dict[str, int]:
        errors = dict(self._closed)
        for sender in sending:
            for name in REQUESTER_ERRORS:
                errors[name] += getattr(sender.requester, name)
        for receiver in receiving:
            for name in RESPONDER_ERRORS:
                errors[name] += getattr(receiver.responder, name)
        return errors
