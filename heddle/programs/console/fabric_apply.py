"""`heddle fabric apply`: put a fabric file in force at a running controller, or only report what it would change."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from heddle.controller.config.load import parse_fabric
from heddle.controller.config.text.complaint import MAX_LINES
from heddle.controller.config.text.document import read_text
from heddle.controller.model.error import UnavailableError
from heddle.controller.views.fabric_differences import Copy, Difference
from heddle.programs.console.client import connected
from heddle.programs.console.fabric_lines import copy_lines, difference_lines
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

SAME, NOTICED = 0, 1
ELECTION_S = 60.0
PAUSE_S = 0.2
_WORDS = {
    pb.JobFate.NOTHING: "nothing",
    pb.JobFate.SLOWER: "slower",
    pb.JobFate.NEW_PORTS: "new ports",
    pb.JobFate.CUT_OFF: "cut off",
}


def apply_file(server: str, path: Path, *, dry_run: bool, as_json: bool) -> int:
    """Put a fabric file in force, or try it, and print what differs and what each running job notices.

    A dry run returns 1 where a job would notice it, or it would be refused. Raises HeddleError.
    """
    text = read_text(path)
    name = parse_fabric(text, str(path)).name
    with connected(server) as client:
        found = client.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=dry_run, name=name))
    if found.applied:
        _wait_until_served(server)
    status = NOTICED if dry_run and (found.refusal or any(job.kind for job in found.jobs)) else SAME
    if as_json:
        json.dump({**as_dict(found), "exit_status": status}, sys.stdout)
        print()
    else:
        print("\n".join((*_lines(found), _verdict(found, path, dry_run=dry_run))))
    return status


def _wait_until_served(server: str) -> None:
    """Wait until a controller leads, which of several may be another one now; raises HeddleError after a minute."""
    deadline = time.monotonic() + ELECTION_S
    while True:
        try:
            with connected(server):
                return
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def _lines(found: pb.ApplyFabricReply) -> Iterator[str]:
    """Yield what differs, how many jobs have which fate and those that notice something, rules, and copies."""
    yield from difference_lines(Difference(one.kind, one.id, one.was, one.now) for one in found.differences)
    counts = Counter(job.kind for job in found.jobs)
    fates = ", ".join(f"{counts[kind]} {word}" for kind, word in _WORDS.items() if counts[kind])
    yield f"running jobs: {fates or 'none'}"
    noticing = sorted((job for job in found.jobs if job.kind), key=lambda job: (-job.kind, job.job_id))
    yield from (f"  {job.job_id}: {_WORDS[job.kind]}: {job.text}" for job in noticing[:MAX_LINES])
    if len(noticing) > MAX_LINES:
        yield f"  (+{len(noticing) - MAX_LINES} more)"
    added, removed = sum(one.added for one in found.rules), sum(one.removed for one in found.rules)
    yield f"rules: {added:,} more and {removed:,} fewer at {len(found.rules):,} switches"
    yield from copy_lines(Copy(one.what, tuple(one.parts), one.todo) for one in found.copies)


def _verdict(found: pb.ApplyFabricReply, path: Path, *, dry_run: bool) -> str:
    if found.applied:
        return f"in force: the controller serves {path}"
    if found.refusal:
        return f"it would be refused: {found.refusal}"
    if not found.differences:
        return "it is the fabric in force"
    if not dry_run:
        return "nothing was changed"
    renamed = any(one.kind == "renamed" for one in found.differences)
    but = "; make sure first that what looks renamed is meant" if renamed else ""
    return f"`heddle fabric apply {path}` would put it in force{', with these jobs' if found.jobs else ''}{but}"
