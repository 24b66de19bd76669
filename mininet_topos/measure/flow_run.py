"""Values of one run of flows: the requests that go in, and the results that come out.

A run is valid only if every frame that a NIC sent was received by a NIC or was counted as dropped by a queue. Where
this balance is off, the machine itself lost frames, and the figures of the run prove nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from heddle.controller.model.plan import ALWAYS, AdmissionWindow
from heddle.mininet_topos.nic import goodput
from heddle.mininet_topos.nic.path_move import FAILURE, PLANNED

GOODPUT_PERIOD_NS = goodput.PERIOD_NS
MISDIRECTED, DAMAGED = "packets reached a NIC that they were not for", "packets arrived damaged"
UNCOUNTED = "packets are missing that no queue counted as dropped (this machine was overloaded)"


class FiveTuple(NamedTuple):
    """The fields that identify a RoCEv2 stream; the destination port is always 4791, the protocol UDP. All integers."""

    src_ip: int
    dst_ip: int
    udp_source_port: int


class SprayPath(NamedTuple):
    """One of the paths over which a flow sprays its packets: their UDP source port, and the address that names it.

    `sid` is empty where the port alone selects the path. Ports of one flow differ. Paths take turns by `weight`.
    """

    udp_source_port: int
    sid: str = ""
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRequest:
    """One queue pair to run: `size_bytes` of payload, paced at no more than `rate_bps` bits of Ethernet frame a second.

    Congestion control does not cut its rate below `floor_bps`. With an admission window it sends in its own time slots
    only. `operation` selects RDMA WRITE or SEND opcodes. Where packets name their paths, `sid` and `reverse_sid` are
    the addresses that name those of data and ACKs.

    With `paths`, its packets take all of them in turn, each an RDMA WRITE of its own, and its ACKs the `reverse_paths`.
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
    floor_bps: int = 0
    sid: str = ""
    reverse_sid: str = ""
    paths: tuple[SprayPath, ...] = ()
    reverse_paths: tuple[SprayPath, ...] = ()

    @property
    def reverse_paths_or_path(self) -> tuple[SprayPath, ...]:
        """Return the paths of ACKs, at least the one of a flow that does not spray."""
        return self.reverse_paths or (SprayPath(self.reverse_udp_source_port, self.reverse_sid),)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChange:
    """New parameters for a running flow; None keeps the present value.

    A new `udp_source_port` or `sid` takes effect once all packets sent are acknowledged (`planned`), or at once, with
    those packets sent again (`failure`); rate and window change with it. Other changes apply to the next packet or ACK,
    new `paths` and `reverse_paths` of a flow that sprays among them.
    """

    udp_source_port: int | None = None
    reverse_udp_source_port: int | None = None
    rate_bps: int | None = None
    floor_bps: int | None = None
    window: AdmissionWindow | None = None
    sid: str | None = None
    reverse_sid: str | None = None
    paths: tuple[SprayPath, ...] | None = None
    reverse_paths: tuple[SprayPath, ...] | None = None
    move: Literal["planned", "failure"] = PLANNED
    reason: str = ""

    def for_requester(self) -> dict[str, Any]:
        """Return the fields of the `modify` command for the sending NIC; empty if it has nothing to change."""
        admission = None if self.window is None else admission_message(self.window)
        values = {
            "udp_source_port": self.udp_source_port, "rate_bps": self.rate_bps, "floor_bps": self.floor_bps,
            "admission": admission, "sid": self.sid, "paths": paths_message(self.paths),
        }  # fmt: skip
        found = {name: value for name, value in values.items() if value is not None}
        return {**found, "move": self.move, "reason": self.reason} if found or self.move == FAILURE else {}

    def for_responder(self) -> dict[str, Any]:
        """Return the fields of the `modify` command for the receiving NIC."""
        values = {
            "udp_source_port": self.reverse_udp_source_port, "sid": self.reverse_sid,
            "paths": paths_message(self.reverse_paths),
        }  # fmt: skip
        return {name: value for name, value in values.items() if value is not None}


def admission_message(window: AdmissionWindow) -> dict[str, int]:
    """Return an admission window as the object that NIC commands carry."""
    return {"slot": window.slot, "slots": window.slots, "slot_ns": window.slot_ns}


def paths_message(paths: tuple[SprayPath, ...] | None) -> list[dict[str, Any]] | None:
    """Return paths as the list that NIC commands carry, None for None."""
    return None if paths is None else [path._asdict() for path in paths]


class PathChange(NamedTuple):
    """A path of a spraying flow that its NIC denied, or uses again; the time counts from the run's start."""

    at_ns: int
    udp_source_port: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowMove:
    """A move of a running flow to another path, or one more try on its path after a failure (equal ports).

    Times count from the run's start: when the NIC got the command, and when the first packet could take the new path.
    `resent_packets` had not been acknowledged by then; a `planned` move has some only if its drain reached its limit.
    """

    flow_id: str
    kind: str
    reason: str
    requested_ns: int
    moved_ns: int
    old_udp_source_port: int
    new_udp_source_port: int
    resent_packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """The outcome of one queue pair. Times count from the run's start and are None for events that did not happen.

    `completed_ns` is when the sender had the last acknowledgement, `last_rx_ns` when the receiver had the last packet.
    Error counters have mlx5's names; `tx_packets` includes retransmissions. `goodput_bytes` are the payload bytes that
    the receiver accepted in each period of `GOODPUT_PERIOD_NS` since the start, up to the last period with any.
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
    goodput_bytes: tuple[int, ...] = ()
    moves: tuple[FlowMove, ...] = ()
    lost_of_path: Mapping[int, int] = field(default_factory=dict)
    """Packets that the sender took as lost, by the source port of each path; those of a flow that sprays."""
    path_changes: tuple[PathChange, ...] = ()

    @property
    def lost_packets(self) -> int:
        """Return the number of data frames that left the sender and did not reach the receiver."""
        return max(0, self.tx_packets - self.rx_packets)

    def goodput_bps(self, duration_ns: int) -> float:
        """Return delivered payload bits per second, from the first packet sent to the last received.

        For a flow that did not complete the interval ends at `duration_ns`, the end of the run.
        """
        end = self.last_rx_ns if self.completed_ns is not None and self.last_rx_ns is not None else duration_ns
        return self.delivered_bytes * 8e9 / max(1, end - (self.first_tx_ns or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class NicCounters:
    """The counters of one NIC in one run; `counters` holds all of them by name, those of mlx5 included.

    `late_ns` and `max_late_ns` say how late its process woke up: see `mininet_topos/nic/lateness.py`.
    """

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
    late_ns: int = 0
    max_late_ns: int = 0
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
    """The frame balance of one run over all NICs (RoCE frames), and every reason why the run must not be compared."""

    tx_packets: int
    rx_packets: int
    dropped_packets: int
    problems: tuple[str, ...] = ()

    @classmethod
    def of_counts(
        cls,
        *,
        tx_packets: int,
        rx_packets: int,
        queue_drops: int,
        switch_socket_drops: int,
        nic_socket_drops: int,
        foreign_packets: int,
        icrc_errors: int,
    ) -> "Integrity":
        """Check the counts of a run: sent = received + dropped by a queue, and no loss or damage on the host itself.

        `switch_socket_drops` are frames that found a receive socket of Open vSwitch full. They are counted, but they
        are an overload of the host and not of the emulated network, so they invalidate the run.
        """
        unaccounted = tx_packets - rx_packets - queue_drops
        counts = (
            (foreign_packets, MISDIRECTED),
            (icrc_errors, DAMAGED),
            (unaccounted, UNCOUNTED),
            (switch_socket_drops, "packets were lost in Open vSwitch's sockets (this machine was overloaded)"),
            (nic_socket_drops, "packets were lost in the NICs' sockets (this machine was overloaded)"),
        )
        return cls(
            tx_packets=tx_packets,
            rx_packets=rx_packets,
            dropped_packets=queue_drops,
            problems=problem_lines(counts),
        )

    @property
    def valid(self) -> bool:
        """Return whether the run may be compared with others."""
        return not self.problems

    def __str__(self) -> str:
        text = balance_text(self.tx_packets, self.rx_packets, self.dropped_packets)
        return f"{text}: {'valid' if self.valid else 'INVALID: ' + '; '.join(self.problems)}"


def problem_lines(counts: Iterable[tuple[int, str]]) -> tuple[str, ...]:
    """Return a line "<count> <text>" for every count that is not zero."""
    return tuple(f"{count} {text}" for count, text in counts if count)


def never_the_machine(problem: str) -> bool:
    """Return whether a problem of a run is one that no lack of processor time explains."""
    return problem.endswith((MISDIRECTED, DAMAGED))


def balance_text(tx_packets: int, rx_packets: int, dropped_packets: int) -> str:
    """Return the frame balance as one equation, with ≠ where it does not hold."""
    sign = "=" if tx_packets == rx_packets + dropped_packets else "≠"
    return f"NIC tx {tx_packets:,} {sign} NIC rx {rx_packets:,} + counted drops {dropped_packets:,}"


LinkCounts = Mapping[str, Mapping[FiveTuple, int]]
"""Packets per directed link id and stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Packets captured on every directed link; `acks` holds acknowledgements and congestion notifications.

    Links into a switch are captured at its port; links to a NIC are captured at the leaf's port on transmission.
    """

    data: LinkCounts = field(default_factory=dict)
    acks: LinkCounts = field(default_factory=dict)
    ring_drops: int = 0

    @property
    def exact(self) -> bool:
        """Return whether the capture missed no frame."""
        return self.ring_drops == 0

    def links_of(self, stream: FiveTuple) -> Mapping[str, int]:
        """Return the number of data packets of one stream on each directed link that carried any."""
        return {link: counts[stream] for link, counts in self.data.items() if stream in counts}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The results of one run.

    `duration_ns` is from the common start to the last completion, or to the timeout. `queue_drops` are frames dropped
    per directed link, by the queue at its sending switch port.
    """

    flows: tuple[FlowResult, ...]
    nics: Mapping[str, NicCounters]
    capture: Capture
    queue_drops: Mapping[str, int]
    integrity: Integrity
    duration_ns: int
    vswitchd_cpu_ns: int

    @property
    def moves(self) -> tuple[FlowMove, ...]:
        """Return the moves of all flows in the order of their times."""
        return tuple(sorted((move for flow in self.flows for move in flow.moves), key=lambda move: move.moved_ns))

    @property
    def completed(self) -> bool:
        """Return whether every flow delivered all of its bytes."""
        return all(flow.completed_ns is not None for flow in self.flows)

    @property
    def valid(self) -> bool:
        """Return whether the run may be compared with others: balanced, and captured without a gap."""
        return self.integrity.valid and self.capture.exact
