"""Run the demo: build a lab, run all hashed modes on static rules, then start a controller and run all plans.

The incast has a lab of its own, with the queue model (ECN and PFC). The other workloads are paced so that they overload
no link, and run without it.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile

from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.line_rate import RateTooHighError, full_load, measure_at_highest_rate
from heddle.mininet_topos.demo.options import DemoOptions
from heddle.mininet_topos.demo.progress import DemoProgress
from heddle.mininet_topos.demo.results.assemble import PlanFigures, assemble, collisions, plan_figures
from heddle.mininet_topos.demo.results.congestion import congestion_of
from heddle.mininet_topos.demo.results.values import MODE_TITLES, Congestion, DemoResult, DemoRun, FabricSketch
from heddle.mininet_topos.demo.sampling import CounterSampler
from heddle.mininet_topos.demo.scenes.playbill import expected_s, play_scenes
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure import flow_run
from heddle.mininet_topos.measure.flow_run import never_the_machine
from heddle.mininet_topos.measure.machine_watch import MachineWatch
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.services.controller_client import ControllerClient, connected
from heddle.mininet_topos.services.controller_process import running_controller
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.mininet_topos.traffic.queue_pairs import (
    HEADROOM,
    QueuePair,
    hashed_pairs,
    planned_pairs,
    with_rates,
    with_shares,
)
from heddle.mininet_topos.traffic.workloads import INCAST, Workload

PACING_NOTE = (
    "Pacing: in all workloads but the incast every flow, hashed or planned, is paced at its max-min share of its path"
    f" times {float(HEADROOM):g} (room for acknowledgements; a NIC with several senders is filled to 95 %), on switches"
    " that neither mark nor pause. This compares paths alone; an unpaced sender would do worse on a shared link."
)
INCAST_NOTE = (
    "Incast: switches mark (WRED-ECN) and pause (PFC), NICs run DCQCN. Hashed senders start at line rate and are slowed"
    " by marks and pauses alone; planned ones send at the plan's rates. The bystander's demand is always the same."
    " Times of marks and pauses are those of the lab's slow control loop, not of an ASIC."
)
ACK_TIMEOUT_NS = 3_000_000_000
"""In an incast a NIC may be paused for more than a second, which must not count as a loss."""

EXPECTED_SLOWDOWN = {"ecmp": 2.0, "e-ecmp": 1.5, "planned": 1.0}
RUN_OVERHEAD_S = 0.6
CALIBRATIONS = 2
"""The number of failed calibrations after which a rate is given up: a single stall of the machine is not enough."""

SET_UP_S = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run to execute; the paths and pacing rates of its `pairs` are known."""

    workload: Workload
    mode: str
    pairs: list[QueuePair]
    plan: PlanFigures | None = None
    faults: tuple[str, ...] = ()


def run_demo(options: DemoOptions, progress: DemoProgress) -> DemoResult:
    """Run all workloads in all modes at the highest line rate that this machine carries, and remove the labs."""
    started_ms, begun = time.time_ns() // 1_000_000, time.monotonic_ns()

    def measure(at: DemoOptions, may_give_up: bool) -> DemoResult:
        return _measure_all(at, progress, may_give_up=may_give_up)

    result = measure_at_highest_rate(options, measure, progress.log)
    return replace(result, started_unix_ms=started_ms, elapsed_ns=time.monotonic_ns() - begun)


def _measure_all(options: DemoOptions, progress: DemoProgress, *, may_give_up: bool) -> DemoResult:
    """Build the labs, run everything and remove them; raises RateTooHighError only if `may_give_up`."""
    workloads = options.workloads
    progress.expect(_expected_s(options, workloads))
    runs: list[DemoRun] = []
    notes: list[str] = []
    machine: dict[str, object] = {}
    for lossless, group in _labs(workloads):
        if lossless and (why := why_unavailable()) is not None:
            notes.append(f"No incast: {why}")
            progress.log(notes[-1])
            continue
        notes.append(INCAST_NOTE if lossless else PACING_NOTE)
        progress.begin("building the lab")
        with _lossless_lab(options.fabric) if lossless else Lab(options.fabric) as lab:
            progress.end(SET_UP_S)
            lab_runs = _LabRuns(lab, options, progress, lossless=lossless, done=len(runs), may_give_up=may_give_up)
            if may_give_up and not lossless:
                lab_runs.calibrate()
            runs += [*lab_runs.hashed(group), *lab_runs.planned(group)]
            machine = _machine(lab)
    scenes, scene_notes = play_scenes(options, progress)
    notes += scene_notes
    if not runs:
        raise PrerequisiteError(f"nothing can be run here. {notes[-1]}")
    return DemoResult(
        started_unix_ms=0,
        elapsed_ns=0,
        parameters={**options.parameters(), "headroom": float(HEADROOM)},
        machine=machine,
        fabric=sketch_of(options.fabric),
        runs=tuple(runs),
        scenes=scenes,
        notes=tuple(notes),
    )


def _labs(workloads: tuple[Workload, ...]) -> Iterator[tuple[bool, tuple[Workload, ...]]]:
    """Yield the required labs: whether the lab has the queue model, and the workloads that run in it."""
    for lossless in (False, True):
        group = tuple(workload for workload in workloads if (workload.kind == INCAST) is lossless)
        if group:
            yield lossless, group


def _lossless_lab(fabric: Fabric) -> Lab:
    settings = replace(NicSettings.for_fabric(fabric), dcqcn=True, ack_timeout_ns=ACK_TIMEOUT_NS)
    return Lab(fabric, settings=settings, queues=QueueSettings())


class _LabRuns:
    """The runs of one demo on one lab."""

    def __init__(
        self,
        lab: Lab,
        options: DemoOptions,
        progress: DemoProgress,
        *,
        lossless: bool,
        done: int,
        may_give_up: bool,
    ) -> None:
        self._lab, self._options, self._progress, self._lossless = lab, options, progress, lossless
        self._may_give_up = may_give_up
        self._runs, self._done = len(options.workloads) * len(options.modes), done
        self._paced = with_rates if lossless else with_shares

    def calibrate(self) -> None:
        """Run full load, judged like any other run; raises RateTooHighError if it is invalid twice."""
        self._progress.begin("measuring what this machine carries")
        self._lab.ecmp.load()
        workload, pairs = full_load(self._lab, self._options.seconds)
        run = _Run(workload=workload, mode="ecmp", pairs=self._paced(self._lab.fabric, pairs))
        results = (self._execute(run, lambda _: None) for _ in range(CALIBRATIONS))
        problems = [result.integrity.problems[0] for result in takewhile(lambda result: not result.valid, results)]
        self._progress.end(_expected_calibration_s(self._options))
        if len(problems) == CALIBRATIONS:
            raise RateTooHighError("full load before the first run", problems[-1])

    def hashed(self, workloads: tuple[Workload, ...]) -> Iterator[DemoRun]:
        """Run every workload under the hashed modes, on static rules and without a controller."""
        modes = [mode for mode in self._options.modes if mode != "planned"]
        if not modes:
            return
        self._lab.ecmp.load()
        for workload in workloads:
            for mode in modes:
                pairs = hashed_pairs(self._lab.fabric, workload, mode)
                traced = [replace(pair, links=self._lab.path_of(self._lab.stream_of(pair.request))) for pair in pairs]
                yield self._measure(_Run(workload=workload, mode=mode, pairs=self._paced(self._lab.fabric, traced)))

    def planned(self, workloads: tuple[Workload, ...]) -> Iterator[DemoRun]:
        """Run every workload on the paths of the controller's plan."""
        if "planned" not in self._options.modes:
            return
        self._progress.begin("starting the controller")
        with self._controller() as client:
            self._progress.end(SET_UP_S)
            for workload in workloads:
                plan = client.submit(workload.job)
                pairs = self._paced(self._lab.fabric, planned_pairs(workload, plan.flows))
                figures = plan_figures(plan)
                faults = (*self._misled(pairs), *collisions(self._lab.fabric, workload, pairs, figures))
                yield self._measure(
                    _Run(workload=workload, mode="planned", pairs=pairs, plan=figures, faults=faults)
                )  # fmt: skip
                client.release(workload.job.job_id)

    def _misled(self, pairs: Sequence[QueuePair]) -> Iterator[str]:
        """Return a line if the switches' rules lead planned queue pairs elsewhere than over their planned links."""
        misled = [pair for pair in pairs if self._lab.path_of(self._lab.stream_of(pair.request)) != pair.links]
        if misled:
            yield f"the switches' rules lead {len(misled)} of {len(pairs)} flows off their planned links"

    @contextmanager
    def _controller(self) -> Iterator[ControllerClient]:
        lab = self._lab
        lab.ecmp.clear()
        with running_controller(self._options.fabric_text, lab.ovs.directory.parent, lab.ovs.environment) as addresses:
            lab.connect_controller(int(addresses["openflow"].rpartition(":")[2]))
            with connected(addresses["grpc"]) as client:
                client.await_switches(len(lab.fabric.switches))
                yield client
            lab.disconnect_controller()

    def _measure(self, run: _Run) -> DemoRun:
        """Run once, and once more if the first attempt is invalid because of this machine."""
        result = self._attempt(run)
        if not result.valid:
            self._progress.log(f"  invalid, running it again: {result.integrity.problems[0]}")
            result = replace(self._attempt(run), attempts=2)
        if not result.valid and self._may_give_up and not result.faults:
            raise RateTooHighError(f"{run.workload.name}, {MODE_TITLES[run.mode]}", result.integrity.problems[0])
        self._done += 1
        return result

    def _attempt(self, run: _Run) -> DemoRun:
        expected_s = _expected_run_s(self._options, run.mode)
        name = f"[{self._done + 1:2}/{self._runs}] {run.workload.name}, {MODE_TITLES[run.mode]}"
        self._progress.begin(name)
        scale = expected_s / (_predicted_s(run) + RUN_OVERHEAD_S)

        def move(seconds: float) -> None:
            self._progress.within(min(expected_s, seconds * scale))

        result = self._execute(run, move)
        self._progress.end(expected_s)
        self._progress.log(f"{name}: {_summary(result)}")
        return result

    def _execute(self, run: _Run, move: Callable[[float], None]) -> DemoRun:
        watch = MachineWatch(self._lab.id)
        found, congestion = self._run_flows(run, 2 * _predicted_s(run) + 5.0, move)
        use = watch.use(found.nics.values())
        result = assemble(self._lab.fabric, run.workload, run.mode, run.pairs, found, run.plan, congestion)
        return replace(result, faults=(*run.faults, *filter(never_the_machine, result.integrity.problems)), machine=use)

    def _run_flows(
        self, run: _Run, timeout_s: float, move: Callable[[float], None]
    ) -> tuple[flow_run.RunResult, Congestion | None]:
        """Run the flows once; with the queue model also sample the switches' counters."""
        requests = [pair.request for pair in run.pairs]
        if not self._lossless:
            return self._lab.run_flows(requests, timeout_s, move), None
        with CounterSampler(self._lab.queues) as sampler:

            def on_progress(seconds: float) -> None:
                sampler.started(seconds)
                move(seconds)

            found = self._lab.run_flows(requests, timeout_s, on_progress)
        start_unix_ns = sampler.start_unix_ns or sampler.snapshots[0].timestamp_unix_ns
        nics = found.nics.values()
        return found, congestion_of(self._lab.fabric, run.workload, sampler.snapshots, start_unix_ns, nics)


def _predicted_s(run: _Run) -> float:
    return max(pair.size_bytes * 8 / min(pair.pace_bps, float(pair.share_bps)) for pair in run.pairs)


def _summary(result: DemoRun) -> str:
    worst = f"worst flow {result.worst.share_of_demand:.0%}"
    if result.congestion is not None and result.bystander is not None:
        frames = result.congestion.pfc_frames
        worst = f"bystander {result.bystander.share_of_demand:.0%} of its demand, {frames} PFC frames"
    return f"{result.sum_goodput_bps / 1e6:.1f} Mbit/s, {worst}, {result.completion_ns / 1e9:.2f} s"


def _expected_run_s(options: DemoOptions, mode: str) -> float:
    return options.seconds * EXPECTED_SLOWDOWN[mode] + RUN_OVERHEAD_S


def _expected_calibration_s(options: DemoOptions) -> float:
    return options.seconds + RUN_OVERHEAD_S


def _expected_s(options: DemoOptions, workloads: tuple[Workload, ...]) -> float:
    set_ups = SET_UP_S * (2 if "planned" in options.modes else 1) * len(list(_labs(workloads)))
    set_ups += _expected_calibration_s(options) if options.slower else 0
    set_ups += expected_s(options)
    return set_ups + len(workloads) * sum(_expected_run_s(options, mode) for mode in options.modes)


def _machine(lab: Lab) -> dict[str, object]:
    """Return the machine's properties for the report; never its host name."""
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "open_vswitch": lab.ovs.vsctl("--version").splitlines()[0].rpartition(" ")[2],
        "datapath": str(lab.ovs.datapath),
    }


def sketch_of(fabric: Fabric) -> FabricSketch:
    """Return the part of the fabric that the report draws."""
    return FabricSketch(
        name=fabric.name,
        switches=tuple((switch.id, switch.role.tier) for switch in fabric.switches),
        cables=tuple((str(cable.lower), str(cable.upper)) for cable in fabric.cables),
        nics=tuple((nic.id, nic.host, str(nic.port)) for nic in fabric.nics),
    )
