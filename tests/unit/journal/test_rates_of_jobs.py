"""The journal keeps which flows of a job may exceed their rates, and reads jobs that were written before it did."""

from dataclasses import replace

import numpy as np
import pytest

from heddle.controller.api.translate import plan_to
from heddle.controller.brain.state import Job
from heddle.controller.model.event import Submit
from heddle.controller.model.plan import Certificate
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.runtime.journal import jobs
from tests.unit.brain.driver import Driver, shift_job, small_fabric


def job_with(conserving: list[int] | None) -> Job:
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    job = driver.state.jobs["a"]
    table = job.flows.flows
    assert isinstance(table, FlowTable)
    flags = None if conserving is None else np.isin(np.arange(len(table)), conserving)
    return replace(job, flows=replace(job.flows, flows=table.with_rates(table.rates // 2, None, flags)))


@pytest.mark.parametrize("conserving", [None, [0, 2]])
def test_a_job_is_read_back_as_it_was(conserving):
    topology, job = topology_of(small_fabric()), job_with(conserving)
    again = jobs.decode(topology, jobs.encode(topology, job), None)
    assert again.flows.flows == job.flows.flows
    message = plan_to(again.as_plan(Certificate()))
    assert [n for n, flow in enumerate(message.flows) if flow.work_conserving] == (conserving or [])
    assert message.certificate.flows_work_conserving == len(conserving or [])


def test_a_job_in_which_no_flow_may_is_written_as_by_former_versions():
    assert b"conserving" not in jobs.encode(topology_of(small_fabric()), job_with(None))
