"""Jobs with an algorithm go on after a restart where the fabric file has their rails and domains."""

import json

import pytest

from heddle.controller.model.job import Algorithm, Collective, CollectiveKind
from heddle.controller.runtime.journal import values
from tests.unit.journal.test_another_fabric import kept, refusal, started

RAILS = (
    "version: 1\nname: yard\ngenerate: {kind: rail_optimised, spines: 2, leaves: 4, hosts_per_leaf: 2, "
    "nics_per_host: 2, hosts_per_nvlink_domain: 1}\n"
)
RING = "{kind: RING_ALL_REDUCE, bytes: 3000, algorithm: NCCL}"


def test_a_job_by_rails_has_its_flows_again_after_a_restart():
    store = kept(RAILS, collective=RING)
    (job,) = started(RAILS, store).jobs.values()
    assert job.request.collectives[0].algorithm is Algorithm.NCCL
    assert len(job.flows.flows) == 16
    assert {flow.src_nic[-1] == flow.dst_nic[-1] for flow in job.flows.flows} == {True}


@pytest.mark.parametrize("domain", ["", ", hosts_per_nvlink_domain: 2"], ids=["none", "one for two hosts"])
def test_a_fabric_file_with_other_domains_is_refused_in_one_line(domain):
    why = refusal(RAILS.replace(", hosts_per_nvlink_domain: 1", domain), kept(RAILS, collective=RING))
    assert "job mesh has flows by rails or an NVLink domain, which fabric yard does not have" in why


def test_a_collective_of_an_earlier_journal_has_the_flows_of_its_kind():
    written = json.loads(values.encode(Collective(kind=CollectiveKind.GATHER)))
    del written["algorithm"]
    assert values.decode(Collective, json.dumps(written).encode()).algorithm is Algorithm.CONTRACT
