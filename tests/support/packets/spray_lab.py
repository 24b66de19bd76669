"""Run the flows of a permutation on a lab of routers, sprayed over sets of paths, while cables are cut and repaired."""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.srv6 import Sids
from heddle.mininet_topos.demo.spraying.figures import FRAME_BYTES, PAYLOAD
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FlowChange, FlowRequest, RunResult, SprayPath
from heddle.mininet_topos.routed.lab import RoutedLab
from tests.support.fabrics.path_sets import Spines, links_over

FIRST_PORT = 0xC000
PERIODS_PER_BIN = 200_000_000 // GOODPUT_PERIOD_NS


class Act(NamedTuple):
    """What happens at a time of the run: something, and then the changes that it returns reach the NICs."""

    at_s: float
    do: Callable[[], Mapping[str, FlowChange]]


class Acts:
    """Changes of flows from a thread that keeps time, as `run_flows` takes them."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self._acts = sorted(acts, key=lambda act: act.at_s)
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._changes: deque[Mapping[str, FlowChange]] = deque()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.done_s: list[float] = []
        """When each act was complete, in seconds of the run."""

    def on_progress(self, seconds: float) -> None:
        """Begin with the run."""
        if self._thread is None and seconds > 0:
            self._thread = threading.Thread(target=self._play, args=(time.monotonic() - seconds,), daemon=True)
            self._thread.start()

    def _play(self, begun_s: float) -> None:
        for act in self._acts:
            if self._ended.wait(max(0.0, begun_s + act.at_s - time.monotonic())):
                return
            changes = act.do()
            self.done_s.append(time.monotonic() - begun_s)
            if changes:
                self._changes.append(changes)
                os.eventfd_write(self._event, 1)

    def fileno(self) -> int:
        return self._event

    def take(self) -> Sequence[Mapping[str, FlowChange]]:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return []
        return [self._changes.popleft() for _ in range(len(self._changes))]

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10.0)
        os.close(self._event)


def paths_over(fabric: Fabric, src_nic: str, dst_nic: str, spines: Sequence[int]) -> tuple[SprayPath, ...]:
    """Return the paths from one NIC to another over some spines, each with its port and SID."""
    sids = Sids(fabric)
    return tuple(
        SprayPath(FIRST_PORT + spine, ipv6_text(sids.destination(links_over(fabric, src_nic, dst_nic, spine), dst_nic)))
        for spine in spines
    )


def requests(fabric: Fabric, flows: Sequence[FlowPlan], spines: Sequence[Spines], size_bytes: int) -> list[FlowRequest]:
    """Return the flows, those of a leaf begun one after the other within the time of a frame."""
    found = []
    for number, (flow, mine) in enumerate(zip(flows, spines, strict=True)):
        gap_ns = FRAME_BYTES * 8 * 10**9 // flow.rate_bps
        found.append(
            FlowRequest(
                flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, rate_bps=flow.rate_bps,
                size_bytes=size_bytes, udp_source_port=FIRST_PORT, reverse_udp_source_port=FIRST_PORT,
                start_offset_ns=number % 4 * gap_ns // 4,
                paths=paths_over(fabric, flow.src_nic, flow.dst_nic, mine.there),
                reverse_paths=paths_over(fabric, flow.dst_nic, flow.src_nic, mine.back),
            )
        )  # fmt: skip
    return found


def new_sets(
    fabric: Fabric, flows: Sequence[FlowPlan], spines: Sequence[Spines], down: Sequence[tuple[str, int]]
) -> dict[str, FlowChange]:
    """Return for every flow its set without the cables that are down, by leaf and spine, and the rate of its paths."""
    found = {}
    for flow, mine in zip(flows, spines, strict=True):
        leaves = {fabric.nic_by_id[nic].port.switch for nic in (flow.src_nic, flow.dst_nic)}
        left = mine
        for leaf, spine in down:
            left = left.without(spine) if leaf in leaves else left
        found[flow.flow_id] = FlowChange(
            rate_bps=flow.rate_bps * len(left.there) // len(mine.there),
            paths=paths_over(fabric, flow.src_nic, flow.dst_nic, left.there),
            reverse_paths=paths_over(fabric, flow.dst_nic, flow.src_nic, left.back),
        )
    return found


def run(lab: RoutedLab, wanted: Sequence[FlowRequest], seconds: float, acts: Sequence[Act] = ()) -> RunResult:
    """Run flows that do not end by themselves for some seconds."""
    timed = Acts(acts)
    try:
        return lab.run_flows(wanted, seconds, on_progress=timed.on_progress, changes=timed)
    finally:
        timed.close()


def of_the_plan(flows: Sequence[FlowPlan], result: RunResult, seconds: float) -> list[float]:
    """Return the goodput of each flow as a part of its plan, from the second bin of 200 ms to the last whole one."""
    end = int(seconds * 1e9) // GOODPUT_PERIOD_NS // PERIODS_PER_BIN * PERIODS_PER_BIN
    taken_s = (end - PERIODS_PER_BIN) * GOODPUT_PERIOD_NS / 1e9
    return [
        sum(done.goodput_bytes[PERIODS_PER_BIN:end]) * 8 / taken_s / (flow.rate_bps * PAYLOAD)
        for flow, done in zip(flows, result.flows, strict=True)
    ]


def medians(flows: Sequence[FlowPlan], result: RunResult, seconds: float) -> list[float]:
    """Return the same of the median bin: of a machine that stands still now and then, few bins are short."""
    end = int(seconds * 1e9) // GOODPUT_PERIOD_NS // PERIODS_PER_BIN
    return [
        median(
            sum(done.goodput_bytes[index * PERIODS_PER_BIN : (index + 1) * PERIODS_PER_BIN]) for index in range(1, end)
        )
        * 8
        / (0.2 * flow.rate_bps * PAYLOAD)
        for flow, done in zip(flows, result.flows, strict=True)
    ]


def bins_bps(result: RunResult) -> list[float]:
    """Return the goodput of all flows in each whole bin of 200 ms."""
    periods: Counter[int] = Counter()
    for done in result.flows:
        periods.update(dict(enumerate(done.goodput_bytes)))
    whole = (max(periods, default=-1) + 1) // PERIODS_PER_BIN
    return [
        sum(periods[index * PERIODS_PER_BIN + part] for part in range(PERIODS_PER_BIN)) * 8 / 0.2
        for index in range(whole)
    ]
