"""Run `heddle demo` in series: beside busy loops, and with a controller that never re-plans; compare with the bars.

python -m tests.support.demo_trials [--runs N] [--only SERIES ...] [DEMO OPTION ...]      needs root; make trials

A busy loop is a process that uses all the processor time it gets. A series passes if every run of it does:

    idle, one-loop, two-loops      status 0; all four, three of four, and any number of scenes shown; the rest is named
    planted, planted-one-loop      status 1: the controller never re-plans, and no machine excuses that
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

PLANT = "tests.fakes.controllers.never_replans"
HEADINGS = f"{'status':>6} {'time, s':>7} {'Mbit/s':>6} {'given up':>8} {'attempts':>8}  others used"
ROOT = Path(__file__).parents[2]


class Series(NamedTuple):
    """Runs under one condition: busy loops beside them, a planted fault or not, and the scenes that must be shown."""

    loops: int
    planted: bool = False
    least_shown: int = 0


class Trial(NamedTuple):
    """One run: exit status, duration, line rate and those given up, the verdict on each scene, and what was printed.

    `attempts` are the planned runs of all scenes, `load` the least and the most that other programs used meanwhile.
    """

    status: int
    seconds: float
    rate_mbps: float
    given_up: int
    attempts: int
    load: str
    verdicts: dict[str, str]
    unshown_runs: list[str]
    why: list[str]

    @property
    def shown(self) -> int:
        """Return how many scenes were shown."""
        return sum(verdict == "shown" for verdict in self.verdicts.values())


SERIES = {
    "idle": Series(0, least_shown=4),
    "one-loop": Series(1, least_shown=3),
    "two-loops": Series(2),
    "planted": Series(0, planted=True),
    "planted-one-loop": Series(1, planted=True),
}


def passes(series: Series, trial: Trial, scenes: int) -> bool:
    """Return whether a run is what its series must show; `scenes` is how many were chosen."""
    if series.planted:
        return trial.status == 1 and "failed" in trial.verdicts.values()
    named = trial.shown == len(trial.verdicts) or any("not shown: scene" in line for line in trial.why)
    return trial.status == 0 and trial.shown >= min(series.least_shown, scenes) and named


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep processors busy for the block, each loop in a session of its own as from another terminal."""
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-S", "-c", "while True: pass"]
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def trial(planted: bool, options: Sequence[str]) -> Trial:
    """Run the demo once."""
    with tempfile.TemporaryDirectory() as folder:
        program = ["tests.support.planted_demo", PLANT] if planted else ["heddle.programs.console.main"]
        command = [sys.executable, "-m", *program, "demo", "--report", f"{folder}/report", *options]
        begun = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds, results = time.monotonic() - begun, Path(folder, "report", "results.json")
        found: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {"scenes": [], "runs": []}
    why = [line for line in done.stdout.splitlines() if line.startswith("not shown")]
    why += [line for line in done.stderr.splitlines() if line.startswith("heddle: ")]
    attempts = [attempt for scene in found["scenes"] for attempt in scene["attempts"]]
    uses = [attempt["machine"]["others_processors"] for attempt in attempts]
    return Trial(
        status=done.returncode,
        seconds=seconds,
        rate_mbps=found.get("parameters", {}).get("line_rate_bps", 0) / 1e6,
        given_up=len(found.get("rates_given_up", ())),
        attempts=len(attempts),
        load=f"{min(uses):.1f} to {max(uses):.1f}" if uses else "",
        verdicts={scene["kind"]: scene["verdict"] for scene in found["scenes"]},
        unshown_runs=[run["workload"] for run in found["runs"] if run["verdict"] == "not shown"],
        why=why,
    )


def main(arguments: Sequence[str]) -> int:
    """Run the series and print a line per run; return 1 if one does not pass."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.demo_trials", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="runs of each series")
    parser.add_argument("--only", action="append", choices=SERIES, help="this series; repeatable")
    chosen, options = parser.parse_known_args(arguments)
    passed: dict[str, int] = {}
    print(f"{'series':17} {'run':>4} {HEADINGS}")
    for name in chosen.only or SERIES:
        series, passed[name] = SERIES[name], 0
        with busy_loops(series.loops):
            for number in range(1, chosen.runs + 1):
                one = trial(series.planted, options)
                is_right = passes(series, one, len(one.verdicts))
                passed[name] += is_right
                figures = f"{one.status:6} {one.seconds:7.0f} {one.rate_mbps:6.0f} {one.given_up:8} {one.attempts:8}"
                print(f"{name:17} {number:4} {figures}  {one.load}")
                verdicts = ", ".join(f"{kind} {verdict}" for kind, verdict in one.verdicts.items())
                print(f"      {'' if is_right else 'DOES NOT PASS: '}{verdicts}", flush=True)
                for line in [*(f"not shown: {run}" for run in one.unshown_runs), *one.why]:
                    print(f"      {line[:160]}", flush=True)
    for name, count in passed.items():
        print(f"{name}: {count} of {chosen.runs} runs pass")
    return 0 if all(count == chosen.runs for count in passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
