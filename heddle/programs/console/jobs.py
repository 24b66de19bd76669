"""`heddle job …`: commands of the JobService."""

import json
import sys
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.table import Table

from heddle.controller.api.translate import request_to
from heddle.controller.config import load_jobs
from heddle.programs.console import show as screen
from heddle.programs.console.client import Client, connected, fabric_of
from heddle.v1 import heddle_pb2 as pb

MAX_FLOWS_SHOWN = 40


def as_dict(message: Message) -> dict[str, object]:
    """Return a message in protobuf's JSON mapping, with proto field names and defaults."""
    found: dict[str, object] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found


def submit(server: str, path: Path, *, preview: bool, as_json: bool) -> None:
    """Submit or preview every job of a file, in its order."""
    with connected(server) as client:
        fabric = fabric_of(client.fabric.GetTopology(pb.GetTopologyRequest()))
        requests = load_jobs(path, fabric)
        call = client.jobs.PreviewJob if preview else client.jobs.SubmitJob
        plans = []
        for request in requests:
            with screen.progress(f"{request.job_id}: planning and installing"):
                plans.append(call(request_to(request)))
            if not as_json:
                _print_plan(plans[-1])
        if as_json:
            _dump({"jobs": [as_dict(plan) for plan in plans]})


def show(server: str, job_id: str, *, as_json: bool) -> None:
    """Print one job with all of its flows."""
    with connected(server) as client:
        plan = client.jobs.GetJob(pb.GetJobRequest(job_id=job_id))
        if plan.flows_truncated:
            del plan.flows[:]
            for page in client.jobs.StreamFlows(pb.GetJobRequest(job_id=job_id)):
                plan.flows.extend(page.flows)
            plan.flows_truncated = False
    if as_json:
        _dump(as_dict(plan))
    else:
        _print_plan(plan)


def all_jobs(client: Client, tenant: str = "", *, without_flows: bool) -> pb.ListJobsReply:
    """Return every page of ListJobs as one reply."""
    request = pb.ListJobsRequest(tenant=tenant, without_flows=without_flows)
    reply: pb.ListJobsReply = client.jobs.ListJobs(request)
    while reply.next_page_token:
        request.page_token = reply.next_page_token
        page = client.jobs.ListJobs(request)
        reply.jobs.extend(page.jobs)
        reply.next_page_token = page.next_page_token
    return reply


def list_jobs(server: str, tenant: str, *, as_json: bool) -> None:
    """Print the jobs that hold paths."""
    with connected(server) as client:
        reply = all_jobs(client, tenant, without_flows=not as_json)
    if as_json:
        _dump(as_dict(reply))
        return
    table = Table()
    probed = any(plan.certificate.probed for plan in reply.jobs)
    seen = ["probed"] * probed
    for name in ("job", "tenant", "state", "generation", "priority", "flows", "own max utilisation", *seen, "reason"):
        table.add_column(name, overflow="fold")
    for plan in reply.jobs:
        own = f"{plan.certificate.own_max_link_utilisation:.3f}"
        seen = [_probed(plan)] * probed
        counts = str(plan.generation), str(plan.priority), str(plan.flow_count)
        table.add_row(plan.job_id, plan.tenant, plan.state, *counts, own, *seen, plan.reason)
    screen.console().print(table if reply.jobs else "no job holds paths")


def _probed(plan: pb.JobPlan) -> str:
    """Return how many of a job's paths probes have confirmed."""
    proof = plan.certificate
    return f"{proof.paths_confirmed} of {plan.flow_count}" if proof.probed else "–"


def watch(server: str, job_id: str, *, as_json: bool) -> None:
    """Print every generation of a job until it ends."""
    with connected(server) as client:
        for plan in client.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id)):
            if as_json:
                _dump(as_dict(plan))
            else:
                _print_line(plan)
            sys.stdout.flush()


def renew(server: str, job_id: str, lease_ms: int, *, as_json: bool) -> None:
    """Extend a lease."""
    with connected(server) as client:
        plan = client.jobs.RenewJob(pb.RenewJobRequest(job_id=job_id, lease_ms=lease_ms))
    if as_json:
        _dump(as_dict(plan))
    else:
        print(f"{plan.job_id}: lease until {plan.lease_expires_unix_ms} ms of Unix time")


def release(server: str, job_id: str, *, as_json: bool) -> None:
    """End a job."""
    with connected(server) as client:
        reply = release_job(client, job_id)
    if as_json:
        _dump(as_dict(reply))
    else:
        print(f"{job_id}: {reply.flows_released} flows released")


def release_job(client: Client, job_id: str) -> pb.ReleaseJobReply:
    """Call ReleaseJob."""
    reply: pb.ReleaseJobReply = client.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=job_id))
    return reply


def _dump(value: object) -> None:
    json.dump(value, sys.stdout)
    print()


def _print_line(plan: pb.JobPlan) -> None:
    own = plan.certificate.own_max_link_utilisation
    print(
        f"{plan.job_id}: generation {plan.generation}, {plan.state} ({plan.reason}), "
        f"{plan.flow_count} flows, max link utilisation {own:.3f}"
    )


def _print_plan(plan: pb.JobPlan) -> None:
    proof = plan.certificate
    _print_line(plan)
    print(
        f"  bound {proof.lower_bound:.3f} ({proof.lower_bound_kind}), ECMP {proof.ecmp_max_link_utilisation:.3f}, "
        f"E-ECMP {proof.e_ecmp_max_link_utilisation:.3f}; solved in {screen.duration(proof.solve_ns)}, "
        f"acknowledged after {screen.duration(proof.install_ns)}, {proof.rules_installed} rules\n"
        f"  of all jobs' flows {proof.flows_slowed} are slowed (share {proof.mean_share:.3f} on average, "
        f"{proof.worst_share:.3f} at worst), {proof.links_over_capacity} links are over their capacity"
    )
    if proof.below_goal:
        print(f"  {screen.below_goal(proof.below_goal)}")
    if proof.assumed:
        print("  assumed: nothing says what this job sends")
    if proof.flows_work_conserving:
        print(f"  {screen.conserving(proof.flows_work_conserving)}")
    if proof.by_construction:
        print(f"  {screen.BY_CONSTRUCTION}")
    if proof.probed:
        seen, oldest_ms = proof.paths_confirmed, proof.oldest_confirmation_unix_ms
        print(f"  probed: {screen.confirmed(seen, plan.flow_count, oldest_ms, proof.probes)}")
    for flow in plan.flows[:MAX_FLOWS_SHOWN]:
        switches = " ".join(link.split(">")[1].split(":")[0] for link in flow.links[:-1])
        measured = f", measured {screen.rate(flow.measured_bps)}" if flow.HasField("measured_bps") else ""
        more = " or more" if flow.work_conserving else ""
        path = f"to {flow.sid}" if flow.sid else f"port {flow.udp_source_port}"
        print(f"  {flow.flow_id}: {path}, {screen.rate(flow.rate_bps)}{more}{measured}, {switches}")
    if len(plan.flows) > MAX_FLOWS_SHOWN:
        print(f"  … and {len(plan.flows) - MAX_FLOWS_SHOWN} more; --json prints all of them")
