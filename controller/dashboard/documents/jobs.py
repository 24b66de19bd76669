"""Jobs: the list, one with its certificate and flows, and the preview of one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from heddle.controller.brain.state import Job, State
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.jobs import Certificate, FlowLine, Generation, JobLine, Sharing
from heddle.controller.dashboard.documents.state import figures_of
from heddle.controller.model.admission import quoted
from heddle.controller.model.error import NotFoundError
from heddle.controller.model.observed import Stream
from heddle.controller.model.plan import FlowPlan, JobPlan, conserving_count
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.views.flow_rates import own_rates, stream_of
from heddle.controller.views.link_states import planned_utilisation

MAX_FLOWS = 2_000
MAX_SHARING = 100
MAX_SHARED_LINKS = 1_000


def jobs_document(moment: Moment) -> Mapping[str, object]:
    """Return all jobs (`Jobs`)."""
    return {"jobs": _lines(moment.state)}


def job_document(moment: Moment, job_id: str) -> Mapping[str, object]:
    """Return a job (`JobDocument`); raises NotFoundError."""
    state = moment.state
    job = state.jobs.get(job_id)
    if job is None:
        raise NotFoundError(f"there is no job {quoted(job_id)}")
    return plan_document(moment, job.as_plan(state.certificate)) | {"generations": _generations(moment, job)}


def preview_document(moment: Moment, plan: JobPlan) -> Mapping[str, object]:
    """Return the plan of a job that is not submitted (`Preview`)."""
    state = moment.state
    others = {job_id: job for job_id, job in state.jobs.items() if job_id != plan.job_id}
    own = np.array([
        plan.flows.link_loads_bps.get(link.id, 0) / link.capacity_bps for link in state.fabric.directed_links
    ])  # fmt: skip
    planned = np.round(planned_utilisation(replace(state, jobs=others)) + own, 3)
    return plan_document(moment, plan) | {"generations": [], "links_planned": planned.tolist()}


def plan_document(moment: Moment, plan: JobPlan) -> dict[str, object]:
    """Return one generation of a job, without those before."""
    rates = own_rates(plan.flows.flows, moment.reports.rates_bps(moment.state.fabric))
    flows = list(islice(plan.flows.flows, MAX_FLOWS))
    return {
        "id": plan.job_id,
        "tenant": plan.tenant,
        "state": plan.state.value,
        "reason": plan.reason,
        "generation": plan.generation,
        "priority": plan.priority,
        "lease_expires_ms": plan.lease_expires_unix_ms,
        "certificate": _certificate(plan, by_construction=traits_of(moment.state.fabric).in_packets),
        "flows": _flows(flows, rates),
        "flows_total": len(plan.flows.flows),
        "shares_links_with": list(_sharing(moment.state, plan)),
    }


def _lines(state: State) -> Iterator[JobLine]:
    for job in state.jobs.values():
        yield {
            **figures_of(job, state.certificate.lower_bound),
            "generation": job.generation,
            "priority": job.request.priority,
            "reason": job.reason,
            "probed": job.effort.probed,
            "paths_confirmed": job.effort.paths_confirmed,
        }


def _certificate(plan: JobPlan, *, by_construction: bool) -> Certificate:
    found = plan.certificate
    return {
        "achieved": found.max_link_utilisation,
        "own": plan.flows.own_max_link_utilisation,
        "bound": found.lower_bound,
        "ecmp": found.ecmp_max_link_utilisation,
        "e_ecmp": found.e_ecmp_max_link_utilisation,
        "proof": found.lower_bound_kind,
        "flows_slowed": found.flows_slowed,
        "mean_share": found.mean_share,
        "worst_share": found.worst_share,
        "flows_work_conserving": conserving_count(plan.flows.flows),
        "assumed": found.assumed,
        "below_goal": found.below_goal,
        "probed": found.probed,
        "paths_confirmed": found.paths_confirmed,
        "oldest_confirmation_ms": found.oldest_confirmation_unix_ms or None,
        "probes": found.probes,
        "by_construction": by_construction,
    }


def _flows(flows: Iterable[FlowPlan], rates: Mapping[Stream, float]) -> Iterator[FlowLine]:
    for flow in flows:
        yield {
            "id": flow.flow_id,
            "src": flow.src_nic,
            "dst": flow.dst_nic,
            "planned_bps": round(flow.rate_bps / max(1, flow.window.slots)),
            "measured_bps": rates.get(stream_of(flow)),
            "links": list(flow.links),
            "udp_source_port": flow.udp_source_port,
        }


def _generations(moment: Moment, job: Job) -> list[Generation]:
    """Return the published generations of a job that are remembered, the newest last."""
    mine = [each for each in moment.announced if each.job_id == job.request.job_id]
    found: dict[int, Generation] = {}
    for each in mine:
        found[each.generation] = {
            "generation": each.generation, "at_ms": each.unix_ms, "state": each.state.value, "reason": each.reason,
        }  # fmt: skip
    newest: Generation = {
        "generation": job.generation, "at_ms": None, "state": job.state.value, "reason": job.reason
    }  # fmt: skip
    found.setdefault(job.generation, newest)
    return [found[number] for number in sorted(found)]


def _sharing(state: State, plan: JobPlan) -> Iterator[Sharing]:
    """Yield other jobs with load on links of this one."""
    mine = plan.flows.link_loads_bps.keys()
    others = (job for job_id, job in state.jobs.items() if job_id != plan.job_id)
    shared = ((job.request.job_id, mine & job.flows.link_loads_bps.keys()) for job in others)
    for job_id, links in islice(((job_id, links) for job_id, links in shared if links), MAX_SHARING):
        yield {"job": job_id, "links": sorted(links)[:MAX_SHARED_LINKS]}
