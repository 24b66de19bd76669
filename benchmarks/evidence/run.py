"""Run the commands of claims one after the other, and judge each claim by what they printed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from heddle.benchmarks.evidence.claims import COMMANDS, Claim

LIMIT_S = 3_600.0
"""Seconds after which a command is ended, and its claims have no figure."""
HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")


class Outcome(NamedTuple):
    """What one command printed as JSON, or why there is none, and how long it took."""

    found: Any
    problem: str
    seconds: float


class Verdict(NamedTuple):
    """A claim with its figure; `figure` is None where `problem` says why it could not be measured."""

    claim: Claim
    figure: float | None
    problem: str

    @property
    def word(self) -> str:
        if self.figure is None:
            return "not measured"
        return "holds" if self.claim.holds(self.figure) else "fails"


def measured(name: str, *, limit_s: float = LIMIT_S) -> Outcome:
    """Run the command `name` of `COMMANDS`; its own progress goes to standard error."""
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [*HEDDLE, *COMMANDS[name].arguments], stdout=subprocess.PIPE, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, f"ended after {limit_s:g} s", time.monotonic() - begun)
    seconds = time.monotonic() - begun
    if done.returncode:
        return Outcome(None, f"exit status {done.returncode}", seconds)
    try:
        return Outcome(json.loads(done.stdout), "", seconds)
    except ValueError:
        return Outcome(None, "printed no JSON", seconds)


def verdicts(claims: Sequence[Claim], outcomes: Mapping[str, Outcome]) -> list[Verdict]:
    """Return the verdict of each claim, in their order."""
    return [_verdict(claim, outcomes[claim.command]) for claim in claims]


def _verdict(claim: Claim, outcome: Outcome) -> Verdict:
    if outcome.problem:
        return Verdict(claim, None, outcome.problem)
    try:
        return Verdict(claim, claim.figure(outcome.found), "")
    except (LookupError, StopIteration, TypeError, ValueError) as missing:
        return Verdict(claim, None, f"the command printed no such figure: {missing!r}")


def run_all(claims: Sequence[Claim], say: Callable[[str], None]) -> tuple[list[Verdict], dict[str, Outcome]]:
    """Run every command that a claim needs, once, and return the verdicts and the outcomes by command."""
    names = list(dict.fromkeys(claim.command for claim in claims))
    outcomes = {}
    for index, name in enumerate(names, 1):
        minutes = COMMANDS[name].minutes
        say(f"[{index}/{len(names)}] {COMMANDS[name].line} ... some {minutes:g} min")
        outcomes[name] = measured(name)
        say(f"    {outcomes[name].problem or 'measured'} after {outcomes[name].seconds:.0f} s")
    return verdicts(claims, outcomes), outcomes
