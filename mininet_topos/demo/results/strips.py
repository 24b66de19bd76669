"""Draw scenes as strips of block characters: goodput over time in a line per run, marks above and their texts below."""

import textwrap
from collections.abc import Sequence

from heddle.mininet_topos.demo.results.judgement import Verdict
from heddle.mininet_topos.demo.results.scenes import SceneResult, SceneRun
from heddle.mininet_topos.demo.results.values import MODE_TITLES
from heddle.mininet_topos.traffic.cast import Mark

BLOCKS = " ▁▂▃▄▅▆▇█"
LABEL_WIDTH = 9
DIGITS = "123456789abcdefghijklmnopqrstuvwxyz"
AXIS_STEP_S = 0.5
MARK_INDENT = 13
HOLDS, FAILS, MISSED, NOT_SHOWN = "holds:", "DOES NOT HOLD:", "missed:", "NOT SHOWN:"


def strip_lines(scene: SceneResult, width: int) -> list[str]:
    """Return the lines of a scene, at most `width` columns wide; strips show eighths of the scene's `top_bps`."""
    planned = scene.runs[0]
    step = _periods_per_column(scene, width)
    top_bps = scene.top_bps
    title = f"Scene {scene.kind}: {scene.title}. Goodput of {scene.watched}; full height {top_bps / 1e6:.1f} Mbit/s"
    title += f"; links at {scene.line_rate_bps / 1e6:g} Mbit/s" if scene.stepped_down else ""
    lines = _wrapped(title, width, 2)
    lines.append(" " * LABEL_WIDTH + mark_line(planned.marks, scene.period_ns * step, width - LABEL_WIDTH))
    lines += [
        f"{MODE_TITLES[run.mode]:{LABEL_WIDTH}}{strip(columns(run.goodput_bps, step), top_bps)}" for run in scene.runs
    ]
    lines.append(" " * LABEL_WIDTH + axis_line(len(planned.goodput_bps) // step, scene.period_ns * step))
    texts = [figures_line(run, scene.act_ns) for run in scene.runs]
    texts += _verdict_texts(scene)
    lines += [line for text in mark_texts(planned.marks) for line in _wrapped(text, width, MARK_INDENT)]
    return lines + [line for text in texts for line in _wrapped(text, width, 2)]


def _verdict_texts(scene: SceneResult) -> list[str]:
    """Return a line for each condition and, if the scene was not shown, why; an excused miss is not a failure."""
    last, fails = scene.attempts[-1], MISSED if scene.verdict is Verdict.NOT_SHOWN else FAILS
    texts = [f"{HOLDS if check.holds else fails} {check.text}" for check in scene.checks]
    texts += [f"{FAILS} {fault}" for fault in last.faults] + [f"{fails} {problem}" for problem in last.problems]
    if scene.why:
        did = "nothing it had to react to arrived" if last.undecided else "the controller decided as it should"
        texts.append(f"{NOT_SHOWN} {scene.why}; {len(scene.attempts)} attempts; {did}")
    return texts


def strip(values: Sequence[float], top: float) -> str:
    """Return a block character per value; nothing is blank only if it is less than a sixteenth of the top."""
    return "".join(BLOCKS[round(8 * min(1.0, value / top))] if top > 0 else BLOCKS[0] for value in values)


def columns(values: Sequence[int], step: int) -> list[float]:
    """Return the means of `step` values each; a rest is left out."""
    return [sum(values[first : first + step]) / step for first in range(0, len(values) - step + 1, step)]


def mark_line(marks: Sequence[Mark], column_ns: int, width: int) -> str:
    """Return the digit of each mark at its column, or at the next free one."""
    taken: dict[int, str] = {}
    for digit, mark in zip(DIGITS, marks, strict=False):
        column = mark.at_ns // column_ns
        while column in taken:
            column += 1
        taken[column] = digit
    return "".join(taken.get(column, " ") for column in range(width)).rstrip()


def mark_texts(marks: Sequence[Mark]) -> list[str]:
    """Return a line for each mark: digit, time, and what happened or was decided."""
    return [
        f"  {digit} {mark.at_ns / 1e9:5.2f} s  {'controller: ' if mark.kind == 'decision' else ''}{mark.text}"
        for digit, mark in zip(DIGITS, marks, strict=False)
    ]


def axis_line(width: int, column_ns: int) -> str:
    """Return a time axis of `width` columns, labelled every half second."""
    line = ""
    step = round(AXIS_STEP_S * 1e9 / column_ns)
    for column in range(0, width, step):
        label = f"|{column * column_ns / 1e9:.1f} s"
        line = f"{line:{column}}{label}"
    return line[:width]


def figures_line(run: SceneRun, act_ns: int) -> str:
    """Return the goodput of a run before, at its lowest and at the end, and what was lost and moved."""
    rates = (run.before_bps(act_ns), run.lowest_bps(act_ns), run.after_bps())
    before, lowest, after = (f"{bps / 1e6:.1f}" for bps in rates)
    text = f"{MODE_TITLES[run.mode]}: {before} Mbit/s before, {lowest} at the lowest, {after} in the last second"
    text += f"; {run.lost_packets} packets lost, {run.retransmitted_packets} sent again"
    if run.mode != "planned" and run.problems:
        text += f"; INVALID, not to be compared: {run.problems[0]}"
    return f"{text}; flows moved: {run.moved_flows}" if run.rate_bps else text


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, drop_whitespace=True)


def _periods_per_column(scene: SceneResult, width: int) -> int:
    periods = len(scene.runs[0].goodput_bps)
    return max(1, -(-periods // (width - LABEL_WIDTH)))
