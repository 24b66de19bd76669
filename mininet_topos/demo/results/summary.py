"""Compare the runs: ratios between modes, and the summary lines below the table. Only valid runs are compared."""

import math
from collections.abc import Callable, Sequence
from statistics import geometric_mean, median

from heddle.mininet_topos.demo.results.judgement import Verdict, busy_text
from heddle.mininet_topos.demo.results.values import MODE_TITLES, DemoResult
from heddle.mininet_topos.measure.flow_run import balance_text

AS_GOOD = 1.03
"""Below this ratio the summary says that the other mode does just as well."""

PLAIN_RATE_BPS = 100_000_000_000


LEGEND = (
    "sum, worst: goodput in Mbit/s, payload bits over the run's start to the last acknowledgement (of the last queue"
    " pair, where a flow has several). %line: the worst flow's goodput over its demand in wire bits: line"
    " rate, or its part of it where a NIC has several flows; headers and room for acknowledgements leave 98 % at most."
    " time: predicted/measured, by max-min fairness on the traced paths (hashed) or by the certificate (planned),"
    " neither counting headers. max link: offered/measured load of the busiest link between switches; above 1 its"
    " flows must share it. paths: flows whose packets were counted on exactly their links."
)

CONGESTION_LEGEND = (
    "Many to one: the bystander's goodput in Mbit/s, in per cent of its demand, and its completion time; many: the"
    " completion time of the other flows. marked: packets that switches marked (ECN); PFC: pause frames sent by"
    " switches, ends of pauses included; pause: total of switch ports and NICs; drops: by queues."
)


def title_of(result: DemoResult) -> str:
    """Return the title of the demo: fabric, line rate and seeds, in one line."""
    sketch = result.fabric
    tiers = [sum(1 for _, tier in sketch.switches if tier == wanted) for wanted in (2, 1, 0)]
    names = [f"{count} {name}" for count, name in zip(tiers, ("spines", "aggs", "leaves"), strict=True) if count]
    rate = int(result.parameters["line_rate_bps"]) / 1e6
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(run.seed for run in result.runs))
    return f"heddle demo: {', '.join(names)}, {len(sketch.nics)} NICs at {rate:g} Mbit/s; seeds {seeds}"


def ratio(result: DemoResult, workload: str, mode: str, against: str) -> float | None:
    """Return the ratio of the sum goodputs of two modes under a workload; None if a run is missing or invalid."""
    ours, theirs = result.run(workload, mode), result.run(workload, against)
    if ours is None or theirs is None or not (ours.valid and theirs.valid) or theirs.sum_goodput_bps <= 0:
        return None
    return ours.sum_goodput_bps / theirs.sum_goodput_bps


def completion_ratio(result: DemoResult, workload: str, mode: str, against: str) -> float | None:
    """Return the ratio of the completion times, `against` over `mode`; None if a run is missing or invalid."""
    ours, theirs = result.run(workload, mode), result.run(workload, against)
    if ours is None or theirs is None or not (ours.valid and theirs.valid) or ours.completion_ns <= 0:
        return None
    return theirs.completion_ns / ours.completion_ns


def summary_lines(result: DemoResult) -> list[str]:
    """Return the lines below the table, in printing order."""
    return [
        *_rate_lines(result),
        *(line for against in ("ecmp", "e-ecmp") for line in _speed_up_lines(result, against)),
        *(_incast_line(result, workload) for workload in congested(result)),
        *_planned_lines(result),
        *_path_lines(result),
        *_integrity_lines(result),
        *_scene_lines(result),
        *unshown_lines(result),
    ]


def _scene_lines(result: DemoResult) -> list[str]:
    if not result.scenes:
        return []
    shown = sum(scene.holds for scene in result.scenes)
    return [f"scenes: {shown} of {len(result.scenes)} shown"]


def unshown_lines(result: DemoResult) -> list[str]:
    """Return a line for each planned run and each scene that could not be shown because the machine was busy."""
    runs = [run for run in result.runs if run.mode == "planned" and run.verdict is Verdict.NOT_SHOWN]
    found = [f"not shown: {run.workload}, planned: {busy_text(run.machine)}" for run in runs]
    return found + [f"not shown: scene {scene.kind}: {scene.why}" for scene in result.scenes if scene.why]


def _rate_lines(result: DemoResult) -> list[str]:
    """Return a line for each line rate that was given up, with the reason."""
    return [
        f"line rate: all runs are at {rate_text(result.parameters['line_rate_bps'])}: this machine does not carry"
        f" {rate_text(one.line_rate_bps)} ({one.run}: {one.problem})"
        for one in result.rates_given_up
    ]


def _speed_up_lines(result: DemoResult, against: str) -> list[str]:
    found = []
    for kind in dict.fromkeys(run.kind for run in result.runs if run.congestion is None):
        names = [name for name in result.workloads if any(r.workload == name and r.kind == kind for r in result.runs)]
        goodput = _known(names, lambda name: ratio(result, name, "planned", against))
        sooner = _known(names, lambda name: completion_ratio(result, name, "planned", against))
        if goodput and sooner:
            found.append(_speed_up(kind, MODE_TITLES[against], goodput, sooner))
    return found


def congested(result: DemoResult) -> tuple[str, ...]:
    """Return the workloads that ran with the queue model, whose rates ECN and PFC influence."""
    return tuple(dict.fromkeys(run.workload for run in result.runs if run.congestion))


def _incast_line(result: DemoResult, workload: str) -> str:
    """Return the line of an incast: the bystander's goodput and time in every valid run, and the PFC frames."""
    runs = [run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None and run.valid]
    parts = [
        f"{MODE_TITLES[run.mode]} {run.bystander.share_of_demand:.0%} in {run.bystander.duration_ns / 1e9:.2f} s"
        f" ({run.congestion.pfc_frames:,} PFC frames)"
        for run in runs
        if run.bystander is not None and run.congestion is not None
    ]
    return f"{workload}: the bystander got of its demand: {', '.join(parts) or 'no valid run'}"


def _known(names: Sequence[str], of: Callable[[str], float | None]) -> list[float]:
    return [value for name in names if (value := of(name)) is not None]


def _speed_up(kind: str, against: str, goodput: Sequence[float], sooner: Sequence[float]) -> str:
    if max(*goodput, *sooner, 0.0) < AS_GOOD:
        return f"{kind}: {against} does just as well ({geometric_mean(goodput):.2f}x the goodput)"
    if len(goodput) == 1:
        return f"{kind}: planned against {against}: {goodput[0]:.2f}x the goodput, done {sooner[0]:.2f}x faster"
    return (
        f"{kind} ({len(goodput)} seeds): planned against {against}: {geometric_mean(goodput):.2f}x the goodput"
        f" (geometric mean; median {median(goodput):.2f}x, {min(goodput):.2f}x to {max(goodput):.2f}x),"
        f" done {geometric_mean(sooner):.2f}x faster"
    )


def _planned_lines(result: DemoResult) -> list[str]:
    """Return the line of the planned permutations, which a plan can place without any conflict."""
    runs = [run for run in result.runs if run.mode == "planned" and run.kind == "permutation" and run.valid]
    if not runs:
        return []
    share, lost = min(run.worst.share_of_demand for run in runs), sum(run.lost_packets for run in runs)
    seeds = ", ".join(str(run.seed) for run in runs)
    return [
        f"planned permutations (seeds {seeds}): every flow at {share:.1%} of line rate or more, {lost} packets lost"
    ]


def _path_lines(result: DemoResult) -> list[str]:
    found = []
    for mode, kind_of_path in (("planned", "planned"), ("ecmp", "traced"), ("e-ecmp", "traced")):
        runs = [run for run in result.runs if run.mode == mode]
        if runs:
            exact, flows = sum(run.exact_flows for run in runs), sum(len(run.flows) for run in runs)
            title = MODE_TITLES[mode]
            found.append(f"paths, {title}: {exact}/{flows} flows counted on exactly the {kind_of_path} links")
    return found


def _integrity_lines(result: DemoResult) -> list[str]:
    invalid = [run for run in result.runs if not run.valid]
    repeated = [run for run in result.runs if run.attempts > 1]
    balances = [run.integrity for run in result.runs]
    totals = balance_text(
        sum(balance.tx_packets for balance in balances),
        sum(balance.rx_packets for balance in balances),
        sum(balance.dropped_packets for balance in balances),
    )
    found = [f"integrity: {len(balances) - len(invalid)}/{len(balances)} runs valid; {totals}"]
    for run in invalid:
        why = "; ".join(run.integrity.problems)
        found.append(f"INVALID, not compared: {run.workload}, {MODE_TITLES[run.mode]}: {why}")
    if repeated:
        names = ", ".join(f"{run.workload} {MODE_TITLES[run.mode]}" for run in repeated)
        found.append(f"repeated once because the first attempt was invalid: {names}")
    return found


def scale_note(rate_bps: int) -> str:
    """Return the note on the scale of the emulated rate."""
    factor = PLAIN_RATE_BPS / rate_bps
    return (
        f"Scale: this is an emulation; {rate_text(rate_bps)} stands for 100 Gbit/s (1:{factor:,.0f} in rate)."
        " Paths, ports, packets and switch rules are real; latencies are not those of hardware."
    )


def rate_text(rate_bps: float) -> str:
    """Return a rate with the unit that fits."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= size:
            value = rate_bps / size
            return (
                f"{value:.3g} {unit}"
                if value < 1000 and not math.isclose(value, round(value))
                else f"{value:.0f} {unit}"
            )
    return f"{rate_bps:.0f} bit/s"
