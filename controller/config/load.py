"""Load fabric and jobs, from files or from text. Every function raises InputError with all problems found."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from heddle.controller.config.fabric_file import FabricShape, ReserveShape
from heddle.controller.config.generate import Parts, generate, generate_problems
from heddle.controller.config.jobs_file import JobShape, JobsShape, request_of
from heddle.controller.config.merge import Merge
from heddle.controller.config.port_addresses import port_addresses_of
from heddle.controller.config.srv6 import with_srv6
from heddle.controller.config.text.complaint import refusal, shown
from heddle.controller.config.text.document import Document, parse_document, read_document
from heddle.controller.config.text.field import Shape
from heddle.controller.config.text.shape_error import shape_problems as pydantic_problems
from heddle.controller.model.admission import Problem, flow_plans, problems, shape_problems, too_many_flow_plans
from heddle.controller.model.connectivity import leaves_are_joined
from heddle.controller.model.fabric import Fabric, Role, SteeredBy
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.limit import MAX_CABLES, MAX_FLOW_PLANS, MAX_NICS, MAX_SWITCHES
from heddle.controller.model.port_layout import Reserve
from heddle.controller.model.steering import reserved_layout
from heddle.controller.model.suggest import did_you_mean
from heddle.foundation.network import Network

MAX_COUNTED = 10_000
"""Of one job's problems no more than these are counted for the line `(+N more)`."""

_NO_SPINE = "no spine: NICs are on several leaves and no switch joins any two of them; draw one above, and links to it"

ShapeT = TypeVar("ShapeT", bound=Shape)


def load_fabric(path: Path | str) -> Fabric:
    """Read a fabric file (docs/files.md); raises InputError with a line per problem."""
    return fabric_of(read_document(path))


def load_jobs(path: Path | str, fabric: Fabric) -> tuple[JobRequest, ...]:
    """Read a jobs file against the fabric that its ranks are in; raises InputError with a line per problem."""
    return jobs_of(read_document(path), fabric)


def parse_fabric(text: str, name: str) -> Fabric:
    """Read a fabric from YAML text; problems are reported under `name`."""
    return fabric_of(parse_document(text, name))


def parse_jobs(text: str, name: str, fabric: Fabric) -> tuple[JobRequest, ...]:
    """Read jobs from YAML text; problems are reported under `name`."""
    return jobs_of(parse_document(text, name), fabric)


def fabric_of(document: Document) -> Fabric:
    """Return the fabric that a document describes."""
    found = _entry_count_problems(document.value)
    if found:
        raise refusal(document.name, found)
    shape = _shaped(document, FabricShape)
    found = _whole_problems(shape)
    if found:
        raise refusal(document.name, found)
    parts = generate(shape.generate) if shape.generate else Parts([], [], [])
    if shape.switches or shape.links or shape.hosts:
        merge = Merge(parts)
        parts = merge.draw(shape)
        if merge.problems:
            raise refusal(document.name, merge.problems)
    switches, cables, nics = tuple(parts.switches), tuple(parts.cables), tuple(parts.nics)
    steered_by = SteeredBy(shape.steering)
    fabric = Fabric(name=shape.name, switches=switches, cables=cables, nics=nics, steered_by=steered_by)
    if not leaves_are_joined(fabric):
        raise refusal(document.name, [Problem("switches", _NO_SPINE)])
    addresses, found = port_addresses_of(shape.port_addresses, fabric)
    if found:
        raise refusal(document.name, found)
    fabric = replace(fabric, port_addresses=addresses) if addresses else fabric
    fabric, found = with_srv6(shape.srv6, fabric)
    if found:
        raise refusal(document.name, found)
    fabric = _with_reserve(document, fabric, shape.reserve)
    if not shape.failed:
        return fabric
    failed, found = failed_of(shape.failed, fabric)
    if found:
        raise refusal(document.name, found)
    return replace(fabric, failed=failed)


def _with_reserve(document: Document, fabric: Fabric, reserve: ReserveShape | None) -> Fabric:
    """Return the fabric with the reserve of its file; raises InputError where a source port cannot name its paths."""
    if reserve is not None:
        fabric = replace(fabric, reserve=Reserve(**reserve.model_dump()))
        if reserve.agg_uplinks and all(switch.role is not Role.AGG for switch in fabric.switches):
            raise refusal(document.name, [Problem("reserve.agg_uplinks", "the fabric has no switch with the role agg")])
    if fabric.steered_by is not SteeredBy.HASH:
        try:
            reserved_layout(fabric)
        except ValueError as why:
            place, remedy = (
                ("reserve", "ask for less") if any(fabric.reserve) else ("links", "give leaves and aggs fewer")
            )
            raise refusal(document.name, [Problem(place, f"{why}; {remedy}")]) from None
    return fabric


def jobs_of(document: Document, fabric: Fabric) -> tuple[JobRequest, ...]:
    """Return the job requests of a document."""
    return requests_of(document.name, "jobs", _shaped(document, JobsShape).jobs, fabric)


def requests_of(name: str, key: str, jobs: Sequence[JobShape], fabric: Fabric) -> tuple[JobRequest, ...]:
    """Return the requests of jobs that the file `name` lists under `key`."""
    compute_nics = tuple(name for name, ports in fabric.ports_of.items() if ports[0].network == Network.COMPUTE)
    requests = tuple(request_of(job, compute_nics if job.ranks is None else tuple(job.ranks)) for job in jobs)
    check_requests(name, key, requests, fabric)
    return requests


def check_requests(name: str, key: str, requests: Sequence[JobRequest], fabric: Fabric) -> None:
    """Raise InputError with all problems of these requests, which `name` lists under `key`."""
    found = _twice(key, requests)
    for index, request in enumerate(requests):
        found += _under(f"{key}[{index}]", problems(request, fabric, MAX_COUNTED))
    if not found and _more_flow_plans_than(MAX_FLOW_PLANS, requests, fabric):
        found.append(Problem(key, too_many_flow_plans("all jobs together ask for")))
    if found:
        raise refusal(name, found)


def load_job_shape(path: Path | str) -> JobRequest:
    """Read a jobs file of one job whose ranks are `{all: true}`: the request without ranks, which register later."""
    document = read_document(path)
    check_jobs_shape(document)
    jobs = _shaped(document, JobsShape).jobs
    if len(jobs) != 1 or jobs[0].ranks is not None:
        raise refusal(
            document.name, [Problem("jobs", "must be one job with `ranks: {all: true}`: nodes register theirs")]
        )
    return request_of(jobs[0], ())


def check_jobs_shape(document: Document) -> int:
    """Check a jobs file as far as that is possible without its fabric; return its number of jobs."""
    shape = _shaped(document, JobsShape)
    found = _twice("jobs", shape.jobs)
    for index, job in enumerate(shape.jobs):
        known = None if job.ranks is None else len(job.ranks)
        request = request_of(job, tuple(job.ranks or ()))
        found += _under(f"jobs[{index}]", shape_problems(request, known, MAX_COUNTED))
    if found:
        raise refusal(document.name, found)
    return len(shape.jobs)


def _shaped(document: Document, root: type[ShapeT]) -> ShapeT:
    try:
        return root.model_validate(document.value)
    except ValidationError as error:
        other = _other_file(document.value.keys(), is_fabric=root is FabricShape)
        found = [Problem("", other)] if other else pydantic_problems(error, root)
        raise refusal(document.name, found) from None


def _other_file(keys: Collection[str], *, is_fabric: bool) -> str:
    """Return what a file is by its keys, where it is none of the kind that is wanted; empty for other keys."""
    has_fabric = not {"generate", "switches"}.isdisjoint(keys)
    if is_fabric and not has_fabric and "jobs" in keys:
        return "a jobs file, where a fabric file belongs"
    if is_fabric and not has_fabric and not {"topology", "edges"}.isdisjoint(keys):
        return "a topology of another program; `heddle import` makes a fabric file of it"
    return "a fabric file, where a jobs file belongs" if not is_fabric and has_fabric and "jobs" not in keys else ""


def _whole_problems(shape: FabricShape) -> list[Problem]:
    if shape.generate is None and not shape.switches:
        return [Problem("", "no fabric: neither `generate` nor `switches` is there; docs/files.md shows both")]
    found = list(_sprayed_hashes(shape)) if shape.steering == SteeredBy.HASH else []
    return found + generate_problems(shape.generate) if shape.generate else found


def _sprayed_hashes(shape: FabricShape) -> Iterator[Problem]:
    """Yield a problem for each NIC that sprays where switches hash: probes find one port a queue pair."""
    why = "with `steering: hash` a queue pair has one path; leave it out"
    if shape.generate is not None and shape.generate.paths_per_flow > 1:
        yield Problem("generate.paths_per_flow", why)
    for at, host in enumerate(shape.hosts):
        for number, nic in enumerate(host.nics):
            if nic.paths_per_flow > 1:
                yield Problem(f"hosts[{at}].nics[{number}].paths_per_flow", why)


def _entry_count_problems(value: dict[str, object]) -> list[Problem]:
    """Check the numbers of entries first, so that a file with millions of them is refused quickly."""
    hosts = value.get("hosts")
    nics = (host.get("nics") for host in hosts if isinstance(host, dict)) if isinstance(hosts, list) else ()
    counts = (
        ("switches", _length(value.get("switches")), MAX_SWITCHES, "switches"),
        ("links", _length(value.get("links")), MAX_CABLES, "switch-to-switch links"),
        ("hosts", sum(map(_length, nics)), MAX_NICS, "NICs"),
    )
    return [
        Problem(path, f"the file lists {count} {what}, at most {limit} are allowed")
        for path, count, limit, what in counts
        if count > limit
    ]


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


def failed_of(names: Sequence[str], fabric: Fabric) -> tuple[Health, list[Problem]]:
    """Return the links, switches and NICs of these names, and a problem for each name that is none."""
    nic_of_link = {link: nic.id for nic in fabric.nics for link in (nic.up_link, nic.down_link)}
    cables, switches, nics = set(), set(), set()
    found: list[Problem] = []
    for index, name in enumerate(names):
        if name in fabric.cable_by_link:
            cables.add(fabric.cable_by_link[name].id)
        elif name in fabric.switch_by_id:
            switches.add(name)
        elif name in nic_of_link:
            nics.add(nic_of_link[name])
        else:
            guess = _link_meant(name, fabric) if len(found) < 20 else ""
            found.append(Problem(f"failed[{index}]", f"no link or switch named {shown(name)}{guess}"))
    health = Health(down_cables=frozenset(cables), down_switches=frozenset(switches), down_nics=frozenset(nics))
    return health, found


def _link_meant(name: str, fabric: Fabric) -> str:
    """Return which link or switch a name may mean: of a NIC, or of its ports, their links."""
    links = " or ".join(nic.up_link for nic in fabric.ports_by_rank.get(name, ()))
    if links:
        return f"; to name a NIC or its port, name its link: {links}"
    known: Iterable[str] = fabric.cable_by_link if ">" in name else fabric.switch_by_id
    return did_you_mean(name, known)


def _twice(key: str, jobs: Sequence[JobShape | JobRequest]) -> list[Problem]:
    first: dict[str, int] = {}
    return [
        Problem(f"{key}[{index}].job_id", f"{shown(job.job_id)} is taken by {key}[{first[job.job_id]}]; choose another")
        for index, job in enumerate(jobs)
        if first.setdefault(job.job_id, index) != index
    ]


def _under(path: str, found: Iterable[Problem]) -> list[Problem]:
    return [Problem(f"{path}.{problem.path}", problem.text) for problem in islice(found, MAX_COUNTED)]


def _more_flow_plans_than(limit: int, requests: Iterable[JobRequest], fabric: Fabric) -> bool:
    total = 0
    for request in requests:
        total += flow_plans(request, fabric, limit)
        if total > limit:
            return True
    return False
