"""Find the planners that are installed, and run one in a process of its own with a time limit.

A planner is another's code: it may raise, never end, print, or need a package that is missing. None of it reaches the
process that asks.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from heddle.controller.model.error import InputError, PlannerError
from heddle.controller.model.suggest import did_you_mean
from heddle.planners.answer import wrong_with
from heddle.planners.problem import Problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "heddle.planners"
LIMIT_S = 60.0
"""How long a planner may take by default, its imports included."""


class Answer(NamedTuple):
    """The checked paths of a planner, by flow id, and the processor time in seconds that it took to find them."""

    paths: dict[str, list[str]]
    processor_s: float


def installed() -> "dict[str, EntryPoint]":
    """Return the entry points of all installed planners by name; none of them is imported."""
    from importlib.metadata import entry_points  # a plan without such a planner needs none of it

    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def check_name(name: str) -> None:
    """Raise InputError where no planner of this name is installed, or two distributions have one."""
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP, name=name)
    if not found:
        known = installed()
        there = (
            f"installed: {', '.join(known)}" if known else "none is installed; docs/planners.md shows how to make one"
        )
        raise InputError(f"no planner named {name!r}{did_you_mean(name, known)} ({there})")
    owners = sorted({entry.dist.name for entry in found if entry.dist is not None})
    if len(owners) > 1:
        raise InputError(f"planner {name}: {' and '.join(owners)} both have one; uninstall one of them")


def run(name: str, problem: Problem, limit_s: float = LIMIT_S) -> Answer:
    """Run an installed planner and return its paths, checked.

    Raises InputError for an unknown name; PlannerError, in one line that names the planner, where it cannot be loaded,
    was written for another interface, raises, takes longer than `limit_s` seconds, or returns a path that is not
    admissible.
    """
    check_name(name)
    reply = _replied(name, pickle.dumps(problem), limit_s)
    why = reply.get("error") or wrong_with(problem, reply["paths"])
    if why:
        raise PlannerError(f"planner {name}: {why}")
    return Answer(reply["paths"], float(reply["processor_s"]))


def _replied(name: str, problem: bytes, limit_s: float) -> dict[str, Any]:
    """Return what the child process replies."""
    command = [sys.executable, "-m", "heddle.planners.child", name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as child:
        try:
            text, _ = child.communicate(problem, timeout=limit_s)
        except subprocess.TimeoutExpired:
            return {"error": f"took longer than {limit_s:g} s and was ended"}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # it, and what it may have started
    if child.returncode or not text:
        return {"error": f"its process ended with status {child.returncode}"}
    found: dict[str, Any] = json.loads(text)
    return found
