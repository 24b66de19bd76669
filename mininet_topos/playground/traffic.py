"""Run a workload on a running lab: planned, as a job whose plan the NICs follow, or on hashed source ports."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.suggest import did_you_mean
from heddle.mininet_topos.demo.results.verdict import shortened
from heddle.mininet_topos.demo.scenes.hog import Hog
from heddle.mininet_topos.demo.scenes.script import Scene
from heddle.mininet_topos.demo.scenes.storm import Storm
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_reporter import FlowReporter
from heddle.mininet_topos.measure.flow_run import UNCOUNTED
from heddle.mininet_topos.playground.result import FlowRow, Moment, TrafficResult
from heddle.mininet_topos.services.controller_client import ControllerClient
from heddle.mininet_topos.traffic.cast import Cast
from heddle.mininet_topos.traffic.stage import Played, Stage
from heddle.mininet_topos.traffic.workloads import WORKLOADS, Workload, compute_nics, over_ports, sprayed, with_rate

SCENES: dict[str, Callable[[Fabric, int], Scene]] = {"hog": Hog, "storm": Storm}
KINDS = (*WORKLOADS, *SCENES)
MAX_SECONDS, MIN_RATE_MBPS = 3_600.0, 0.1
REPORT_S = 1.0
MAX_PATHS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRequest:
    """What to run. `rate_bps` is each flow's demand; 0: as fast as its NICs are.

    With `exceed`, planned flows exceed their rates where the plan lets them. Over `paths` above 0, planned flows spray.
    """

    workload: str
    planned: bool
    seconds: float
    rate_bps: int = 0
    seed: int = 1
    exceed: bool = False
    paths: int = 0

    def __post_init__(self) -> None:
        """Raise InputError with all problems, each in one line."""
        problems = []
        if self.workload not in KINDS:
            near = did_you_mean(self.workload, KINDS)
            problems.append(f"{self.workload!r} is no workload{near or ':'} it is one of {', '.join(KINDS)}")
        if not isfinite(self.seconds) or not 1 <= self.seconds <= MAX_SECONDS:
            problems.append(f"--seconds {self.seconds:g}: must be 1 to {MAX_SECONDS:,.0f}")
        if self.rate_bps < 0:
            problems.append("--rate: must be more than 0 Mbit/s")
        elif self.rate_bps and self.workload in SCENES:
            problems.append(f"--rate: the rates of {self.workload} are fixed, leave it out")
        if self.exceed and not self.planned:
            problems.append("--exceed: only planned flows have rates to exceed, leave it or --hashed out")
        if not 0 <= self.paths <= MAX_PATHS:
            problems.append(f"--paths {self.paths}: must be 1 to {MAX_PATHS}, or left out")
        elif self.paths and (not self.planned or self.workload in SCENES):
            problems.append("--paths: only planned workloads other than hog and storm spray, leave it out")
        if problems:
            raise InputError(*problems)

    @property
    def mode(self) -> str:
        """Return the mode of its paths."""
        return "planned" if self.planned else "hashed"

    @property
    def text(self) -> str:
        """Return workload and mode."""
        return f"{self.workload}, {self.mode}{f', {self.paths} paths' if self.paths else ''}"


def traffic_request(
    workload: str,
    planned: bool,
    seconds: float,
    rate_mbps: float | None,
    seed: int,
    exceed: bool = False,
    paths: int = 0,
) -> TrafficRequest:
    """Return the request of a command line; raises InputError."""
    if rate_mbps is not None and not (isfinite(rate_mbps) and rate_mbps >= MIN_RATE_MBPS):
        raise InputError(f"--rate {rate_mbps:g}: must be at least {MIN_RATE_MBPS:g} Mbit/s")
    rate_bps = round((rate_mbps or 0.0) * 1e6)
    return TrafficRequest(
        workload=workload,
        planned=planned,
        seconds=seconds,
        rate_bps=rate_bps,
        seed=seed,
        exceed=exceed,
        paths=paths,
    )


def run_traffic(
    lab: Lab, client: ControllerClient, request: TrafficRequest, on_progress: Callable[[float, float], None]
) -> TrafficResult:
    """Run a workload for its time, or until `Lab.end_flows`; the job is released and the fabric repaired in any case.

    `on_progress` is called a few times a second with the seconds so far and the rate in bit/s that NICs receive now.
    """
    stage = Stage(lab, client, request.seconds, exceeds=request.exceed)
    scene = SCENES[request.workload](lab.fabric, request.seed) if request.workload in SCENES else None
    before, waited, begun = lab.pfc_frames(), lab.waited(), time.monotonic()
    try:
        if scene is None:
            cast = _cast(stage, _workload(lab.fabric, request), request.planned)
        else:
            cast = scene.planned(stage) if request.planned else scene.hashed(stage)
        period_s = 0.0 if request.paths else REPORT_S  # a path that is denied is reported at once
        with _reporting(lab, client, cast) as report:
            played = stage.play(cast, _Progress(_Rate(lab, on_progress), report, period_s).on_progress)
    finally:
        if scene is not None:
            scene.end(stage)
        stage.release_jobs()
    late = lab.waited().since(waited)
    took_s = time.monotonic() - begun
    found = _result(lab, request, played, before)
    return replace(found, switches_waited=late.switches_s / took_s, nics_waited=late.nics_s / took_s)


def _workload(fabric: Fabric, request: TrafficRequest) -> Workload:
    """Return a workload of the demo as a job of the lab, with the demands of `rate_bps` if that is given."""
    nics = compute_nics(fabric)
    found = WORKLOADS[request.workload](nics, request.seed, request.seconds)
    found = replace(found, job=replace(found.job, job_id=request.workload))
    if request.rate_bps:
        line_bps = min(nic.capacity_bps for nic in nics)
        if request.rate_bps > line_bps:
            raise InputError(f"--rate {request.rate_bps / 1e6:g}: NICs of this lab have {line_bps / 1e6:g} Mbit/s")
        found = with_rate(found, request.rate_bps)
    return over_ports(fabric, sprayed(found, request.paths) if request.paths else found)


def _cast(stage: Stage, workload: Workload, planned: bool) -> Cast:
    followed = (stage.submit(workload),) if planned else ()
    requests = stage.planned(followed[0]) if followed else stage.hashed(workload)
    return Cast(requests=requests, watched=frozenset(one.flow_id for one in requests), followed=followed)


class _Rate:
    """Measures what NICs receive, from the counters of the switch ports that face them."""

    def __init__(self, lab: Lab, on_progress: Callable[[float, float], None]) -> None:
        self._lab, self._on_progress = lab, on_progress
        self._last: tuple[float, int] | None = None

    def on_progress(self, seconds: float) -> None:
        """Report the rate since the last call."""
        received = self._lab.delivered_bytes()
        since_s, before = self._last or (seconds, received)
        rate_bps = (received - before) * 8 / (seconds - since_s) if seconds > since_s else 0.0
        self._last = (seconds, received)
        self._on_progress(seconds, rate_bps)


class _Progress:
    """Shows the rate a few times a second, and reports queue pairs at most once in a period."""

    def __init__(self, rate: _Rate, report: Callable[[], None], period_s: float) -> None:
        self._rate, self._report, self._due_s, self._period_s = rate, report, 0.0, period_s

    def on_progress(self, seconds: float) -> None:
        """Do what is due."""
        self._rate.on_progress(seconds)
        if seconds >= self._due_s:
            self._due_s = seconds + self._period_s
            self._report()


@contextmanager
def _reporting(lab: Lab, client: ControllerClient, cast: Cast) -> Iterator[Callable[[], None]]:
    """Yield what reports the queue pairs of the followed jobs to the controller, as the agents of their hosts would.

    Those of no job are left out: with their rates, the controller would give the large ones paths of their own, and
    nothing would collide. At the end of the block all hosts report that they have none.
    """
    flow_ids = [flow.flow_id for plan in cast.followed for flow in plan.flows]
    if not flow_ids:
        yield lambda: None
        return
    with FlowReporter(client.channel) as reporter:
        try:
            yield lambda: reporter.report(lab.observed_flows(flow_ids))
        finally:
            reporter.end()


def _result(lab: Lab, request: TrafficRequest, played: Played, pfc_before: int) -> TrafficResult:
    result, plans = played.result, played.plans
    nics = result.nics.values()
    moved = [move.flow_id for move in result.moves]
    moments = [Moment(at_ns=act.at_ns, kind="event", text=act.text) for act in played.acts]
    moments += [Moment(at_ns=one.at_ns, kind="decision", text=one.line) for one in played.decisions]
    flows = tuple(
        FlowRow(
            flow_id=flow.request.flow_id, src_nic=flow.request.src_nic, dst_nic=flow.request.dst_nic,
            planned_bps=plans[flow.request.flow_id].rate_bps if flow.request.flow_id in plans else 0,
            goodput_bps=int(flow.goodput_bps(result.duration_ns)), lost_packets=flow.lost_packets,
            retransmitted_packets=flow.retransmitted_packets, moves=moved.count(flow.request.flow_id),
        )
        for flow in result.flows
    )  # fmt: skip
    return TrafficResult(
        lab=lab.id,
        workload=request.workload,
        mode=request.mode,
        seed=request.seed,
        duration_ns=min(result.duration_ns, int(request.seconds * 1e9)),
        flows=flows,
        marked_packets=sum(nic.counters.get("np_ecn_marked_roce_packets", 0) for nic in nics),
        cnps=sum(nic.np_cnp_sent for nic in nics),
        pfc_frames=lab.pfc_frames() - pfc_before,
        dropped_packets=sum(result.queue_drops.values()),
        moments=tuple(sorted(moments, key=lambda moment: moment.at_ns)),
        problems=shortened([_worded(problem) for problem in result.integrity.problems]),
    )


def _worded(problem: str) -> str:
    """Return a problem of a run; here packets are also lost where a cable is cut or a NIC in quarantine."""
    if not problem.endswith(UNCOUNTED):
        return problem
    return problem.removesuffix(UNCOUNTED) + "packets were lost on a cut cable, by a quarantine, or by this machine"


def request_of(message: dict[str, Any]) -> TrafficRequest:
    """Return the request that a client has sent; raises InputError."""
    try:
        return TrafficRequest(
            workload=str(message["workload"]), planned=bool(message["planned"]), seconds=float(message["seconds"]),
            rate_bps=int(message["rate_bps"]), seed=int(message["seed"]),
            exceed=bool(message.get("exceed", False)), paths=int(message.get("paths", 0)),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError) as fault:
        raise InputError(f"malformed request: {type(fault).__name__} {fault}") from None
