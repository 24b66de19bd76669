"""Hosts name their NVLink domain in the fabric file: generated, listed, written again, compared."""

import json

from heddle.controller.config import parse_fabric
from heddle.controller.config.write import fabric_document, fabric_text
from heddle.controller.model.fabric_change import changes_between
from tests.unit.config.lab import job_refused

RAILS = "kind: rail_optimised, spines: 1, leaves: 2, hosts_per_leaf: 3, nics_per_host: 2"


def fabric(generate: str, hosts: str = ""):
    return parse_fabric(f"version: 1\ngenerate: {{{generate}}}\n{hosts}", "fabric.yaml")


def domains(found):
    return {nic.host: nic.nvlink_domain for nic in found.nics}


def test_generated_hosts_share_a_domain_in_order():
    assert domains(fabric(f"{RAILS}, hosts_per_nvlink_domain: 2")) == {"h1": "nvl1", "h2": "nvl1", "h3": "nvl2"}
    assert domains(fabric(RAILS)) == {"h1": "", "h2": "", "h3": ""}


def test_a_listed_host_has_the_domain_that_it_names():
    hosts = "hosts:\n  - {id: h3, nvlink_domain: rack7, nics: [{id: a, ip: 10.9.0.1, port: 'leaf1:9', gbps: 100}]}"
    assert domains(fabric(f"{RAILS}, hosts_per_nvlink_domain: 2", hosts))["h3"] == "rack7"


def test_a_fabric_that_is_written_out_is_the_same_as_text_and_as_json():
    whole = fabric(f"{RAILS}, hosts_per_nvlink_domain: 2")
    assert parse_fabric("\n".join(fabric_text(whole, numbered=True)), "out.yaml").nics == whole.nics
    assert parse_fabric(json.dumps(fabric_document(whole)), "out.json").nics == whole.nics


def test_another_domain_is_a_difference_and_another_digest():
    one, two = fabric(f"{RAILS}, hosts_per_nvlink_domain: 1"), fabric(f"{RAILS}, hosts_per_nvlink_domain: 3")
    changed = changes_between(one, two).others
    assert [str(each.id) for each in changed] == [f"nvlink_domain of h{h}-n{n}" for h in (2, 3) for n in (0, 1)]
    assert len({fabric(RAILS).digest, one.digest, two.digest}) == 3


def test_an_algorithm_that_is_none_is_one_line():
    collectives = "collectives: [{kind: ALL_TO_ALL, bytes: 1, algorithm: NCLL}]"
    why = "must be one of CONTRACT, NCCL, NCCL_NO_PXN, is 'NCLL', did you mean NCCL?"
    assert job_refused(f"ranks: [h1-n0, h2-n0], {collectives}") == [
        f"jobs.yaml: jobs[0].collectives[0].algorithm: {why}"
    ]
