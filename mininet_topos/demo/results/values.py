"""The results of a demo as values; table, report and `results.json` are made from them.

The JSON has these values under their own names (`docs/demo.md` lists them). `SCHEMA` changes when a field changes its
name or meaning; new fields do not change it.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from heddle.mininet_topos.demo.results.judgement import Verdict, verdict_of_run
from heddle.mininet_topos.demo.results.scenes import SceneResult
from heddle.mininet_topos.host.machine import MachineUse
from heddle.mininet_topos.measure.flow_run import Integrity

SCHEMA = "heddle.demo/1"

MODES = ("ecmp", "e-ecmp", "planned")
MODE_TITLES = {"ecmp": "ECMP", "e-ecmp": "E-ECMP", "planned": "planned"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairResult:
    """One queue pair: its path, its rates and its packet counts.

    `links` is its planned path (planned runs) or the one traced through the switches' rules (hashed runs). `share_bps`
    is its max-min share in wire bits, `planned_rate_bps` the rate of the plan (None in hashed runs), `pace_bps` the
    pacing rate of its NIC. `payload_bytes` are acknowledged bytes; `duration_ns` is from the run's common start to its
    last acknowledgement; `faults` has one line per link with a wrong packet count.
    """

    flow_id: str
    udp_source_port: int
    reverse_udp_source_port: int
    links: tuple[str, ...]
    share_bps: int
    planned_rate_bps: int | None
    pace_bps: int
    payload_bytes: int
    tx_packets: int
    rx_packets: int
    retransmitted_packets: int
    duration_ns: int
    finished: bool
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFlow:
    """One flow, which completes with the last of its queue pairs.

    Goodput is payload bits over the time from the run's common start to the flow's last acknowledgement. `demand_bps`
    is min(C_src / flows out, C_dst / flows in), or the flow's own rate.
    """

    src_rank: int
    dst_rank: int
    src_nic: str
    dst_nic: str
    payload_bytes: int
    duration_ns: int
    goodput_bps: float
    demand_bps: int
    queue_pairs: tuple[QueuePairResult, ...]

    @property
    def share_of_demand(self) -> float:
        """Return goodput over demand, in payload bits over wire bits; headers alone limit it to 0.986."""
        return self.goodput_bps / self.demand_bps

    @property
    def exact(self) -> bool:
        """Return whether every queue pair was counted on exactly its links."""
        return not any(pair.faults for pair in self.queue_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResult:
    """One directed link in one run; loads are fractions of its capacity while its flows were sending.

    `offered_utilisation` is the sum of demands (may exceed 1), `predicted_utilisation` the sum of max-min shares (at
    most 1), `measured_utilisation` the sum of counted wire bits without acknowledgements.
    """

    id: str
    capacity_bps: int
    packets: int
    wire_bytes: int
    queue_pairs: int
    offered_utilisation: float
    predicted_utilisation: float
    measured_utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction of a run before its start; `source` is `certificate` or `max-min`.

    `max_link_utilisation` is of offered load, as in the certificate. Times and goodputs are those of the fluid model,
    without headers and acknowledgements.
    """

    source: str
    max_link_utilisation: float
    completion_ns: int
    sum_goodput_bps: float
    worst_goodput_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionSeries:
    """Time series of the switches' counters during a run: one value for the interval that ends at each time.

    Times count from the run's start. Rates are of the queue at the port to a NIC, in wire bits, acknowledgements
    included; a depth is that of the deepest queue at that time.
    """

    times_ns: tuple[int, ...] = ()
    receiver_bps: tuple[int, ...] = ()
    bystander_bps: tuple[int, ...] = ()
    marked_packets: tuple[int, ...] = ()
    pfc_frames: tuple[int, ...] = ()
    dropped_packets: tuple[int, ...] = ()
    depth_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Congestion:
    """The congestion figures of a run with the queue model (ECN and PFC).

    `bystander` is the index of the flow with another receiver. `pfc_frames` are the frames that switches sent, XOFF and
    XON; `switch_paused_ns` and `nic_paused_ns` are the total paused times of switch ports and of NICs.
    """

    bystander: int
    marked_packets: int
    cnps: int
    pfc_frames: int
    switch_paused_ns: int
    nic_paused_ns: int
    dropped_packets: int
    series: CongestionSeries

    @property
    def paused_ns(self) -> int:
        """Return the total paused time of switch ports and NICs."""
        return self.switch_paused_ns + self.nic_paused_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """One workload under one mode; `attempts` is 2 if the first attempt was invalid because of this machine.

    `faults` are of a planned run: what is wrong with its plan or its rules, and no machine explains. `machine` is what
    the machine gave while it ran.
    """

    workload: str
    kind: str
    seed: int
    mode: str
    attempts: int
    flows: tuple[DemoFlow, ...]
    links: tuple[LinkResult, ...]
    predicted: Prediction
    integrity: Integrity
    completion_ns: int
    certificate: dict[str, Any] | None = None
    congestion: Congestion | None = None
    faults: tuple[str, ...] = ()
    machine: MachineUse | None = None

    @property
    def verdict(self) -> Verdict:
        """Return whether a planned run shows what it should: valid, and every packet on its planned links."""
        return verdict_of_run(
            valid=self.valid, exact=self.exact_flows == len(self.flows), faults=self.faults, machine=self.machine
        )  # fmt: skip

    @property
    def valid(self) -> bool:
        """Return whether the run may be compared."""
        return self.integrity.valid

    @property
    def sum_goodput_bps(self) -> float:
        """Return the sum of the flows' goodputs."""
        return sum(flow.goodput_bps for flow in self.flows)

    @property
    def worst(self) -> DemoFlow:
        """Return the flow with the least goodput relative to its demand."""
        return min(self.flows, key=lambda flow: flow.share_of_demand)

    @property
    def bystander(self) -> DemoFlow | None:
        """Return the bystander flow of an incast, None for other workloads."""
        return None if self.congestion is None else self.flows[self.congestion.bystander]

    @property
    def many_to_one_ns(self) -> int:
        """Return the completion time of an incast's flows without the bystander."""
        return max(flow.duration_ns for flow in self.flows if flow is not self.bystander)

    @property
    def retransmitted_packets(self) -> int:
        """Return the number of retransmitted packets."""
        return sum(pair.retransmitted_packets for flow in self.flows for pair in flow.queue_pairs)

    @property
    def lost_packets(self) -> int:
        """Return the number of data packets that were sent and did not arrive, whether counted as dropped or not."""
        return sum(pair.tx_packets - pair.rx_packets for flow in self.flows for pair in flow.queue_pairs)

    @property
    def exact_flows(self) -> int:
        """Return the number of flows whose packets were counted on exactly their links."""
        return sum(flow.exact for flow in self.flows)

    @property
    def max_measured_utilisation(self) -> float:
        """Return the measured load of the busiest link between switches, as a fraction of its capacity."""
        return max((link.measured_utilisation for link in self.links if is_switch_link(link.id)), default=0.0)


def is_switch_link(link: str) -> bool:
    """Return whether both ends of a directed link are switch ports (a NIC end has no port number)."""
    return all(":" in end for end in link.split(">"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSketch:
    """The part of the fabric that the report draws: switches by tier, cables and NICs, all as ids."""

    name: str
    switches: tuple[tuple[str, int], ...]
    cables: tuple[tuple[str, str], ...]
    nics: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUpRate:
    """A line rate that was given up because a run (or the calibration) was invalid twice at it, and the reason."""

    line_rate_bps: int
    run: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The result of a demo: parameters, machine, and all runs in execution order, all at one line rate."""

    started_unix_ms: int
    elapsed_ns: int
    parameters: dict[str, Any]
    machine: dict[str, Any]
    fabric: FabricSketch
    runs: tuple[DemoRun, ...]
    scenes: tuple[SceneResult, ...] = ()
    notes: tuple[str, ...] = ()
    rates_given_up: tuple[GivenUpRate, ...] = ()
    schema: str = field(default=SCHEMA)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Return the names of the workloads in order of first appearance."""
        return tuple(dict.fromkeys(run.workload for run in self.runs))

    def run(self, workload: str, mode: str) -> DemoRun | None:
        """Return the run of a workload under a mode, None if there is none."""
        return next((run for run in self.runs if (run.workload, run.mode) == (workload, mode)), None)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values: all fields, and the derived figures of each run."""
        found = asdict(self)
        for plain, run in zip(found["runs"], self.runs, strict=True):
            plain |= {
                "valid": run.valid,
                "verdict": run.verdict if run.mode == "planned" else None,
                "sum_goodput_bps": run.sum_goodput_bps,
                "worst_goodput_bps": run.worst.goodput_bps,
                "worst_share_of_demand": run.worst.share_of_demand,
                "lost_packets": run.lost_packets,
                "retransmitted_packets": run.retransmitted_packets,
                "flows_on_exact_links": run.exact_flows,
                "max_measured_utilisation": run.max_measured_utilisation,
            }
        for plain, scene in zip(found["scenes"], self.scenes, strict=True):
            plain |= {"holds": scene.holds, "verdict": scene.verdict, "why": scene.why}
        return found
