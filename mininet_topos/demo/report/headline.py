"""The headline figures of the report: gains, the bystander, the worst flow, losses, paths and validity."""

from dataclasses import dataclass
from statistics import geometric_mean

from heddle.mininet_topos.demo.results.judgement import Verdict
from heddle.mininet_topos.demo.results.summary import congested, ratio
from heddle.mininet_topos.demo.results.values import DemoResult, DemoRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure with its caption; `tone` is "good", "bad" or "" (neutral)."""

    figure: str
    text: str
    tone: str = ""


def tiles(result: DemoResult) -> list[Tile]:
    """Return the headline figures; they are of valid runs only, and the number of valid runs is one of them."""
    planned = [run for run in result.runs if run.mode == "planned" and run.valid]
    return [
        *_gains(result),
        *_bystanders(result),
        *([_worst(planned), _lost(planned), _paths(planned)] if planned else []),
        *([_scenes(result)] if result.scenes else []),
        _valid(result.runs),
    ]


def _gains(result: DemoResult) -> list[Tile]:
    found = []
    paced = [name for name in result.workloads if name not in congested(result)]
    for against, name in (("ecmp", "ECMP"), ("e-ecmp", "E-ECMP")):
        names = [name for name in paced if ratio(result, name, "planned", against) is not None]
        values = [value for name in names if (value := ratio(result, name, "planned", against)) is not None]
        if values:
            text = f"planned goodput over {name}"
            if len(values) > 1:
                text += f": geometric mean of {len(values)} workloads, {min(values):.2f}× to {max(values):.2f}×"
            found.append(Tile(figure=f"{geometric_mean(values):.2f}×", text=text, tone="good"))
    return found


def _bystanders(result: DemoResult) -> list[Tile]:
    """Return for each incast the goodput of its planned bystander, beside that under ECMP."""
    found = []
    for workload in congested(result):
        run, ecmp = (result.run(workload, mode) for mode in ("planned", "ecmp"))
        if run is None or not run.valid or run.bystander is None:
            continue
        text = "of its demand: the bystander of the planned incast"
        if ecmp is not None and ecmp.valid and ecmp.bystander is not None:
            text += f"; under ECMP {ecmp.bystander.share_of_demand:.0%}"
        found.append(Tile(figure=f"{run.bystander.share_of_demand:.0%}", text=text))
    return found


def _worst(planned: list[DemoRun]) -> Tile:
    alone = [run for run in planned if run.kind == "permutation"]
    share = min(run.worst.share_of_demand for run in alone or planned)
    text = (
        "of line rate: the worst flow of all planned permutations" if alone else "of its demand: the worst planned flow"
    )
    return Tile(figure=f"{share:.1%}", text=text, tone="good")


def _lost(planned: list[DemoRun]) -> Tile:
    lost = sum(run.lost_packets for run in planned)
    return Tile(figure=f"{lost}", text="packets lost in planned runs", tone="bad" if lost else "good")


def _paths(planned: list[DemoRun]) -> Tile:
    exact, flows = sum(run.exact_flows for run in planned), sum(len(run.flows) for run in planned)
    text = "planned flows counted on exactly their links, packet by packet"
    return Tile(figure=f"{exact}/{flows}", text=text, tone="good" if exact == flows else "bad")


def _scenes(result: DemoResult) -> Tile:
    holding = sum(scene.holds for scene in result.scenes)
    text = "scenes hold: what the controller did while flows ran"
    unshown = sum(scene.verdict is Verdict.NOT_SHOWN for scene in result.scenes)
    text += f"; {unshown} not shown, the machine was busy" if unshown else ""
    failed = any(scene.verdict is Verdict.FAILED for scene in result.scenes)
    tone = "bad" if failed else "" if unshown else "good"
    return Tile(figure=f"{holding}/{len(result.scenes)}", text=text, tone=tone)


def _valid(runs: tuple[DemoRun, ...]) -> Tile:
    valid = sum(run.valid for run in runs)
    text = "runs valid: NIC tx = NIC rx + counted drops"
    return Tile(figure=f"{valid}/{len(runs)}", text=text, tone="" if valid == len(runs) else "bad")
