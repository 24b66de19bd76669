"""`heddle fabric apply`: put a fabric file in force at a running controller, or only report what it would change."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc

from heddle.controller.config.load import parse_fabric
from heddle.controller.config.text.complaint import MAX_LINES
from heddle.controller.config.text.document import read_text
from heddle.programs.console.client import Client, connected
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

SAME, NOTICED = 0, 1
NEXT_LIFE_S = 60.0
PAUSE_S = 0.5
ENDS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""How a call ends that the life of a controller before has not answered."""
_WORDS = {
    pb.JobFate.NOTHING: "nothing",
    pb.JobFate.SLOWER: "slower",
    pb.JobFate.NEW_PORTS: "new ports",
    pb.JobFate.CUT_OFF: "cut off",
}


def apply_file(server: str, path: Path, *, dry_run: bool, as_json: bool) -> int:
    """Put a fabric file in force, wait until the controller serves it, and print what it has changed.

    A dry run returns 1 where a job would notice it, or it would be refused. Raises HeddleError.
    """
    text = read_text(path)
    name = parse_fabric(text, str(path)).name
    with connected(server) as client:
        found = client.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=dry_run, name=name))
        if found.applied:
            _wait_for_next_life(client)
    status = NOTICED if dry_run and (found.refusal or any(job.kind for job in found.jobs)) else SAME
    if as_json:
        json.dump({**as_dict(found), "exit_status": status}, sys.stdout)
        print()
    else:
        print("\n".join((*_lines(found), _verdict(found, path, dry_run=dry_run))))
    return status


def _lines(found: pb.ApplyFabricReply) -> Iterator[str]:
    """Yield how many jobs have which fate, those that notice something, and the rules that change."""
    counts = Counter(job.kind for job in found.jobs)
    fates = ", ".join(f"{counts[kind]} {word}" for kind, word in _WORDS.items() if counts[kind])
    yield f"running jobs: {fates or 'none'}"
    noticing = sorted((job for job in found.jobs if job.kind), key=lambda job: (-job.kind, job.job_id))
    yield from (f"  {job.job_id}: {_WORDS[job.kind]}: {job.text}" for job in noticing[:MAX_LINES])
    if len(noticing) > MAX_LINES:
        yield f"  (+{len(noticing) - MAX_LINES} more)"
    added, removed = sum(one.added for one in found.rules), sum(one.removed for one in found.rules)
    yield f"rules: {added:,} more and {removed:,} fewer at {len(found.rules):,} switches"


def _verdict(found: pb.ApplyFabricReply, path: Path, *, dry_run: bool) -> str:
    if found.applied:
        return f"in force: start the controller with {path} from now on; agents and the broker need their copies, too"
    if not dry_run:
        return "nothing differs from the fabric in force"
    return f"it would be refused: {found.refusal}" if found.refusal else "it would be in force, with these jobs"


def _wait_for_next_life(client: Client) -> None:
    """Wait until the controller serves its new fabric; raises RpcError after a minute."""
    deadline = time.monotonic() + NEXT_LIFE_S
    time.sleep(PAUSE_S)  # the life that has replied ends
    while True:
        try:
            client.fabric.GetTopology(pb.GetTopologyRequest(), wait_for_ready=True, timeout=NEXT_LIFE_S)
            return
        except grpc.RpcError as error:
            if time.monotonic() > deadline or error.code() not in ENDS:
                raise
            time.sleep(PAUSE_S)
