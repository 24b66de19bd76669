"""What a run of sprayed flows came to: parts of the planned rate, packets off their paths, and a verdict. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.results.judgement import Verdict, why_busy
from heddle.mininet_topos.demo.spraying.sets import Sprayed, SprayMode
from heddle.mininet_topos.host.machine import MachineUse
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FiveTuple, RunResult, never_the_machine
from heddle.mininet_topos.traffic.workloads import PAYLOAD_BYTES
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.srv6 import OUTER_BYTES

FRAME_BYTES = roce.wire_bytes(roce.RC_RDMA_WRITE_ONLY, PAYLOAD_BYTES) + OUTER_BYTES
PAYLOAD = PAYLOAD_BYTES / FRAME_BYTES
"""The part of a frame that is data."""
SETTLED_NS = 200_000_000
"""The start of a run, which is left out."""
MIN_PART = 0.95
"""The slowest planned flow has this part of its planned rate at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SprayRun:
    """One run: of its flows the slowest and the mean, in parts of their planned rate.

    `off_paths` are packets that crossed a link that is on no path of their flow.
    """

    mode: str
    planned: bool
    seed: int
    slowest: float
    mean: float
    resent_packets: int
    dropped_packets: int
    off_paths: int
    faults: tuple[str, ...]
    machine: MachineUse

    @property
    def verdict(self) -> Verdict:
        """Return whether a planned run has shown its rates on its paths; of a drawn one only faults count."""
        if self.off_paths or self.faults:
            return Verdict.FAILED
        if not self.planned or self.slowest >= MIN_PART:
            return Verdict.SHOWN
        return Verdict.NOT_SHOWN if why_busy(self.machine) else Verdict.FAILED

    def to_json(self) -> dict[str, Any]:
        """Return all values by name, with the verdict."""
        return {**asdict(self), "verdict": self.verdict.value}


def run_of(
    fabric: Fabric, mode: SprayMode, seed: int, flows: Sequence[Sprayed], result: RunResult, machine: MachineUse,
    seconds: float,
) -> SprayRun:  # fmt: skip
    """Return the figures of a run of so many seconds."""
    parts = parts_of_the_plan(flows, result, seconds)
    return SprayRun(
        mode=mode.name, planned=mode.planned, seed=seed, slowest=min(parts), mean=sum(parts) / len(parts),
        resent_packets=sum(flow.retransmitted_packets for flow in result.flows),
        dropped_packets=sum(result.queue_drops.values()), off_paths=off_paths(fabric, flows, result),
        faults=tuple(filter(never_the_machine, result.integrity.problems)), machine=machine,
    )  # fmt: skip


def parts_of_the_plan(flows: Sequence[Sprayed], result: RunResult, seconds: float) -> list[float]:
    """Return the goodput of each flow as a part of its planned rate, from `SETTLED_NS` to the end of the run."""
    first, end = SETTLED_NS // GOODPUT_PERIOD_NS, int(seconds * 1e9) // GOODPUT_PERIOD_NS
    taken_s = (end - first) * GOODPUT_PERIOD_NS / 1e9
    return [
        sum(done.goodput_bytes[first:end]) * 8 / taken_s / (flow.request.rate_bps * PAYLOAD)
        for flow, done in zip(flows, result.flows, strict=True)
    ]


def off_paths(fabric: Fabric, flows: Sequence[Sprayed], result: RunResult) -> int:
    """Return the packets that were captured between switches off the path that their source port names."""
    paths: dict[FiveTuple, Mapping[int, frozenset[str]]] = {}
    for flow in flows:
        src, dst = (fabric.nic_by_id[nic].ip for nic in (flow.request.src_nic, flow.request.dst_nic))
        paths[FiveTuple(src, dst, 0)] = flow.links
    astray = 0
    for link in fabric.cable_by_link:
        for stream, packets in result.capture.data.get(link, {}).items():
            links = paths.get(stream._replace(udp_source_port=0), {}).get(stream.udp_source_port, frozenset())
            astray += packets if link not in links else 0
    return astray
