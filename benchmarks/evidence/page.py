"""The page of `make evidence`: each claim with its command, its figure and its verdict."""

import os
import platform
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from heddle.benchmarks.evidence.claims import COMMANDS, Claim
from heddle.benchmarks.evidence.run import Outcome, Verdict


class Origin(NamedTuple):
    """Where and when the figures were measured."""

    date: str
    commit: str
    machine: str


def machine() -> str:
    """Return processors, kernel and Python of this machine in one line; no name."""
    kernel = f"Linux {platform.release().split('-')[0]}"
    return f"{os.cpu_count()} processors ({platform.machine()}), {kernel}, Python {platform.python_version()}"


def claims_table(claims: Sequence[Claim]) -> str:
    """Return the table of docs/evidence.md: what is claimed, the bar, and the command that measures it."""
    rows = [f"| {each.text} | {each.bar} | {each.quoted} | `{COMMANDS[each.command].line}` |" for each in claims]
    return "\n".join(["| claim | bar | in README | command |", "| --- | --- | --- | --- |", *rows])


def page(verdicts: Sequence[Verdict], outcomes: Mapping[str, Outcome], origin: Origin) -> str:
    """Return the page in Markdown."""
    count = {word: sum(each.word == word for each in verdicts) for word in ("holds", "fails", "not measured")}
    lines = [
        "# Evidence",
        "",
        f"{origin.date}, commit {origin.commit}; {origin.machine}.",
        f"{count['holds']} of {len(verdicts)} claims hold, {count['fails']} fail, "
        f"{count['not measured']} could not be measured.",
        "",
        "| claim | bar | figure | verdict | command |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in verdicts:
        claim = each.claim
        figure = each.problem if each.figure is None else claim.shown(each.figure)
        lines.append(f"| {claim.text} | {claim.bar} | {figure} | **{each.word}** | `{COMMANDS[claim.command].line}` |")
    lines += ["", "| command | seconds |", "| --- | --- |"]
    lines += [f"| `{COMMANDS[name].line}` | {outcome.seconds:.0f} |" for name, outcome in outcomes.items()]
    return "\n".join([*lines, ""])
