"""What a demo measured, as values that table, report and `results.json` are all made from.

The JSON is these values under their own names (`docs/demo.md` lists them). `SCHEMA` changes when a field changes
its name or meaning; new fields do not change it.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from mininet_topos.measure.flow_run import Integrity

SCHEMA = "heddle.demo/1"

MODES = ("ecmp", "e-ecmp", "planned")
MODE_TITLES = {"ecmp": "ECMP", "e-ecmp": "E-ECMP", "planned": "planned"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairResult:
    """One queue pair: where it was to go, how fast, and what became of its packets.

    `links` is its planned path (planned runs) or the one traced through the switches' rules (hashed runs).
    `share_bps` is its max-min share of the wire, `planned_rate_bps` what the plan lets it send (None where hashed),
    `pace_bps` what its NIC was told; `payload_bytes` were acknowledged; `duration_ns` is from the run's common start
    to its last acknowledgement; `faults` holds one line for each
    link whose count was not what it should be.
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
    """One flow, done when the last of its queue pairs is.

    Goodput is payload bits over the run's common start to its last acknowledgement; `demand_bps` is what its NICs allow
    it: line rate where it has them to itself, else min(C_src / flows out, C_dst / flows in).
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
        """Return goodput over demand, payload bits over wire bits: headers alone keep it below 0.986."""
        return self.goodput_bps / self.demand_bps

    @property
    def exact(self) -> bool:
        """Return whether every queue pair was counted on exactly its links."""
        return not any(pair.faults for pair in self.queue_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResult:
    """One directed link in one run: loads as shares of its capacity, while the flows on it were sending.

    `offered_utilisation` is the sum of the demands on it (above 1 they must share), `predicted_utilisation` of the
    max-min shares (never above 1), `measured_utilisation` of the wire bits counted on it, acknowledgements left out.
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
    """What was expected of a run before it started; `source` is `certificate` or `max-min`.

    `max_link_utilisation` is of offered load, as in the certificate. Times and goodputs are of the fluid model:
    no headers, no acknowledgements.
    """

    source: str
    max_link_utilisation: float
    completion_ns: int
    sum_goodput_bps: float
    worst_goodput_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionSeries:
    """What the switches' counters said while a run lasted: one value for each interval that ends at a moment.

    Moments count from the run's start. Rates are of what entered the last queue towards a NIC, in wire bits, answers
    included; depths are those of the moment, of the deepest queue.
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
    """What queues and NICs did about too much traffic; only runs on switches that mark and pause have it.

    `bystander` is the index of the flow that sends to somebody else. `pfc_frames` are what switches sent, pauses
    and their ends; `switch_paused_ns` and `nic_paused_ns` add up what ports and NICs stood still for it.
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
        """Return for how long ports and NICs were paused, all together."""
        return self.switch_paused_ns + self.nic_paused_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """One workload under one mode; `attempts` is 2 where overload of this machine made it run again."""

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
        """Return the flow with the least goodput for what its NICs allow."""
        return min(self.flows, key=lambda flow: flow.share_of_demand)

    @property
    def bystander(self) -> DemoFlow | None:
        """Return the flow beside an incast, None where there is none."""
        return None if self.congestion is None else self.flows[self.congestion.bystander]

    @property
    def many_to_one_ns(self) -> int:
        """Return when the last flow of an incast was done, the bystander left out."""
        return max(flow.duration_ns for flow in self.flows if flow is not self.bystander)

    @property
    def retransmitted_packets(self) -> int:
        """Return how many packets were sent again."""
        return sum(pair.retransmitted_packets for flow in self.flows for pair in flow.queue_pairs)

    @property
    def lost_packets(self) -> int:
        """Return how many data packets were sent and never arrived, counted as dropped or not."""
        return sum(pair.tx_packets - pair.rx_packets for flow in self.flows for pair in flow.queue_pairs)

    @property
    def exact_flows(self) -> int:
        """Return how many flows were counted on exactly their links."""
        return sum(flow.exact for flow in self.flows)

    @property
    def max_measured_utilisation(self) -> float:
        """Return the load of the busiest switch-to-switch link, as a share of its capacity."""
        return max((link.measured_utilisation for link in self.links if is_switch_link(link.id)), default=0.0)


def is_switch_link(link: str) -> bool:
    """Return whether both ends of a directed link are switch ports (a NIC end has no port number)."""
    return all(":" in end for end in link.split(">"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSketch:
    """As much of the fabric as its drawing needs: switches by tier, cables and NICs, all as ids."""

    name: str
    switches: tuple[tuple[str, int], ...]
    cables: tuple[tuple[str, str], ...]
    nics: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUpRate:
    """A line rate at which this machine made a run invalid twice: which run (or the calibration), and its problem."""

    line_rate_bps: int
    run: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """A whole demo: what was asked for, on what machine, and every run in the order they ran, all at one line rate."""

    started_unix_ms: int
    elapsed_ns: int
    parameters: dict[str, Any]
    machine: dict[str, Any]
    fabric: FabricSketch
    runs: tuple[DemoRun, ...]
    notes: tuple[str, ...] = ()
    rates_given_up: tuple[GivenUpRate, ...] = ()
    schema: str = field(default=SCHEMA)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Return the workloads' names in the order they first appear."""
        return tuple(dict.fromkeys(run.workload for run in self.runs))

    def run(self, workload: str, mode: str) -> DemoRun | None:
        """Return the run of a workload under a mode, None where there was none."""
        return next((run for run in self.runs if (run.workload, run.mode) == (workload, mode)), None)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values: the fields, and what is derived from them where readers want it."""
        found = asdict(self)
        for plain, run in zip(found["runs"], self.runs, strict=True):
            plain |= {
                "valid": run.valid,
                "sum_goodput_bps": run.sum_goodput_bps,
                "worst_goodput_bps": run.worst.goodput_bps,
                "worst_share_of_demand": run.worst.share_of_demand,
                "lost_packets": run.lost_packets,
                "retransmitted_packets": run.retransmitted_packets,
                "flows_on_exact_links": run.exact_flows,
                "max_measured_utilisation": run.max_measured_utilisation,
            }
        return found
