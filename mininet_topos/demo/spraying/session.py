"""Run a spraying demo: a lab of routers, a controller that plans the sets, and every mode for every seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from heddle.controller.config import parse_fabric
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.progress import DemoProgress
from heddle.mininet_topos.demo.results.judgement import Verdict, busy_text
from heddle.mininet_topos.demo.spraying.figures import SprayRun, run_of
from heddle.mininet_topos.demo.spraying.sets import ALL, MODES, SprayMode, sprayed_flows
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.measure.machine_watch import MachineWatch
from heddle.mininet_topos.measure.spray_paths import paths_on
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.services.controller_client import ControllerClient, connected
from heddle.mininet_topos.services.controller_process import running_controller
from heddle.mininet_topos.traffic.workloads import compute_nics, permutation, sprayed, with_rate
from heddle.v1 import heddle_pb2 as pb

FABRIC = f"""\
version: 1
name: demo
steering: srv6
generate: {{kind: spine_leaf, spines: {ALL}, leaves: 4, hosts_per_leaf: 4, gbps: 0.01}}
"""
LOAD = 0.95
"""The demand of each flow, as a part of its NIC's rate: the rest is room for ACKs."""
MIN_SECONDS, MAX_SECONDS = 1.0, 600.0
SET_UP_S, OVERHEAD_S = 14.0, 2.5
ATTEMPTS = 2

Plans = Mapping[int, Sequence[pb.FlowPlan]]
"""The flows of a job's plan by the number of paths of each flow."""


class SprayOptions(NamedTuple):
    """The seeds, and the duration of a run in seconds."""

    seeds: tuple[int, ...]
    seconds: float


def spray_options(seeds: tuple[int, ...], seconds: float, others: Sequence[str] = ()) -> SprayOptions:
    """Return the options; raises InputError for a duration out of range, and for `others` that were given."""
    if others:
        raise InputError(f"--spray has a fabric, workload and modes of its own: leave out {', '.join(others)}")
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise InputError(f"--seconds {seconds:g}: must be {MIN_SECONDS:g} to {MAX_SECONDS:g} with --spray")
    return SprayOptions(seeds, seconds)


def run_spraying(options: SprayOptions, progress: DemoProgress) -> list[SprayRun]:
    """Run all modes with all seeds and remove the lab; raises PrerequisiteError where this machine has no such lab."""
    fabric = parse_fabric(FABRIC, "the demo's fabric")
    runs = len(options.seeds) * len(MODES)
    progress.expect(SET_UP_S + runs * (options.seconds + OVERHEAD_S))
    progress.begin("building the lab")
    found: list[SprayRun] = []
    with RoutedLab(fabric) as lab, _controller(lab) as client:
        progress.end(SET_UP_S)
        for seed in options.seeds:
            plans = _plans(fabric, client, seed, options.seconds)
            for mode in MODES:
                name = f"[{len(found) + 1:2}/{runs}] seed {seed}, {mode.name}"
                progress.begin(name)
                found.append(_measure(lab, mode, seed, plans, options.seconds, progress.log))
                progress.end(options.seconds + OVERHEAD_S)
                progress.log(f"{name}: slowest flow {found[-1].slowest:.0%} of its rate")
    return found


@contextmanager
def _controller(lab: RoutedLab) -> Iterator[ControllerClient]:
    entry = entry_of(lab.id)
    controller = running_controller(FABRIC, entry.directory, entry.environment)
    with controller as addresses, connected(addresses["grpc"]) as client:
        yield client


def _plans(fabric: Fabric, client: ControllerClient, seed: int, seconds: float) -> Plans:
    """Return the controller's plans of a permutation, for each number of paths that a planned mode has."""
    nics = compute_nics(fabric)
    workload = with_rate(permutation(nics, seed, seconds), int(LOAD * nics[0].capacity_bps))
    found = {}
    for paths in (mode.paths for mode in MODES if mode.planned):
        plan = client.submit(sprayed(workload, paths).job)
        client.release(plan.job_id)
        found[paths] = plan.flows
    return found


def _measure(
    lab: RoutedLab, mode: SprayMode, seed: int, plans: Plans, seconds: float, log: Callable[[str], None]
) -> SprayRun:
    """Run a mode, and once more where a planned run has missed its rates."""
    flows = sprayed_flows(plans[mode.paths if mode.planned else ALL], mode, seed, seconds, paths_on(lab.fabric))
    for attempt in range(ATTEMPTS):
        watch = MachineWatch(lab.id)
        result = lab.run_flows([flow.request for flow in flows], seconds)
        machine = watch.use(result.nics.values())
        found = run_of(lab.fabric, mode, seed, flows, result, machine, seconds)
        if found.verdict is Verdict.SHOWN or found.off_paths:
            break
        if attempt + 1 < ATTEMPTS:
            log(f"  {mode.name}: slowest flow {found.slowest:.0%}, running it again: {busy_text(machine)}")
    return found
