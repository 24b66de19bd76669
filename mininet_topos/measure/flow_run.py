"""What a run of flows is asked for and what it found, as values.

The integrity of a run is a balance: every frame that a NIC sent was received by a NIC or is counted as
dropped somewhere. Where the balance is off, the machine lost frames on its own, and the run says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from controller.model.plan import ALWAYS, AdmissionWindow


class FiveTuple(NamedTuple):
    """What a RoCEv2 stream is recognised by: the other port is always 4791, the protocol UDP. Integers throughout."""

    src_ip: int
    dst_ip: int
    udp_source_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRequest:
    """One queue pair to run: `size_bytes` of payload, paced at no more than `rate_bps` bits of Ethernet frame a second.

    With a window it sends in its turns only. Memory is written, or messages are sent; on the wire the opcodes differ.
    """

    flow_id: str
    src_nic: str
    dst_nic: str
    udp_source_port: int
    reverse_udp_source_port: int
    rate_bps: int
    size_bytes: int
    start_offset_ns: int = 0
    window: AdmissionWindow = ALWAYS
    operation: Literal["write", "send"] = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChange:
    """What is to be different about a running flow from its next packet on; None leaves things as they are."""

    udp_source_port: int | None = None
    reverse_udp_source_port: int | None = None
    rate_bps: int | None = None
    window: AdmissionWindow | None = None

    def for_requester(self) -> dict[str, Any]:
        """Return what the sending NIC is told."""
        admission = None if self.window is None else admission_of(self.window)
        found = {"udp_source_port": self.udp_source_port, "rate_bps": self.rate_bps, "admission": admission}
        return {name: value for name, value in found.items() if value is not None}

    def for_responder(self) -> dict[str, Any]:
        """Return what the receiving NIC is told."""
        port = self.reverse_udp_source_port
        return {} if port is None else {"udp_source_port": port}


def admission_of(window: AdmissionWindow) -> dict[str, int]:
    """Return a window as NICs are told."""
    return {"slot": window.slot, "slots": window.slots, "slot_ns": window.slot_ns}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """What became of one flow. Moments count from the run's start and are None where they did not come.

    `completed_ns` is when the sender had the last acknowledgement, `last_rx_ns` when the receiver had the last packet.
    Error counters have mlx5's names; `tx_packets` includes retransmissions.
    """

    request: FlowRequest
    acked_bytes: int
    delivered_bytes: int
    first_tx_ns: int | None
    last_rx_ns: int | None
    completed_ns: int | None
    packets: int
    tx_packets: int
    rx_packets: int
    retransmitted_packets: int
    packet_seq_err: int
    local_ack_timeout_err: int
    out_of_sequence: int
    duplicate_request: int
    np_ecn_marked_roce_packets: int = 0
    np_cnp_sent: int = 0
    rp_cnp_handled: int = 0

    @property
    def lost_packets(self) -> int:
        """Return how many frames left the sender and did not reach the receiver."""
        return max(0, self.tx_packets - self.rx_packets)

    def goodput_bps(self, duration_ns: int) -> float:
        """Return delivered payload bits per second from first packet sent to last received.

        Of a flow that did not complete, to `duration_ns`, the end of the run.
        """
        end = self.last_rx_ns if self.completed_ns is not None and self.last_rx_ns is not None else duration_ns
        return self.delivered_bytes * 8e9 / max(1, end - (self.first_tx_ns or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class NicCounters:
    """One NIC's totals in a run, as its process counted them; `counters` has every one by its name, mlx5's included."""

    tx_data_packets: int = 0
    tx_ack_packets: int = 0
    rx_data_packets: int = 0
    rx_ack_packets: int = 0
    rx_cnp_packets: int = 0
    np_cnp_sent: int = 0
    rx_foreign_packets: int = 0
    rx_unknown_qp_packets: int = 0
    rx_icrc_encapsulated: int = 0
    tx_refused: int = 0
    socket_drops: int = 0
    cpu_ns: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def tx_packets(self) -> int:
        """Return all RoCE frames sent."""
        return self.tx_data_packets + self.tx_ack_packets + self.np_cnp_sent

    @property
    def rx_packets(self) -> int:
        """Return all RoCE frames received."""
        return self.rx_data_packets + self.rx_ack_packets + self.rx_cnp_packets


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """The balance of a run, in RoCE frames of all NICs together.

    Open vSwitch receives through sockets too; `switch_socket_drops` are frames that found one of those full:
    counted, yet they are the host's overload and not the network's, so they make a run invalid.
    """

    tx_packets: int
    rx_packets: int
    queue_drops: int
    switch_socket_drops: int
    nic_socket_drops: int
    foreign_packets: int
    icrc_errors: int

    @property
    def unaccounted(self) -> int:
        """Return the frames that were sent, not received, and not counted as dropped by any queue."""
        return self.tx_packets - self.rx_packets - self.queue_drops

    @property
    def valid(self) -> bool:
        """Say whether every frame is accounted for and the host itself lost, changed or misled none."""
        overload = self.switch_socket_drops + self.nic_socket_drops + self.foreign_packets + self.icrc_errors
        return self.unaccounted == 0 and overload == 0

    def __str__(self) -> str:
        if self.valid:
            return f"NIC tx {self.tx_packets} = NIC rx {self.rx_packets} + queue drops {self.queue_drops}: valid"
        return (
            f"NIC tx {self.tx_packets} - NIC rx {self.rx_packets} - queue drops {self.queue_drops} = "
            f"{self.unaccounted} unaccounted (host overload: {self.switch_socket_drops} at switches, "
            f"{self.nic_socket_drops} at NICs; "
            f"{self.foreign_packets} misled, {self.icrc_errors} damaged): INVALID"
        )


LinkCounts = Mapping[str, Mapping[FiveTuple, int]]
"""Packets per directed link id and stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was seen on every directed link: data apart from acknowledgements and congestion notifications.

    Links into a switch were captured at its port; links to a NIC at the leaf's port as they were sent.
    """

    data: LinkCounts = field(default_factory=dict)
    acks: LinkCounts = field(default_factory=dict)
    ring_drops: int = 0

    @property
    def exact(self) -> bool:
        """Say whether the capture missed nothing."""
        return self.ring_drops == 0

    def links_of(self, stream: FiveTuple) -> Mapping[str, int]:
        """Return the data packets of one stream per directed link that carried any."""
        return {link: counts[stream] for link, counts in self.data.items() if stream in counts}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """All that one run found; `duration_ns` from the common start to the last completion, or to the timeout."""

    flows: tuple[FlowResult, ...]
    nics: Mapping[str, NicCounters]
    capture: Capture
    queue_drops: Mapping[str, int]
    integrity: Integrity
    duration_ns: int
    vswitchd_cpu_ns: int
    """`queue_drops` are frames dropped per directed link, by the queue at its sending switch port."""

    @property
    def completed(self) -> bool:
        """Say whether every flow delivered all of its bytes."""
        return all(flow.completed_ns is not None for flow in self.flows)

    @property
    def valid(self) -> bool:
        """Say whether the run may be compared with others."""
        return self.integrity.valid and self.capture.exact
