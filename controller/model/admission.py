"""Check job requests before planning, by the same rules for jobs files and for the gRPC API.

Counts are computed by arithmetic or in one pass over the request; nothing is expanded into flows. A problem names its
key by the path in `SubmitJobRequest`, such as `collectives[0].root`.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import (
    Algorithm,
    Collective,
    CollectiveKind,
    FlowDemand,
    Incast,
    JobRequest,
    RankPair,
    Steering,
)
from heddle.controller.model.limit import (
    HIGHEST_FIXED_PORT,
    LOWEST_FIXED_PORT,
    MAX_FLOW_PLANS,
    MAX_GPU_MILLI,
    MAX_LEASE_MS,
    MAX_NIC_BPS,
    MAX_PATHS_PER_FLOW,
    MAX_PRIORITY,
    MAX_QPS_PER_FLOW,
    MAX_RANK_PAIRS,
    MAX_REQUEST_PHASES,
    MAX_REQUEST_PINS,
)
from heddle.controller.model.nccl import Layout, layout_of
from heddle.controller.model.steering_traits import SteeringTraits, traits_of
from heddle.controller.model.suggest import did_you_mean

MAX_PROBLEMS = 20
"""The maximum of problems reported: a request of a million wrong ranks is refused for the first of them."""
MAX_TENANT_LENGTH = 128
_JOB_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}\Z")
_SUGGESTIONS = 3


class Problem(NamedTuple):
    """One problem of a request or file: the path of the key, and the violated rule with its remedy."""

    path: str
    text: str


def is_job_id(text: str) -> bool:
    """Return whether a text is a valid job id."""
    return _JOB_ID.match(text) is not None


def problems(request: JobRequest, fabric: Fabric, limit: int = MAX_PROBLEMS) -> tuple[Problem, ...]:
    """Return the first `limit` problems of a request in this fabric; empty where it is valid."""
    found = list(islice(_all_problems(request, fabric), limit))
    found = found or list(islice(layout_problems(request, fabric), limit))
    if not found and flow_plans(request, fabric, MAX_FLOW_PLANS) > MAX_FLOW_PLANS:
        found.append(Problem("collectives", too_many_flow_plans("the job asks for")))
    return tuple(found)


def shape_problems(request: JobRequest, rank_count: int | None, limit: int = MAX_PROBLEMS) -> tuple[Problem, ...]:
    """Return the problems that do not depend on a fabric; `rank_count` is None where the ranks are unknown."""
    return tuple(islice(_shape_problems(request, rank_count), limit))


def too_many_flow_plans(subject: str) -> str:
    """Return the error text for more than MAX_FLOW_PLANS flow plans; `subject` begins the sentence."""
    return (
        f"{subject} more than {MAX_FLOW_PLANS:,} flow plans, the most there may be: fewer ranks, pairs or queue pairs"
    )


def _all_problems(request: JobRequest, fabric: Fabric) -> Iterator[Problem]:
    yield from _shape_problems(request, len(request.ranks))
    yield from _refused_pins(request, traits_of(fabric))
    yield from _refused_sets(request, traits_of(fabric))
    if fabric.ports_by_rank.keys() >= set(request.ranks):
        return
    suggested = 0
    for index, name in enumerate(request.ranks):
        if name not in fabric.ports_by_rank:
            guess = did_you_mean(name, fabric.ports_by_rank) if suggested < _SUGGESTIONS else ""
            guess = guess or _like(fabric)
            suggested += 1
            yield Problem(f"ranks[{index}]", f"no NIC named {quoted(name)} in the fabric{guess}")


def _refused_pins(request: JobRequest, traits: SteeringTraits) -> Iterator[Problem]:
    """Yield the problem of each pin that the fabric's steering refuses."""
    if traits.pin_refusal and request.steering is Steering.PIN:
        yield Problem("steering", traits.pin_refusal)
    for index, collective in enumerate(request.collectives if traits.fixed_port_refusal else ()):
        for number, flow in enumerate(collective.flows):
            if flow.udp_source_port:
                yield Problem(f"collectives[{index}].flows[{number}].udp_source_port", traits.fixed_port_refusal)


def _refused_sets(request: JobRequest, traits: SteeringTraits) -> Iterator[Problem]:
    """Yield the problem of each collective with several paths a flow that cannot be sprayed."""
    for index, one in enumerate(request.collectives):
        path = f"collectives[{index}].paths_per_flow"
        if one.paths_per_flow <= 1:
            continue
        if traits.set_refusal:
            yield Problem(path, traits.set_refusal)
        elif request.steering is Steering.PIN:
            yield Problem(path, "a pin has one path: leave out paths_per_flow, or use SOURCE_PORT")
        elif request.incast is Incast.WINDOWS:
            yield Problem(path, "sprayed flows take no turns: leave out paths_per_flow, or use RATES for incast")
        elif any(flow.udp_source_port for flow in one.flows):
            yield Problem(path, "a flow with a fixed udp_source_port has one path: leave out one of both")


def _like(fabric: Fabric) -> str:
    return f"; its NICs are called {fabric.nics[0].rank} and so on" if fabric.nics else "; it has none at all"


def quoted(text: str) -> str:
    """Return a text quoted for an error message, cut after 60 characters."""
    return repr(text if len(text) <= 60 else text[:60] + "...")


def _shape_problems(request: JobRequest, rank_count: int | None) -> Iterator[Problem]:
    yield from _head_problems(request)
    if rank_count == 0:
        yield Problem("ranks", "must not be empty: name the NIC of rank 0, 1, 2 and so on")
        rank_count = None
    yield from _pair_count_problems(request.collectives, rank_count or 0)
    for index, collective in enumerate(request.collectives):
        for problem in _collective_problems(collective, rank_count):
            yield Problem(f"collectives[{index}].{problem.path}", problem.text)


def phase_problems(collectives: Sequence[Collective]) -> tuple[Problem, ...]:
    """Return the problem of more phases than a running controller plans in one request; empty where there is none."""
    phases = len({one.phase for one in collectives})
    if phases <= MAX_REQUEST_PHASES:
        return ()
    text = f"{phases:,} different phases; at most {MAX_REQUEST_PHASES:,}: leave out those whose flows equal another's"
    return (Problem("collectives", text),)


def pinned_flows(request: JobRequest, fabric: Fabric, enough: int | None = None) -> int:
    """Count the flows of a valid request that have a rule of their own; may stop once past `enough`."""
    if request.steering is Steering.PIN:
        return flow_plans(request, fabric, enough)
    return sum(flow.udp_source_port > 0 for one in request.collectives for flow in one.flows)


def pin_problems(request: JobRequest, fabric: Fabric) -> tuple[Problem, ...]:
    """Return the problem of more pins than a running controller installs for one valid request."""
    if pinned_flows(request, fabric, MAX_REQUEST_PINS) <= MAX_REQUEST_PINS:
        return ()
    path = "steering" if request.steering is Steering.PIN else "collectives"
    return (Problem(path, f"more than {MAX_REQUEST_PINS:,} flows are pinned; use SOURCE_PORT without fixed ports"),)


def _pair_count_problems(collectives: Sequence[Collective], ranks: int) -> Iterator[Problem]:
    """Yield the problem of too many pairs of ranks, which costs no pass over the ranks."""
    known = (one for one in collectives if one.kind in tuple(CollectiveKind))  # the others have a problem of their own
    pairs = sum(_rank_pairs(one, len(one.members) or ranks) for one in known)
    if pairs > MAX_RANK_PAIRS:
        limit = f"at most {MAX_RANK_PAIRS:,}, those on one host included: fewer ranks, members or pairs"
        yield Problem("collectives", f"{pairs:,} pairs of ranks communicate; {limit}")


def _rank_pairs(one: Collective, members: int) -> int:
    """Return the pairs of ranks of a collective, at least its members, because each is visited."""
    pattern = one.kind.pattern
    if one.algorithm in tuple(Algorithm) and one.on_rails is not None:
        return one.on_rails.visits(members)
    return len(one.pairs) + len(one.flows) if pattern.lists else pattern.visits(members)


def _head_problems(request: JobRequest) -> Iterator[Problem]:
    if not is_job_id(request.job_id):
        rule = "a letter or digit, then up to 127 letters, digits, dots, underscores or hyphens"
        yield Problem("job_id", f"{quoted(request.job_id)} is no job id: {rule}")
    if len(request.tenant) > MAX_TENANT_LENGTH or not request.tenant.isprintable():
        yield Problem("tenant", f"must be at most {MAX_TENANT_LENGTH} printable characters")
    yield from _range_problem("priority", request.priority, 0, MAX_PRIORITY)
    yield from _range_problem("lease_ms", request.lease_ms, 0, MAX_LEASE_MS)
    yield from _range_problem("gpu_milli", request.gpu_milli, 0, MAX_GPU_MILLI)
    if request.steering not in tuple(Steering):
        yield Problem("steering", "must be SOURCE_PORT or PIN")
    if request.incast not in tuple(Incast):
        yield Problem("incast", "must be RATES or WINDOWS, or unspecified for the planner's choice")
    causes = [cause for cause, _ in request.move_limits]
    if len(set(causes)) < len(causes):
        yield Problem("move_limits", "each cause may be listed once")
    if not math.isfinite(request.require_utilisation) or request.require_utilisation < 0:
        value = request.require_utilisation
        yield Problem("require_utilisation", f"must be a finite number of at least 0, is {value}; 0 asks for nothing")


def _range_problem(path: str, value: int, low: int, high: int) -> Iterator[Problem]:
    if not low <= value <= high:
        yield Problem(path, f"must be from {low} to {high}, is {value}")


def _collective_problems(one: Collective, rank_count: int | None) -> Iterator[Problem]:
    if one.kind not in tuple(CollectiveKind):
        yield Problem("kind", f"unspecified or unknown; one of {', '.join(kind.name for kind in CollectiveKind)}")
        return
    if one.kind.pattern.lists != "flows" and one.size_bytes <= 0:
        yield Problem("bytes", f"must be more than 0 for {one.kind.name}, is {one.size_bytes}")
    yield from _range_problem("bytes", one.size_bytes, min(0, one.size_bytes), 2**64 - 1)
    yield from _range_problem("qps_per_flow", one.qps_per_flow, 1, MAX_QPS_PER_FLOW)
    yield from _range_problem("paths_per_flow", one.paths_per_flow, 0, MAX_PATHS_PER_FLOW)
    yield from _range_problem("phase", one.phase, 0, 2**32 - 1)
    yield from _algorithm_problems(one)
    yield from _member_problems(one, rank_count)
    yield from _pair_problems(one, rank_count)
    yield from _flow_problems(one, rank_count)


def _algorithm_problems(one: Collective) -> Iterator[Problem]:
    """Yield the problem of an algorithm that is none, or that has no flows for the kind."""
    if one.algorithm not in tuple(Algorithm):
        yield Problem("algorithm", f"must be one of {', '.join(each.name for each in Algorithm)}")
    elif one.on_rails is None and one.algorithm is not Algorithm.CONTRACT:
        kinds = ", ".join(kind.name for kind in CollectiveKind if kind.pattern in one.algorithm.expansions)
        yield Problem("algorithm", f"{one.algorithm.name} is for {kinds}, not for {one.kind.name}: leave it out")


def layout_problems(request: JobRequest, fabric: Fabric) -> Iterator[Problem]:
    """Yield each problem of laying out the NICs of a valid request by an algorithm, at the first collective of it."""
    seen: set[str] = set()
    for index, one in enumerate(request.collectives):
        if one.on_rails is not None:
            try:
                _layout(one, request, fabric)
            except InputError as why:
                if str(why) not in seen:
                    yield Problem(f"collectives[{index}].algorithm", str(why))
                seen.add(str(why))


def _layout(one: Collective, request: JobRequest, fabric: Fabric) -> Layout:
    ports = fabric.ports_by_rank
    return layout_of([ports[request.ranks[m]][0] for m in one.members or range(len(request.ranks))])


def _ends_are_sound(flows: Sequence[RankPair] | Sequence[FlowDemand], rank_count: int | None) -> bool:
    """Return whether all ranks are valid, in one pass: most requests are valid, and some have a million pairs."""
    limit = math.inf if rank_count is None else rank_count
    return all(
        0 <= one.src_rank < limit and 0 <= one.dst_rank < limit and one.src_rank != one.dst_rank for one in flows
    )


def _rank_problem(path: str, rank: int, rank_count: int | None) -> Iterator[Problem]:
    if rank < 0 or (rank_count is not None and rank >= rank_count):
        ranks = "ranks count from 0" if rank_count is None else f"the job has ranks 0 to {rank_count - 1}"
        yield Problem(path, f"rank {rank} is out of range: {ranks}")


def _member_problems(one: Collective, rank_count: int | None) -> Iterator[Problem]:
    if not _members_are_sound(one.members, rank_count):
        yield from _each_member_problem(one.members, rank_count)
    if one.kind.pattern.is_rooted:
        yield from _rank_problem("root", one.root, rank_count)
        if one.members and one.root not in one.members:
            yield Problem("root", f"rank {one.root} is no member: a {one.kind.name} has its root among its members")


def _members_are_sound(members: Sequence[int], rank_count: int | None) -> bool:
    return not members or (len(set(members)) == len(members) and _in_range(min(members), max(members), rank_count))


def _in_range(low: int, high: int, rank_count: int | None) -> bool:
    return low >= 0 and (rank_count is None or high < rank_count)


def _each_member_problem(members: Sequence[int], rank_count: int | None) -> Iterator[Problem]:
    first_place: dict[int, int] = {}
    for index, rank in enumerate(members):
        yield from _rank_problem(f"members[{index}]", rank, rank_count)
        if rank in first_place:
            yield Problem(f"members[{index}]", f"rank {rank} is a member already, at members[{first_place[rank]}]")
        first_place.setdefault(rank, index)


def _list_problem(one: Collective, field: str, listed: Sequence[RankPair] | Sequence[FlowDemand]) -> Iterator[Problem]:
    """Yield the problem of a list that is missing, or that the kind does not take."""
    is_taken = one.kind.pattern.lists == field
    if is_taken and not listed:
        yield Problem(field, f"must not be empty for {one.kind.name}: give src_rank and dst_rank of each")
    if listed and not is_taken:
        takers = ", ".join(kind.name for kind in CollectiveKind if kind.pattern.lists == field)
        yield Problem(field, f"belong to {takers} only, not to {one.kind.name}")


def _pair_problems(one: Collective, rank_count: int | None) -> Iterator[Problem]:
    yield from _list_problem(one, "pairs", one.pairs)
    if one.pairs and one.kind.pattern.lists != "pairs":
        return
    if _ends_are_sound(one.pairs, rank_count):
        return
    for index, pair in enumerate(one.pairs):
        yield from _ends_problems(f"pairs[{index}]", pair.src_rank, pair.dst_rank, rank_count)


def _ends_problems(path: str, src_rank: int, dst_rank: int, rank_count: int | None) -> Iterator[Problem]:
    yield from _rank_problem(f"{path}.src_rank", src_rank, rank_count)
    yield from _rank_problem(f"{path}.dst_rank", dst_rank, rank_count)
    if src_rank == dst_rank:
        yield Problem(f"{path}.dst_rank", f"rank {dst_rank} is the sender too: a flow joins two ranks")


def _flow_problems(one: Collective, rank_count: int | None) -> Iterator[Problem]:
    yield from _list_problem(one, "flows", one.flows)
    if one.flows and one.kind.pattern.lists != "flows":
        return
    if one.qps_per_flow > 1 and any(flow.udp_source_port for flow in one.flows):
        yield Problem("qps_per_flow", f"must be 1 where a flow has a fixed udp_source_port, is {one.qps_per_flow}")
    sound = _ends_are_sound(one.flows, rank_count)
    for index, flow in enumerate(one.flows):
        if sound and 0 <= flow.rate_bps <= MAX_NIC_BPS and not flow.udp_source_port:
            continue
        path = f"flows[{index}]"
        yield from _ends_problems(path, flow.src_rank, flow.dst_rank, rank_count)
        yield from _range_problem(f"{path}.rate_bps", flow.rate_bps, 0, MAX_NIC_BPS)
        if flow.udp_source_port and not LOWEST_FIXED_PORT <= flow.udp_source_port <= HIGHEST_FIXED_PORT:
            ports = f"{LOWEST_FIXED_PORT} to {HIGHEST_FIXED_PORT}, or 0 for the controller's choice"
            yield Problem(f"{path}.udp_source_port", f"must be from {ports}, is {flow.udp_source_port}")


def flow_plans(request: JobRequest, fabric: Fabric, enough: int | None = None) -> int:
    """Count the flow plans of a valid request exactly, without expanding them; may stop once past `enough`.

    Two ranks on one host have no flow between them. Where ranks have different planes, it is at most so many.
    """
    ports = [fabric.ports_by_rank[name] for name in request.ranks]
    hosts, planes = [each[0].host for each in ports], max(map(len, ports), default=1)
    known: dict[tuple[CollectiveKind, Algorithm, int, tuple[int, ...]], int] = {}
    total = 0
    for one in request.collectives:
        if one.pairs:
            flows = sum(hosts[pair.src_rank] != hosts[pair.dst_rank] for pair in one.pairs)
        elif one.flows:
            flows = sum(hosts[flow.src_rank] != hosts[flow.dst_rank] for flow in one.flows)
        else:
            key = (one.kind, one.algorithm, one.root if one.kind.pattern.is_rooted else 0, one.members)
            if key not in known:
                on_rails = one.on_rails
                known[key] = on_rails.count(_layout(one, request, fabric)) if on_rails else _flows_between(one, hosts)
            flows = known[key]
        total += flows * one.qps_per_flow * planes
        if enough is not None and total > enough:
            break
    return total


def _flows_between(one: Collective, hosts: Sequence[str]) -> int:
    """Count the flows of a collective between members on different hosts."""
    members = one.members or range(len(hosts))
    root = members.index(one.root) if one.kind.pattern.is_rooted else 0
    return one.kind.pattern.flows([hosts[rank] for rank in members], root)
