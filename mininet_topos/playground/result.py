"""The result of `heddle lab traffic` as values, as JSON and as a table. Pure, but for the drawing of rich."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

MAX_FLOWS_SHOWN = 32
MAX_EVENTS_SHOWN = 20
MAX_TEXT_LENGTH = 110
LATE = 0.2
"""A NIC at 20 Mbit/s needs some 7 % of a processor, and a frame each 1.7 ms: waiting longer costs rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRow:
    """One flow: what its plan allows (wire bit/s, 0 if hashed), and what arrived (payload bit/s).

    `moves` counts changes of its path while it ran.
    """

    flow_id: str
    src_nic: str
    dst_nic: str
    planned_bps: int
    goodput_bps: int
    lost_packets: int
    retransmitted_packets: int
    moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened in a run: an `event` of the workload, or a `decision` of the controller."""

    at_ns: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficResult:
    """One run of a workload on a running lab.

    `duration_ns` is shorter than wanted if the run was ended early. `problems` are why it proves nothing about rates.
    `switches_waited` and `nics_waited` (on average) are the parts of the time in which they waited for a processor.
    """

    lab: str
    workload: str
    mode: str
    seed: int
    duration_ns: int
    flows: tuple[FlowRow, ...]
    marked_packets: int
    cnps: int
    pfc_frames: int
    dropped_packets: int
    moments: tuple[Moment, ...]
    problems: tuple[str, ...]
    switches_waited: float = 0.0
    nics_waited: float = 0.0

    @property
    def sum_goodput_bps(self) -> int:
        """Return the goodput of all flows together."""
        return sum(flow.goodput_bps for flow in self.flows)

    @property
    def worst_goodput_bps(self) -> int:
        """Return the goodput of the slowest flow."""
        return min((flow.goodput_bps for flow in self.flows), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return all values by name, with the sum and the minimum of the goodput."""
        sums = {"sum_goodput_bps": self.sum_goodput_bps, "worst_goodput_bps": self.worst_goodput_bps}
        return {**asdict(self), **sums}

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> "TrafficResult":
        """Return the result that `to_json` has written."""
        values = {name: found[name] for name in cls.__dataclass_fields__}
        values["flows"] = tuple(FlowRow(**flow) for flow in found["flows"])
        values["moments"] = tuple(Moment(**moment) for moment in found["moments"])
        return cls(**{**values, "problems": tuple(found["problems"])})

    @property
    def title(self) -> str:
        """Return the line above the table."""
        return f"{self.workload}, {self.mode}, {self.duration_ns / 1e9:.1f} s, {len(self.flows)} flows, lab {self.lab}"

    def summary(self) -> Iterator[str]:
        """Yield the lines below the table."""
        planned_bps = sum(flow.planned_bps for flow in self.flows)
        of_plan = f" (planned {planned_bps / 1e6:.1f} with headers)" if planned_bps else ""
        yield (
            f"goodput {self.sum_goodput_bps / 1e6:.1f} Mbit/s{of_plan}, slowest flow"
            f" {self.worst_goodput_bps / 1e6:.2f}; {self.marked_packets} packets marked, {self.cnps} CNPs,"
            f" {self.pfc_frames} PFC frames, {self.dropped_packets} dropped"
        )
        for moment in self.moments[:MAX_EVENTS_SHOWN]:
            yield f"  {moment.at_ns / 1e9:6.2f} s  {_cut(moment.text)}"
        if len(self.moments) > MAX_EVENTS_SHOWN:
            yield f"  and {len(self.moments) - MAX_EVENTS_SHOWN} more; --json prints all of them"
        if max(self.switches_waited, self.nics_waited) > LATE:
            yield (
                f"note: this machine was late: its switches waited {self.switches_waited:.0%} and its NICs "
                f"{self.nics_waited:.0%} of the time for a processor; expect lower rates, marks and pauses"
            )
        for problem in self.problems:
            yield f"note: {problem}"


def _cut(text: str) -> str:
    """Return a text of the controller in one line of a terminal; --json prints all of it."""
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 1].rstrip()}…"


def table(result: TrafficResult) -> Table:
    """Return the flows as a table, the slowest first."""
    found = Table(title=result.title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("from", "to"):
        found.add_column(name, no_wrap=True)
    for name in ("planned", "Mbit/s", "lost", "resent", "moves"):
        found.add_column(name, justify="right", no_wrap=True)
    rows = sorted(result.flows, key=lambda flow: flow.goodput_bps)
    for flow in rows[:MAX_FLOWS_SHOWN]:
        found.add_row(
            flow.src_nic, flow.dst_nic, f"{flow.planned_bps / 1e6:.2f}" if flow.planned_bps else "-",
            f"{flow.goodput_bps / 1e6:.2f}", str(flow.lost_packets), str(flow.retransmitted_packets), str(flow.moves),
        )  # fmt: skip
    if len(rows) > MAX_FLOWS_SHOWN:
        found.add_row(f"and {len(rows) - MAX_FLOWS_SHOWN} faster ones", *[""] * 6)
    return found
