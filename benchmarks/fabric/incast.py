"""Incast on real switches: with and without pauses (PFC) and rate control (DCQCN), and at planned rates.

Each row is one run of fixed length in a lab of its own. All senders demand the line rate; "planned caps" are the rates
of a plan: equal shares of 0.95 of the receiver's line, with start times spread over one frame interval, as pacing NICs
do. Needs root.
"""

from dataclasses import dataclass, replace
from typing import TextIO

from heddle.foundation.traffic_class import DATA
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest, RunResult
from heddle.mininet_topos.measure.start_phases import start_offset_ns, start_phases
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.wire.shaping import FULL_FRAME_BYTES
from heddle.telemetry.counter_page import CounterSnapshot
from tests.support.fabrics.small_fabrics import spine_leaf

SECONDS = 4.0
PLANNED_SHARE = 0.95
# One of 31 senders on a full line sends ten packets per second and may be paused for more than one second: no loss.
ACK_EVERY, ACK_TIMEOUT_NS = 2, 3_000_000_000


@dataclass(frozen=True)
class Incast:
    name: str
    spines: int
    leaves: int
    hosts: int
    line_bps: int


@dataclass(frozen=True)
class Mode:
    name: str
    pfc: bool
    dcqcn: bool
    planned: bool = False


INCASTS = (
    Incast("7 to 1, 20 Mbit/s", 2, 4, 8, 20_000_000),
    Incast("31 to 1, 10 Mbit/s", 4, 8, 32, 10_000_000),
)
MODES = (
    Mode("neither", pfc=False, dcqcn=False),
    Mode("PFC", pfc=True, dcqcn=False),
    Mode("DCQCN", pfc=False, dcqcn=True),
    Mode("PFC and DCQCN", pfc=True, dcqcn=True),
    Mode("planned caps, PFC and DCQCN", pfc=True, dcqcn=True, planned=True),
)
COLUMNS = (
    "goodput_mbps", "dropped_frames", "marked_frames", "pfc_frames", "paused_s", "cnps", "retransmitted_frames",
    "max_depth_kb",
)  # fmt: skip


def run(out: TextIO) -> dict[str, object]:
    found: dict[str, object] = {}
    for incast in INCASTS:
        print(f"{incast.name}, {SECONDS:.0f} s of 4,096-byte packets, ECMP", file=out)
        heads = ["Mbit/s", "dropped", "marked", "PFC frames", "paused s", "CNPs", "retransmit", "max KB"]
        print(f"{'':28}" + "".join(f"{head:>12}" for head in heads) + "  run", file=out)
        rows = found[incast.name] = {}
        for mode in MODES:
            row = rows[mode.name] = measured(incast, mode)
            cells = "".join(f"{row[column]:12,.1f}" if isinstance(row[column], float) else f"{row[column]:12,}"
                            for column in COLUMNS)  # fmt: skip
            print(f"{mode.name:28}{cells}  {'valid' if row['valid'] else 'INVALID'}", file=out, flush=True)
    return found


def measured(incast: Incast, mode: Mode) -> dict[str, float | int | bool]:
    fabric = spine_leaf(incast.spines, incast.leaves, incast.hosts, incast.line_bps)
    settings = replace(
        NicSettings.for_fabric(fabric), dcqcn=mode.dcqcn, ack_every=ACK_EVERY, ack_timeout_ns=ACK_TIMEOUT_NS
    )
    with Lab(fabric, settings=settings, queues=QueueSettings(pfc=mode.pfc)) as lab:
        lab.ecmp.load()
        before = lab.queues.counters()
        result = lab.run_flows(requests(incast, mode), timeout_s=SECONDS)
        counters = lab.queues.counters().since(before)
    return row_of(result, counters)


def requests(incast: Incast, mode: Mode) -> list[FlowRequest]:
    senders = incast.hosts - 1
    rate = int(PLANNED_SHARE * incast.line_bps / senders) if mode.planned else incast.line_bps
    phases = start_phases([(f"h{number + 1}-n0", "h1-n0") for number in range(1, senders + 1)])
    return [
        FlowRequest(
            flow_id=f"f{number}", src_nic=f"h{number + 1}-n0", dst_nic="h1-n0", udp_source_port=0xC000 + number,
            reverse_udp_source_port=0xD000 + number, rate_bps=rate,
            size_bytes=int(incast.line_bps / 8 * SECONDS),  # more than the line can carry
            start_offset_ns=start_offset_ns(phase, FULL_FRAME_BYTES * 8, rate) if mode.planned else 0,
        )
        for number, phase in enumerate(phases, start=1)
    ]  # fmt: skip


def row_of(result: RunResult, counters: CounterSnapshot) -> dict[str, float | int | bool]:
    queues = [counters.queue(name, DATA.priority) for name in counters.names]
    last_ns = max(flow.last_rx_ns or 0 for flow in result.flows)
    return {
        "goodput_mbps": sum(flow.delivered_bytes for flow in result.flows) * 8e3 / max(1, last_ns),
        "dropped_frames": sum(queue["dropped_packets"] for queue in queues),
        "marked_frames": sum(queue["ecn_marked_packets"] for queue in queues),
        "pfc_frames": sum(queue["pfc_tx_frames"] for queue in queues),
        "paused_s": sum(queue["paused_ns"] for queue in queues) / 1e9,
        "cnps": sum(nic.np_cnp_sent for nic in result.nics.values()),
        "retransmitted_frames": sum(flow.retransmitted_packets for flow in result.flows),
        "max_depth_kb": round(max(queue["max_depth_bytes"] for queue in queues) / 1000),
        "valid": result.valid,
    }
