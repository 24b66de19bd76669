"""The process in which an installed planner runs: a pickled Problem on standard input, JSON on standard output."""

import json
import os
import pickle
import sys
import time
import traceback
from importlib.metadata import entry_points
from typing import Any

from heddle.planners.installed import GROUP
from heddle.planners.problem import INTERFACE


def reply_of(name: str, problem: bytes) -> dict[str, Any]:
    """Return the planner's paths and the processor time that they took, or why there are none."""
    try:
        (entry,) = entry_points(group=GROUP, name=name)
        planner = entry.load()()
    except Exception as error:
        return {"error": f"cannot be loaded: {_line(error)}"}
    version = getattr(planner, "interface", None)
    if version != INTERFACE:
        return {"error": f"is for interface {version} of heddle.planners, this is {INTERFACE}; install one for it"}
    try:
        given = pickle.loads(problem)
        began = time.process_time()
        paths = planner.paths(given)
        took_s = time.process_time() - began
        found = {str(flow): links if isinstance(links, str) else [*map(str, links)] for flow, links in paths.items()}
    except Exception as error:
        return {"error": f"raised {_line(error)}"}
    return {"paths": found, "processor_s": took_s}


def _line(error: BaseException) -> str:
    """Return the error and where it was raised, on one line."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' + text if text else ''}{where}"[:300]


if __name__ == "__main__":
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the planner prints is no reply
    with out:
        json.dump(reply_of(sys.argv[1], sys.stdin.buffer.read()), out)
