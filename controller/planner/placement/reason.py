"""Explain a suggested placement in one sentence, or why there is none and how to make one possible."""

from collections import Counter
from collections.abc import Sequence

from heddle.controller.model.job import JobRequest
from heddle.controller.model.placement import WHOLE_GPU_MILLI, Shape
from heddle.controller.planner.placement.blocks import Zone
from heddle.controller.planner.placement.choose import Candidate

MAX_NAMED = 3


def reason_of(candidate: Candidate, own_utilisation: float, shape: Shape) -> str:
    """Return one sentence: location, compactness, remaining room, order of ranks and utilisation of the links."""
    hosts, leaves = _count(candidate.hosts, "host"), _count(candidate.leaves, "leaf", "leaves")
    pods = f" in {candidate.pods} pods" if candidate.pods > 1 else ""
    fewest = "the fewest that hold them"
    if candidate.leaves > candidate.blocks:
        leaves += f" in {_count(candidate.blocks, 'rail group')}"
        fewest = "the fewest groups that hold them"
    compact = "spread because fewer would be overloaded" if candidate.spread else fewest
    reason = f"{_count(len(candidate.nics), 'rank')} on {hosts} of {leaves}{pods}, {compact}"
    if shape.share_milli < WHOLE_GPU_MILLI:
        reason += f", {_count(candidate.opened, 'idle GPU')} put to use"
    reason += f", room for {candidate.spare} more left there" if candidate.spare else ", no room left there"
    if candidate.turned:
        reason += ", the NICs of hosts chosen and ordered so that a ring keeps its rail from host to host"
    if not own_utilisation:
        return f"{reason}; no link between switches carries it."
    return f"{reason}; the busiest link that it uses would be at {own_utilisation:.2f} of its rate."


def too_few(shape: Shape, zones: Sequence[Zone], out_of_use: Sequence[str], running: Sequence[JobRequest]) -> str:
    """Return why the job does not fit: how many ranks would, what takes the room, and what to do."""
    room = sum(block.size for block in zones[0]) if zones else 0
    share = "" if shape.share_milli == WHOLE_GPU_MILLI else f" at {shape.share_milli}/1000 GPU each"
    where = " on leaves that reach each other" if len(zones) > 1 else ""
    taken = Counter({request.job_id: len(request.ranks) for request in running})
    causes = []
    remedies = []
    if taken:
        named = ", ".join(f"{job} ({ranks})" for job, ranks in taken.most_common(MAX_NAMED))
        causes.append(f"{_count(sum(taken.values()), 'rank')} of running jobs hold GPUs: {named}{_more(len(taken))}")
        remedies.append("release a job")
    if out_of_use:
        named = ", ".join(out_of_use[:MAX_NAMED])
        lost = len(out_of_use)
        causes.append(f"{_count(lost, 'NIC')} out of use: {named}{_more(lost)}")
        remedies.append("bring NICs back")
    if len(zones) > 1:
        causes.append("failed links part the leaves")
        remedies.append("bring links back")
    if room:
        remedies.append(f"ask for at most {room}")
    elif shape.share_milli > WHOLE_GPU_MILLI:
        remedies.append("ask for a share that the GPUs of one NIC can give")
    else:
        remedies.append("add hosts")
    because = f" ({'; '.join(causes)})" if causes else ""
    return f"{_count(shape.ranks, 'rank')} asked for{share}, {room} free{where}{because}: {', or '.join(remedies)}"


def _more(count: int) -> str:
    return f" and {count - MAX_NAMED} more" if count > MAX_NAMED else ""


def _count(number: int, noun: str, several: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {several or noun + 's'}"
