"""`heddle fabric apply --dry-run`: try a fabric file on a running controller, which changes nothing."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from heddle.controller.config.text.complaint import MAX_LINES
from heddle.controller.config.text.document import read_text
from heddle.programs.console.client import connected
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

SAME, NOTICED = 0, 1
_WORDS = {
    pb.JobFate.NOTHING: "nothing",
    pb.JobFate.SLOWER: "slower",
    pb.JobFate.NEW_PORTS: "new ports",
    pb.JobFate.CUT_OFF: "cut off",
}


def try_file(server: str, path: Path, *, as_json: bool) -> int:
    """Print what a start with a fabric file would change; return 1 where a job notices it or it is refused, else 0.

    Raises HeddleError.
    """
    text = read_text(path)
    with connected(server) as client:
        found = client.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=True))
    status = NOTICED if found.refusal or any(job.kind for job in found.jobs) else SAME
    if as_json:
        json.dump({**as_dict(found), "exit_status": status}, sys.stdout)
        print()
    else:
        print("\n".join(_lines(found)))
    return status


def _lines(found: pb.ApplyFabricReply) -> Iterator[str]:
    """Yield how many jobs have which fate, those that notice something, the rules that change, and the verdict."""
    counts = Counter(job.kind for job in found.jobs)
    fates = ", ".join(f"{counts[kind]} {word}" for kind, word in _WORDS.items() if counts[kind])
    yield f"running jobs: {fates or 'none'}"
    noticing = sorted((job for job in found.jobs if job.kind), key=lambda job: (-job.kind, job.job_id))
    yield from (f"  {job.job_id}: {_WORDS[job.kind]}: {job.text}" for job in noticing[:MAX_LINES])
    if len(noticing) > MAX_LINES:
        yield f"  (+{len(noticing) - MAX_LINES} more)"
    added, removed = sum(one.added for one in found.rules), sum(one.removed for one in found.rules)
    yield f"rules: {added:,} more and {removed:,} fewer at {len(found.rules):,} switches"
    yield f"a start with it is refused: {found.refusal}" if found.refusal else "a start with it goes on with these jobs"
