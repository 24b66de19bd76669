"""Seven senders into one NIC, and a flow of others to the NIC beside it: what the bystander keeps, second by second.

The scene is the one of MRC's testbed (arXiv 2605.04333, figures 18 and 21): four racks of four NICs under four spines;
seven NICs of two other racks send to the target, and a NIC of the fourth rack to an idle one in the target's rack. The
victim starts alone; the incast begins after `ALONE_S`. Under ECMP ports are random, each seed draws its own. "planned"
takes ports and rates from a running controller. Needs root.

    python -m heddle.benchmarks victim
"""

import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TextIO

from heddle.controller.config import parse_fabric
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FlowRequest, FlowResult, RunResult
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.services.controller_client import connected
from heddle.mininet_topos.services.controller_process import running_controller
from heddle.mininet_topos.traffic.cast import PACE, paced
from heddle.v1 import heddle_pb2 as pb

LINE_BPS = 20_000_000
SEEDS = (1, 2, 3)
ALONE_S, INCAST_S = 2.0, 4.0
PORTS = range(0xC000, 0x10000)
SENDERS, TARGET = range(5, 12), 1
VICTIM = (16, 2)
"""Hosts: racks of four, in order. The victim's flow is from rack 4 to rack 1, where the target is."""
FABRIC = (
    "version: 1\nname: victim\n"
    f"generate: {{kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 4, gbps: {LINE_BPS / 1e9}}}\n"
)


class Mode(NamedTuple):
    """How senders choose paths and rates."""

    name: str
    dcqcn: bool
    queue_pairs: int
    planned: bool = False


MODES = (
    Mode("ECMP, PFC", dcqcn=False, queue_pairs=1),
    Mode("ECMP, PFC and DCQCN", dcqcn=True, queue_pairs=1),
    Mode("ECMP, PFC and DCQCN, 8 queue pairs", dcqcn=True, queue_pairs=8),
    Mode("planned, PFC and DCQCN", dcqcn=True, queue_pairs=1, planned=True),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The victim's goodput in Mbit/s: alone, and in each whole second of the incast; the incast's sum beside it."""

    alone: float
    beside: list[float]
    incast: float
    pfc_frames: int
    valid: bool

    @property
    def kept(self) -> float:
        return statistics.fmean(self.beside) / self.alone

    @property
    def worst(self) -> float:
        return min(self.beside) / self.alone


def run(out: TextIO) -> dict[str, Any]:
    """Print a line per mode and seed."""
    print(f"7 to 1 and a victim, 4 x 4 x 4 NICs of {LINE_BPS / 1e6:g} Mbit/s, {INCAST_S:g} s", file=out)
    print(f"{'':36}seed  alone Mbit/s   kept  worst second  incast Mbit/s  PFC frames", file=out)
    found: dict[str, Any] = {}
    for mode in MODES:
        rows = found[mode.name] = []
        with _lab(mode) as (lab, plan):
            for seed in SEEDS:
                row = _measured(lab, mode, plan, seed)
                rows.append({**vars_of(row), "seed": seed, "kept": row.kept, "worst": row.worst})
                print(
                    f"{mode.name:36}{seed:4}{row.alone:14.1f}{row.kept:8.0%}{row.worst:13.0%}{row.incast:15.1f}"
                    f"{row.pfc_frames:12,}" + ("" if row.valid else "  INVALID"),
                    file=out, flush=True,
                )  # fmt: skip
    return found


def vars_of(row: Row) -> dict[str, Any]:
    """Return the fields of a row."""
    return {name: getattr(row, name) for name in Row.__dataclass_fields__}


@contextmanager
def _lab(mode: Mode) -> Iterator[tuple[Lab, Sequence[pb.FlowPlan]]]:
    """Run a lab with its controller, which has planned all eight flows; no telemetry, so that no plan changes."""
    fabric = parse_fabric(FABRIC, "victim")
    settings = replace(NicSettings.for_fabric(fabric), dcqcn=mode.dcqcn)
    with Lab(fabric, settings=settings, queues=QueueSettings()) as lab:
        entry = entry_of(lab.id)
        with (
            running_controller(FABRIC, entry.directory, entry.environment) as addresses,
            connected(addresses["grpc"]) as client,
        ):
            lab.connect_controller(int(addresses["openflow"].rpartition(":")[2]))
            client.await_switches(len(fabric.switches))
            client.submit(job())
            yield lab, client.plan_of("victim").flows


def job() -> JobRequest:
    """Return the victim's flow, the first, and the incast as one job on all hosts."""
    pairs = [VICTIM, *((sender, TARGET) for sender in SENDERS)]
    flows = tuple(FlowDemand(src_rank=sender - 1, dst_rank=receiver - 1) for sender, receiver in pairs)
    collective = Collective(kind=CollectiveKind.CUSTOM, flows=flows)
    ranks = tuple(f"h{host}-n0" for host in range(1, 17))
    return JobRequest(job_id="victim", ranks=ranks, collectives=(collective,))


def requests(mode: Mode, plan: Sequence[pb.FlowPlan], seed: int) -> list[FlowRequest]:
    """Return the flows of a run; the victim's come first and have `is_victim` sources."""
    draw = random.Random(f"{mode.name}/{seed}")
    total_s = ALONE_S + INCAST_S
    found = []
    for flow in plan:
        victim = flow.src_nic == f"h{VICTIM[0]}-n0"
        for number in range(mode.queue_pairs):
            ports = (flow.udp_source_port, flow.reverse_udp_source_port)
            if not mode.planned:
                ports = (draw.choice(PORTS), draw.choice(PORTS))
            rate = paced(flow) if mode.planned else int(LINE_BPS * PACE / mode.queue_pairs)
            found.append(
                FlowRequest(
                    flow_id=f"{flow.flow_id}/{number}", src_nic=flow.src_nic, dst_nic=flow.dst_nic,
                    udp_source_port=ports[0], reverse_udp_source_port=ports[1], rate_bps=rate,
                    size_bytes=int(LINE_BPS / 8 * total_s),  # more than the line can carry
                    start_offset_ns=0 if victim else int(ALONE_S * 1e9),
                )
            )  # fmt: skip
    return found


def _measured(lab: Lab, mode: Mode, plan: Sequence[pb.FlowPlan], seed: int) -> Row:
    paused = lab.pfc_frames()
    result = lab.run_flows(requests(mode, plan, seed), timeout_s=ALONE_S + INCAST_S)
    return row_of(result, lab.pfc_frames() - paused)


def row_of(result: RunResult, pfc_frames: int) -> Row:
    """Return the figures of a run."""
    victims = [flow for flow in result.flows if flow.request.src_nic == f"h{VICTIM[0]}-n0"]
    others = [flow for flow in result.flows if flow not in victims]
    return Row(
        alone=_mbps(victims, 1.0, ALONE_S),
        beside=[_mbps(victims, ALONE_S + second, ALONE_S + second + 1) for second in range(int(INCAST_S))],
        incast=_mbps(others, ALONE_S + 1, ALONE_S + INCAST_S),
        pfc_frames=pfc_frames,
        valid=result.integrity.valid,
    )


def _mbps(flows: Sequence[FlowResult], start_s: float, end_s: float) -> float:
    """Return the goodput of flows from one time to another, in Mbit/s."""
    first, last = (int(each * 1e9 / GOODPUT_PERIOD_NS) for each in (start_s, end_s))
    return sum(sum(flow.goodput_bytes[first:last]) for flow in flows) * 8 / (end_s - start_s) / 1e6
