"""Read the replies of NICs and capture to `report` into the values of a run."""

from collections.abc import Iterable, Mapping
from typing import Any

from heddle.mininet_topos.measure.flow_run import (
    Capture,
    FiveTuple,
    FlowMove,
    FlowRequest,
    FlowResult,
    Integrity,
    NicCounters,
    PathChange,
)

NOT_COUNTERS = ("ok", "cpu_ns", "late_ns", "max_late_ns")
"""Numbers of a NIC's report that are of its process, not of its port."""


def by_queue_pair(
    reports: Mapping[str, Mapping[str, Any]], kind: str, history: str
) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the report and the history of each queue pair of a kind, by NIC and number."""
    return {
        (nic, entry["qpn"]): {**entry, history: report[history][str(entry["qpn"])]}
        for nic, report in reports.items()
        for entry in report[kind]
    }


def nic_counters(report: Mapping[str, Any]) -> NicCounters:
    """Return a NIC's counters."""
    names = NicCounters.__dataclass_fields__.keys() - {"counters"}
    counters = {name: value for name, value in report.items() if isinstance(value, int) and name not in NOT_COUNTERS}
    return NicCounters(**{name: report[name] for name in names}, counters=counters)


def flow_result(request: FlowRequest, sent: Mapping[str, Any], got: Mapping[str, Any], start_ns: int) -> FlowResult:
    """Return the outcome of a flow from the reports of its two ends."""

    def since_start(moment: int | None) -> int | None:
        return None if moment is None else moment - start_ns

    return FlowResult(
        request=request,
        acked_bytes=sent["acked_bytes"],
        delivered_bytes=got["delivered_bytes"],
        first_tx_ns=since_start(sent["first_tx_ns"]),
        last_rx_ns=since_start(got["last_rx_ns"]),
        completed_ns=since_start(sent["completed_ns"]),
        packets=sent["packets"],
        tx_packets=sent["tx_packets"],
        rx_packets=got["rx_packets"],
        retransmitted_packets=sent["retransmitted_packets"],
        packet_seq_err=sent["packet_seq_err"],
        local_ack_timeout_err=sent["local_ack_timeout_err"],
        out_of_sequence=got["out_of_sequence"],
        duplicate_request=got["duplicate_request"],
        np_ecn_marked_roce_packets=got["np_ecn_marked_roce_packets"],
        np_cnp_sent=got["np_cnp_sent"],
        rp_cnp_handled=sent["rp_cnp_handled"],
        goodput_bytes=tuple(got["goodput"]),
        moves=tuple(_flow_move(request.flow_id, move, start_ns) for move in sent["moves"]),
        lost_of_path={path["udp_source_port"]: path["lost_packets"] for path in sent.get("paths", ())},
        path_changes=tuple(
            PathChange(**{**change, "at_ns": change["at_ns"] - start_ns}) for change in sent.get("path_changes", ())
        ),
    )


def _flow_move(flow_id: str, move: Mapping[str, Any], start_ns: int) -> FlowMove:
    since_start = {name: move[name] - start_ns for name in ("requested_ns", "moved_ns")}
    return FlowMove(**{**move, **since_start, "flow_id": flow_id})


def balance(nics: Iterable[NicCounters], queue_drops: int, switch_socket_drops: int) -> Integrity:
    """Return the frame balance of a run."""
    nics = list(nics)
    return Integrity.of_counts(
        tx_packets=sum(nic.tx_packets for nic in nics),
        rx_packets=sum(nic.rx_packets for nic in nics),
        queue_drops=queue_drops,
        switch_socket_drops=switch_socket_drops,
        nic_socket_drops=sum(nic.socket_drops for nic in nics),
        foreign_packets=sum(nic.rx_foreign_packets for nic in nics),
        icrc_errors=sum(nic.rx_icrc_encapsulated for nic in nics),
    )


def read_capture(report: Mapping[str, Any]) -> Capture:
    """Return what the capture counted."""
    found: dict[str, dict[str, dict[FiveTuple, int]]] = {"data": {}, "acks": {}}
    for kind, links in found.items():
        for link, src_ip, dst_ip, port, packets in report[kind]:
            links.setdefault(link, {})[FiveTuple(src_ip, dst_ip, port)] = packets
    return Capture(data=found["data"], acks=found["acks"], ring_drops=report["ring_drops"])
