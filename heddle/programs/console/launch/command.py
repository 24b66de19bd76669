"""`heddle exec`: describe the job, meet its nodes, get planned paths, run the command with them."""

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from heddle.controller.config.load import load_job_shape
from heddle.controller.config.text.complaint import shown
from heddle.controller.model.address import parse_ip
from heddle.controller.model.error import HeddleError, InputError, PrerequisiteError
from heddle.controller.model.job import JobRequest
from heddle.foundation.network import Network
from heddle.programs.console.client import connected
from heddle.programs.console.launch.child import Child
from heddle.programs.console.launch.lease import JobLease
from heddle.programs.console.launch.membership import Membership, membership_of
from heddle.programs.console.launch.planned_ports import PlannedPorts
from heddle.programs.console.launch.port_shim import shim_library
from heddle.programs.console.launch.responder import PortResponder
from heddle.programs.console.suggest import collective_of
from heddle.v1 import heddle_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOptions:
    """The options of `heddle exec`; None and empty ones are taken from the file or the environment."""

    server: str
    job_id: str = ""
    node_rank: int | None = None
    node_count: int | None = None
    nics: tuple[str, ...] = ()
    host: str = ""
    file: Path | None = None
    collective: str = "RING_ALL_REDUCE"
    size_bytes: int = 1_000_000_000
    queue_pairs: int = 1
    algorithm: str = "CONTRACT"
    tenant: str = ""
    wait_s: float = 120.0
    lease_ms: int = 30_000
    require_plan: bool = False
    shim: bool = True


def run_exec(options: ExecOptions, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command with planned paths; return its exit status.

    Only an option of ours that is wrong keeps the command from running (InputError), and with `require_plan` any other
    reason too. Without it that reason is one line, and the command has no planned paths.
    """
    shape = _shape(options)
    named = _named_member(options, shape)
    child = Child()
    with ExitStack() as stack:
        planned: dict[str, str] = {}
        try:
            member = named or _found_member(options, environment, shape)
            planned = stack.enter_context(_planned(options, replace(shape, job_id=member.job_id), member))
        except _OptionError as error:
            raise InputError(*error.problems) from None
        except (HeddleError, OSError) as error:
            why = str(error).partition("\n")[0]
            if options.require_plan:
                raise (PrerequisiteError(why) if isinstance(error, InputError) else error) from None
            print(f"heddle: {why}: the command runs without planned paths", file=sys.stderr)
        audit = ":".join(filter(None, (environment.get("LD_AUDIT", ""), planned.get("LD_AUDIT", ""))))
        return child.run(command, {**environment, **planned, **({"LD_AUDIT": audit} if audit else {})})


class _OptionError(InputError):
    """An option of the command line names what the running fabric does not have."""


def _shape(options: ExecOptions) -> JobRequest:
    """Return the request without its ranks; its id is empty where the environment gives it."""
    if options.file is not None:
        shape = load_job_shape(options.file)
        return replace(shape, tenant=options.tenant or shape.tenant)
    collectives = (collective_of(options.collective, options.size_bytes, options.queue_pairs, options.algorithm),)
    return JobRequest(job_id="", ranks=(), collectives=collectives, tenant=options.tenant)


def _named_member(options: ExecOptions, shape: JobRequest) -> Membership | None:
    """Return the membership that options and file name, None where the environment is to say it; raises InputError."""
    if (options.node_rank is None) != (options.node_count is None):
        raise InputError("--node-rank and --node-count: name both or none")
    if options.node_rank is None or options.node_count is None:
        return None
    job_id = options.job_id or shape.job_id
    if not job_id:
        raise InputError("--job: name the job, the same for all of its nodes")
    if not 0 <= options.node_rank < options.node_count:
        raise InputError(f"--node-rank: {options.node_rank} must be below --node-count, {options.node_count}")
    return Membership(job_id, options.node_rank, options.node_count, host=options.host)


def _found_member(options: ExecOptions, environment: Mapping[str, str], shape: JobRequest) -> Membership:
    """Return the membership by the environment, or that of a job of this process alone; raises InputError."""
    job_id = options.job_id or shape.job_id
    found = membership_of(environment, job_id)
    member = found or Membership(job_id or f"exec-{_machine()[:64]}-{os.getpid()}", 0, 1)
    return member._replace(host=options.host or member.host)


@contextmanager
def _planned(options: ExecOptions, shape: JobRequest, member: Membership) -> Iterator[dict[str, str]]:
    """Hold the job while the context lasts; yields the variables that its command needs."""
    with connected(options.server) as client, ExitStack() as stack:
        topology = client.fabric.GetTopology(pb.GetTopologyRequest())
        lease = JobLease(client, member, options.wait_s, options.lease_ms)
        nics = _named_nics(options, topology) or share_of(member, _host_nics(options, topology, member))
        met = lease.join(nics)
        stack.callback(lease.leave)
        ours = range(met.first_rank, met.first_rank + len(nics))
        ranks = set(met.nics)
        addresses = {nic.id: parse_ip(nic.ip) for nic in topology.nics if not ranks.isdisjoint((nic.id, nic.of))}
        ports = PlannedPorts(addresses, lambda flow: flow.src_rank in ours or flow.dst_rank in ours)
        request = replace(shape, ranks=tuple(met.nics))
        ports.update(lease.submit(request).flows)
        stack.enter_context(lease.held(request, lambda plan: ports.update(plan.flows)))
        yield {"HEDDLE_JOB_ID": member.job_id, **_shim_variables(options, ports, stack)}


def _shim_variables(options: ExecOptions, ports: PlannedPorts, stack: ExitStack) -> dict[str, str]:
    if not options.shim:
        return {}
    try:
        library = shim_library()
    except PrerequisiteError as error:
        if options.require_plan:
            raise
        print(f"heddle: {error}: queue pairs keep their own source ports", file=sys.stderr)
        return {}
    responder = stack.enter_context(PortResponder(ports.port))
    return {"LD_AUDIT": str(library), "HEDDLE_PORT_SOCKET": responder.path}


def share_of(member: Membership, nics: Sequence[str]) -> tuple[str, ...]:
    """Return the NICs of one process of a host: an equal share of them, or one of them if there are fewer."""
    first = member.local_rank * len(nics) // member.local_count
    last = (member.local_rank + 1) * len(nics) // member.local_count
    return tuple(nics[first : max(last, first + 1)])


def _named_nics(options: ExecOptions, topology: pb.Topology) -> tuple[str, ...]:
    """Return the NICs that `--nic` names; raises _OptionError if the fabric lacks one of them."""
    known = {name for nic in topology.nics for name in (nic.id, nic.of)}
    unknown = next((nic for nic in options.nics if nic not in known), None)
    if unknown is not None:
        raise _OptionError(f"--nic: the fabric has no NIC {shown(unknown)}")
    return options.nics


def _host_nics(options: ExecOptions, topology: pb.Topology, member: Membership) -> list[str]:
    """Return the compute NICs of this host; raises InputError, _OptionError if `--host` names it."""
    host = member.host or _machine()
    names = {host, host.partition(".")[0]}
    compute = [nic for nic in topology.nics if nic.host in names and nic.network == Network.COMPUTE]
    found = sorted({(nic.rail, nic.of or nic.id) for nic in compute})
    if not found:
        raise (_OptionError if options.host else InputError)(
            f"the fabric has no compute NIC of host {host}; name this node's NICs by --nic, or its host by --host"
        )
    return [nic for _, nic in found]


def _machine() -> str:
    return platform.node() or "localhost"
