"""A process that tries mutants in a copy of the tree, each in a fork of itself.

A line of JSON on standard input is a trial; a line on standard output is its outcome. The fork spares each trial the
imports of libraries: nine tenths of what a quick test takes. It leads a process group of its own, with limits of
processor time and memory; the group is ended after the trial, and the file is as it was before.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LIBRARIES = ("hypothesis.stateful", "numpy", "numba", "networkx", "pydantic", "yaml", "grpc.aio", "jsonschema")
BELOW = ("heddle.controller.planner.online", "heddle.controller.config.fabric_file", "heddle.v1.heddle_pb2_grpc")
"""Modules of ours that most tests load and that import nothing that is mutated."""
MEMORY_BYTES = 6 << 30
OPTIONS = (
    "-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist",
    "-p", "tests.support.mutants.steady", "-o", "timeout=0", "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


def serve() -> None:
    """Try one mutant after another until the input ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # restores the file and ends the trial
    outcomes = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what tests print is not an outcome
    for name in (*LIBRARIES, *BELOW):
        importlib.import_module(name)
    pytest.main([*OPTIONS, "--collect-only", "tests/unit/test_example_limit.py"])  # loads the plugins and conftest.py
    for trial in map(json.loads, sys.stdin):
        print(json.dumps(tried(trial)), file=outcomes, flush=True)


def tried(trial: dict[str, Any]) -> dict[str, Any]:
    """Write the faulty file, run its tests in a fork, and restore the file."""
    path = Path(trial["file"])
    before, stamp = path.read_bytes(), path.stat()
    began = time.monotonic()
    try:
        path.write_text(trial["text"])
        # Bytecode is recognised by size and second: a time that no other version of the file has.
        os.utime(path, (stamp.st_atime, 10**9 + trial["number"]))
        outcome = _run(trial)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    return {"number": trial["number"], "outcome": outcome, "seconds": round(time.monotonic() - began, 2)}


def _run(trial: dict[str, Any]) -> str:
    log = Path("mutant.log")
    child = os.fork()
    if child == 0:
        _run_tests(trial, log)
    deadline = time.monotonic() + trial["wall_s"]
    status = None
    try:
        while status is None and time.monotonic() < deadline:
            done, found = os.waitpid(child, os.WNOHANG)
            status = found if done else None
            time.sleep(0 if done else 0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if status is None:
            os.waitpid(child, 0)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        return "timed out"
    return "survived" if status == 0 else "killed"


def _run_tests(trial: dict[str, Any], log: Path) -> None:
    """Run the groups of tests until one fails; ends the process."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        cpu_s = int(trial["cpu_s"]) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        written = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(written, 1)
        os.dup2(written, 2)
        if trial["module"] in sys.modules:  # something that was imported early uses it: import all of ours anew
            for name in [name for name in sys.modules if name.split(".")[0] in ("heddle", "tests")]:
                del sys.modules[name]
        for group in trial["groups"]:
            status = int(pytest.main([*OPTIONS, f"--basetemp={Path.cwd() / 'tmp-of-tests'}", *group]))
            if status:
                break
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
