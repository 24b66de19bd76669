"""`heddle job suggest`: request placements for a job from a running controller."""

import json
import sys
from collections.abc import Sequence

from rich.table import Table

from heddle.controller.api.translate import shape_to
from heddle.controller.model.error import InputError
from heddle.controller.model.job import OFFERED_KINDS, Algorithm, Collective, CollectiveKind
from heddle.controller.model.placement import Shape, placement_problems
from heddle.controller.model.suggest import did_you_mean
from heddle.programs.console import show as screen
from heddle.programs.console.client import connected
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

MAX_NICS_SHOWN = 16


def run_suggest(server: str, shape: Shape, *, as_json: bool) -> None:
    """Request placements and print them, best first."""
    if problems := placement_problems(shape):
        raise InputError(*(f"{problem.path}: {problem.text}" for problem in problems))
    with connected(server) as client, screen.progress(f"{shape.ranks} ranks: searching a placement"):
        reply = client.jobs.SuggestPlacement(shape_to(shape))
    print_reply(reply, as_json=as_json)


def print_reply(reply: pb.SuggestPlacementReply, *, as_json: bool) -> None:
    """Print placements as a table, or as JSON in Protobuf's mapping."""
    if as_json:
        json.dump(as_dict(reply), sys.stdout)
        print()
    else:
        _print(reply.placements)


def collective_of(
    name: str, size_bytes: int, qps_per_flow: int, algorithm: str = Algorithm.CONTRACT.name
) -> Collective:
    """Return the collective of this name over all ranks, by this algorithm; raises InputError."""
    if name.upper() not in OFFERED_KINDS:
        guess = did_you_mean(name.upper(), OFFERED_KINDS) or f"; one of {', '.join(OFFERED_KINDS)}"
        raise InputError(f"--collective: {name!r} is not a collective over all ranks{guess}")
    return Collective(
        kind=CollectiveKind[name.upper()], size_bytes=size_bytes, qps_per_flow=qps_per_flow,
        algorithm=_algorithm_of(algorithm),
    )  # fmt: skip


def _algorithm_of(name: str) -> Algorithm:
    names = Algorithm.__members__
    if name.upper() not in names:
        guess = did_you_mean(name.upper(), names) or f"; one of {', '.join(names)}"
        raise InputError(f"--algorithm: {name!r} is not an algorithm{guess}")
    return names[name.upper()]


def _print(placements: Sequence[pb.Placement]) -> None:
    table = Table(caption="max: utilisation of the fullest link, of those the job would use and of all")
    for name in ("place", "leaves", "own max", "fabric max", "NICs in rank order", "why"):
        numeric = name not in ("NICs in rank order", "why")
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for number, place in enumerate(placements, start=1):
        more = len(place.nics) - MAX_NICS_SHOWN
        nics = " ".join(place.nics[:MAX_NICS_SHOWN]) + (f" … and {more} more" if more > 0 else "")
        own, whole = f"{place.own_max_link_utilisation:.3f}", f"{place.max_link_utilisation:.3f}"
        table.add_row(str(number), str(place.leaves_used), own, whole, nics, place.reason)
    screen.console().print(table)
