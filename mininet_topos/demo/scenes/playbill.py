"""Play the scenes one after the other: all planned runs under one controller, then the same under ECMP."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.options import DemoOptions
from heddle.mininet_topos.demo.progress import DemoProgress
from heddle.mininet_topos.demo.results.judgement import Attempt, missed_text
from heddle.mininet_topos.demo.results.scenes import SceneResult, SceneRun
from heddle.mininet_topos.demo.results.summary import rate_text
from heddle.mininet_topos.demo.results.values import MODE_TITLES
from heddle.mininet_topos.demo.results.verdict import shortened
from heddle.mininet_topos.demo.scenes.arrival import Arrival
from heddle.mininet_topos.demo.scenes.cut import Cut
from heddle.mininet_topos.demo.scenes.hog import Hog
from heddle.mininet_topos.demo.scenes.script import ACT_S, PATIENCE_S, SECONDS, Scene
from heddle.mininet_topos.demo.scenes.storm import QUARANTINE_MS, Storm
from heddle.mininet_topos.demo.scenes.verdict import carried_part, planned_goodput_bps
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import UNCOUNTED, never_the_machine
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.services.controller_client import ControllerClient, connected
from heddle.mininet_topos.services.controller_process import running_controller
from heddle.mininet_topos.services.telemetry import lab_telemetry, why_no_broker
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.mininet_topos.traffic.cast import Mark, UnfitFabricError
from heddle.mininet_topos.traffic.stage import Played, Stage

RUN_OVERHEAD_S = 1.5
SET_UP_S = 6.0
ATTEMPTS = 2
"""How often a planned run is played at one line rate; at a lower one it is played once."""
SCENES: dict[str, Callable[[Fabric, int], Scene]] = {"cut": Cut, "hog": Hog, "arrival": Arrival, "storm": Storm}
CONFIG = f"port_hold_ms: 100\nquarantine_ms: {QUARANTINE_MS}\ncongestion_pause_ms: 3000\n"
NOTE = (
    "Scenes: switches mark and pause as in the incast, NICs run DCQCN. Planned senders keep the plan's rates and follow"
    " the controller's decisions; hashed ones start at line rate. After a cut ECMP hashes around the cable at once."
)


def expected_s(options: DemoOptions) -> float:
    """Return the expected duration of all scenes."""
    if not _wanted(options):
        return 0.0
    modes = 1 + ("ecmp" in options.modes)
    return 2 * SET_UP_S + len(options.scenes) * modes * (SECONDS + RUN_OVERHEAD_S)


def play_scenes(options: DemoOptions, progress: DemoProgress) -> tuple[tuple[SceneResult, ...], list[str]]:
    """Play the chosen scenes; return their results, and notes on them. Without planned runs there are none.

    Those that missed a measure alone are played once more at a lower rate, if the options have one.
    """
    if not _wanted(options):
        return (), []
    bill = _Playbill(options, progress)
    lower = options.slower[min(1, len(options.slower) - 1)] if options.slower else None
    bill.play(ATTEMPTS, leaves_rest=lower is not None)
    results, notes = bill.results, bill.notes
    rest = tuple(kind for kind in options.scenes if kind in results and results[kind].missed)
    if lower is not None and rest:
        rate = rate_text(lower.line_rate_bps)
        progress.log(f"playing again at {rate}: scene {', '.join(rest)}")
        again = _Playbill(replace(lower, scenes=rest), progress, results)
        again.play(1, leaves_rest=False)
        notes = [*notes, *again.notes[1:]]
        results |= again.results
    return tuple(results[kind] for kind in options.scenes if kind in results), notes


def _wanted(options: DemoOptions) -> bool:
    return bool(options.scenes) and "planned" in options.modes


class _Playbill:
    """The scenes of one demo at one line rate, and what they have shown so far."""

    def __init__(
        self, options: DemoOptions, progress: DemoProgress, earlier: Mapping[str, SceneResult] | None = None
    ) -> None:
        """Choose the scenes that this machine can play; `earlier` are the results at a higher rate."""
        self._options, self._progress, self._earlier = options, progress, earlier or {}
        self._why_plain = why_unavailable() or why_no_broker()
        self._scenes = [SCENES[kind](options.fabric, options.seeds[0]) for kind in options.scenes]
        self.results: dict[str, SceneResult] = {}
        self.notes: list[str] = [NOTE]
        for scene in [one for one in self._scenes if one.needs_telemetry and self._why_plain]:
            self._leave_out(scene, str(self._why_plain))

    def play(self, attempts: int, *, leaves_rest: bool) -> None:
        """Build a lab and play, each planned run at most `attempts` times until it shows its scene.

        With `leaves_rest`, scenes whose measures were missed are not played under ECMP: they follow at a lower rate.
        """
        if not self._scenes:
            return
        self._progress.begin("building the lab of the scenes")
        with self._lab() as lab:
            self._progress.end(SET_UP_S)
            self._progress.begin("starting the controller")
            with self._controller(lab) as client:
                self._progress.end(SET_UP_S)
                stage = Stage(lab, client, SECONDS, patience_s=PATIENCE_S)
                for scene in list(self._scenes):
                    self._play_planned(scene, stage, attempts, leaves_rest=leaves_rest)
            if "ecmp" in self._options.modes:
                lab.ecmp.load()
                stage = Stage(lab, None, SECONDS)
                for scene in self._scenes:
                    if not (leaves_rest and self.results[scene.kind].missed):
                        self._play_hashed(scene, stage)

    def _lab(self) -> Lab:
        fabric = self._options.fabric
        if why_unavailable() is not None:
            return Lab(fabric)
        return Lab(fabric, settings=replace(NicSettings.for_fabric(fabric), dcqcn=True), queues=QueueSettings())

    @contextmanager
    def _controller(self, lab: Lab) -> Iterator[ControllerClient]:
        with ExitStack() as stack:
            telemetry = "" if self._why_plain else stack.enter_context(lab_telemetry(lab))
            directory, environment = lab.ovs.directory.parent, lab.ovs.environment
            controller = running_controller(self._options.fabric_text, directory, environment, CONFIG + telemetry)
            addresses = stack.enter_context(controller)
            lab.connect_controller(int(addresses["openflow"].rpartition(":")[2]))
            client = stack.enter_context(connected(addresses["grpc"]))
            client.await_switches(len(lab.fabric.switches))
            yield client
            lab.disconnect_controller()

    def _play_planned(self, scene: Scene, stage: Stage, attempts: int, *, leaves_rest: bool) -> None:
        """Play a scene until it is shown, a decision is missing or wrong, or all attempts are made.

        With `leaves_rest` the machine that does not carry this rate gets no other attempt at it.
        """
        earlier = self._earlier.get(scene.kind)
        made, run = list(earlier.attempts) if earlier is not None else [], None
        for left in reversed(range(attempts)):
            try:
                played, run = self._attempt(scene, stage)
            except UnfitFabricError as fault:
                if run is None:
                    return self._leave_out(scene, str(fault))
                break
            made.append(attempt_of(scene, played, self._options.line_rate_bps))
            if not made[-1].missed:
                break
            again = left and not (made[-1].overloaded and leaves_rest)
            self._progress.log(f"  {missed_text(made[-1])}{': once more' if again else ''}")
            if not again:
                break
        assert run is not None
        self.results[scene.kind] = SceneResult(
            kind=scene.kind,
            title=scene.title,
            watched=scene.watched,
            act_ns=int(ACT_S * 1e9),
            runs=(replace(run, attempts=len(made)),),
            checks=made[-1].checks,
            attempts=tuple(made),
        )

    def _play_hashed(self, scene: Scene, stage: Stage) -> None:
        """Play a scene under ECMP, and once more if the first run is invalid because of this machine."""
        try:
            _, run = self._attempt(scene, stage)
            if run.problems:
                self._progress.log(f"  invalid, running it again: {run.problems[0]}")
                run = replace(self._attempt(scene, stage)[1], attempts=2)
        except UnfitFabricError as fault:
            self.notes.append(f"Scene {scene.kind} without ECMP: {fault}")
            return
        result = self.results[scene.kind]
        self.results[scene.kind] = replace(result, runs=(*result.runs, run))

    def _attempt(self, scene: Scene, stage: Stage) -> tuple[Played, SceneRun]:
        name = f"scene {scene.kind}, {MODE_TITLES[stage.mode]}"
        self._progress.begin(name)
        try:
            cast = scene.planned(stage) if stage.mode == "planned" else scene.hashed(stage)
            played = stage.play(cast, self._progress.within)
        finally:
            scene.end(stage)
            stage.release_jobs()
        run = run_of(played, stage.mode, loses_packets=scene.loses_packets)
        self._progress.end(SECONDS + RUN_OVERHEAD_S)
        before, after = run.before_bps(int(ACT_S * 1e9)) / 1e6, run.after_bps() / 1e6
        self._progress.log(f"{name}: {before:.1f} Mbit/s, then {after:.1f}")
        return played, run

    def _leave_out(self, scene: Scene, why: str) -> None:
        self._scenes.remove(scene)
        self.notes.append(f"No scene {scene.kind}: {why}")
        self._progress.log(self.notes[-1])


def attempt_of(scene: Scene, played: Played, line_rate_bps: int) -> Attempt:
    """Return what one planned run of a scene came to."""
    problems = _problems(played, loses_packets=scene.loses_packets)
    return Attempt(
        checks=scene.checks(played),
        line_rate_bps=line_rate_bps,
        problems=shortened([one for one in problems if not never_the_machine(one)]),
        faults=tuple(one for one in problems if never_the_machine(one)),
        caused=scene.caused(played),
        carried_part=carried_part(played),
        machine=played.machine,
    )


def _problems(played: Played, *, loses_packets: bool) -> list[str]:
    """Return why a run must not be compared, without the packets that its scene loses itself."""
    result = played.result
    problems = [one for one in result.integrity.problems if not (loses_packets and one.endswith(UNCOUNTED))]
    if result.capture.ring_drops:
        problems.append(f"{result.capture.ring_drops} packets passed the capture uncounted")
    return problems


def run_of(played: Played, mode: str, *, loses_packets: bool) -> SceneRun:
    """Return the values of one run."""
    result = played.result
    marks = [*played.acts, *(Mark(at_ns=one.at_ns, kind="decision", text=one.line) for one in played.decisions)]
    return SceneRun(
        mode=mode,
        attempts=1,
        goodput_bps=played.goodput_bps,
        marks=tuple(sorted(marks, key=lambda mark: mark.at_ns)),
        rate_bps=planned_goodput_bps(played, played.cast.watched),
        moved_flows=len({move.flow_id for move in result.moves}),
        lost_packets=sum(flow.lost_packets for flow in result.flows),
        retransmitted_packets=sum(flow.retransmitted_packets for flow in result.flows),
        problems=shortened(_problems(played, loses_packets=loses_packets)),
    )
