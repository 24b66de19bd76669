import json
from dataclasses import fields
from typing import Any

import pytest

from heddle.controller.config import parse_jobs
from heddle.controller.config.write import request_document
from heddle.controller.model.error import InputError
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, Incast, JobRequest, RankPair, Steering
from tests.unit.config.lab import GENERATE, fabric, job, job_refused

EVERY_KEY = (
    "tenant: team-a, priority: 4, lease_ms: 9, steering: PIN, require_utilisation: 1.5, gpu_milli: 500, "
    "incast: WINDOWS, assumed: true, ranks: [h1-n0, h2-n0, h1-n0], collectives: ["
    "{kind: GATHER, root: 2, bytes: 7, phase: 1, members: [0, 2], qps_per_flow: 3}, "
    "{kind: SEND_RECV, bytes: 5, pairs: [{src_rank: 0, dst_rank: 1}]}, "
    "{kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 1, rate_bps: 50, udp_source_port: 50000}]}]"
)
RING = "collectives: [{kind: RING_ALL_REDUCE, bytes: 1}]"


def one(collective, ranks="[h1-n0, h2-n0, h3-n0]"):
    return f"ranks: {ranks}, collectives: [{{{collective}}}]"


def test_a_job_has_the_values_of_its_keys():
    flow = FlowDemand(src_rank=0, dst_rank=1, rate_bps=50, udp_source_port=50000)
    assert job(EVERY_KEY) == JobRequest(
        job_id="a",
        tenant="team-a",
        priority=4,
        lease_ms=9,
        steering=Steering.PIN,
        require_utilisation=1.5,
        gpu_milli=500,
        incast=Incast.WINDOWS,
        assumed=True,
        ranks=("h1-n0", "h2-n0", "h1-n0"),
        collectives=(
            Collective(kind=CollectiveKind.GATHER, root=2, size_bytes=7, phase=1, members=(0, 2), qps_per_flow=3),
            Collective(kind=CollectiveKind.SEND_RECV, size_bytes=5, pairs=(RankPair(src_rank=0, dst_rank=1),)),
            Collective(kind=CollectiveKind.CUSTOM, flows=(flow,)),
        ),
    )


def test_a_request_that_is_written_as_an_entry_is_read_as_itself():
    request = job(EVERY_KEY)
    entry: dict[str, Any] = request_document(request)
    assert parse_jobs(json.dumps({"version": 1, "jobs": [entry]}), "jobs.yaml", fabric(GENERATE)) == (request,)
    assert entry.keys() == {field.name for field in fields(JobRequest)}
    one_more = {field.name for field in fields(Collective)} ^ {"size_bytes", "bytes"}
    assert entry["collectives"][2].keys() == one_more
    assert entry["collectives"][2]["flows"][0].keys() == set(FlowDemand._fields)


def test_zero_queue_pairs_means_one():
    assert job(one("kind: ALL_GATHER, bytes: 1, qps_per_flow: 0")).collectives[0].qps_per_flow == 1


def test_unspecified_steering_means_the_source_port():
    assert job("ranks: [h1-n0], steering: STEERING_UNSPECIFIED").steering is Steering.SOURCE_PORT


@pytest.mark.parametrize(
    ("key", "meaning"),
    [
        ("", Incast.UNSPECIFIED),
        (", incast: INCAST_UNSPECIFIED", Incast.UNSPECIFIED),
        (", incast: RATES", Incast.RATES),
        (", incast: INCAST_WINDOWS", Incast.WINDOWS),
    ],
)
def test_the_planner_chooses_the_incast_mode_by_default(key, meaning):
    assert job(f"ranks: [h1-n0]{key}").incast is meaning


def test_all_ranks_are_the_compute_nics_host_by_host():
    text = (
        "generate: {kind: rail_optimised, spines: 1, leaves: 2, hosts_per_leaf: 2, nics_per_host: 2}\n"
        "hosts: [{id: s, nics: [{id: s0, ip: 10.1.0.1, port: 'leaf1:60', gbps: 1, network: storage}]}]\n"
    )
    assert job("ranks: {all: true}", fabric(text)).ranks == ("h1-n0", "h1-n1", "h2-n0", "h2-n1")


@pytest.mark.parametrize("ranks", ["{all: false}", "{all: true, but: h1}", "{}", "all", "3", "{all: 1}"])
def test_ranks_are_a_list_or_all(ranks):
    (line,) = job_refused(f"ranks: {ranks}")
    assert line.startswith("jobs.yaml: jobs[0].ranks: must be a list of NIC ids or {all: true}")


def test_a_rank_that_is_no_text_is_refused_at_its_place():
    assert job_refused("ranks: [h1-n0, 3]") == ["jobs.yaml: jobs[0].ranks[1]: must be a text, is 3; put it in quotes"]


def test_an_unknown_nic_is_refused_with_a_suggestion():
    assert job_refused("ranks: [h1-n0, h22-n0]") == [
        "jobs.yaml: jobs[0].ranks[1]: no NIC named 'h22-n0' in the fabric, did you mean h2-n0?"
    ]


def test_no_ranks_are_refused():
    assert job_refused("ranks: []") == [
        "jobs.yaml: jobs[0].ranks: must not be empty: name the NIC of rank 0, 1, 2 and so on"
    ]


def test_the_same_job_id_twice_is_refused():
    with pytest.raises(InputError, match=r"jobs\[1\]\.job_id: 'a' is taken by jobs\[0\]; choose another"):
        parse_jobs("jobs: [{job_id: a, ranks: [h1-n0]}, {job_id: a, ranks: [h2-n0]}]", "jobs.yaml", fabric())


def test_a_jobs_file_without_jobs_is_refused():
    with pytest.raises(InputError, match=r"jobs\.yaml: jobs: missing, it is required"):
        parse_jobs("version: 1", "jobs.yaml", fabric())


def test_a_mistyped_kind_is_refused_with_a_suggestion():
    (line,) = job_refused(one("kind: RING_ALLREDUCE, bytes: 1"))
    assert line.endswith("is 'RING_ALLREDUCE', did you mean RING_ALL_REDUCE?")


@pytest.mark.parametrize("size", ["0", "-1", "1.5", "'1'", "true", str(2**64)])
def test_a_size_is_a_whole_number_of_bytes_above_zero(size):
    (line,) = job_refused(one(f"kind: RING_ALL_REDUCE, bytes: {size}"))
    assert line.startswith("jobs.yaml: jobs[0].collectives[0].bytes: must be ")


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ("priority: 8", "priority"),
        ("priority: -1", "priority"),
        ("require_utilisation: .nan", "require_utilisation"),
        ("require_utilisation: -0.5", "require_utilisation"),
        ("require_utilisation: .inf", "require_utilisation"),
        (f"require_utilisation: 1{'0' * 400}", "require_utilisation"),
        (f"lease_ms: {2**63}", "lease_ms"),
        ("lease_ms: -1", "lease_ms"),
        ("gpu_milli: 1000001", "gpu_milli"),
        ("steering: PORT", "steering"),
        ("incast: TURNS", "incast"),
        ('tenant: "a\\nb"', "tenant"),
        (f"tenant: {'a' * 129}", "tenant"),
        ("rank: [h1-n0]", "rank"),
    ],
)
def test_a_value_out_of_range_is_refused_at_its_key(keys, path):
    (line,) = job_refused(f"ranks: [h1-n0], {keys}")
    assert line.startswith(f"jobs.yaml: jobs[0].{path}: ")


@pytest.mark.parametrize("name", ["''", "-a", "'a b'", "a" * 129, '"a\\n"', "é"])
def test_a_job_id_outside_the_pattern_is_refused(name):
    with pytest.raises(InputError, match=r"jobs\[0\]\.job_id: .* is no job id: "):
        parse_jobs(f"jobs: [{{job_id: {name}, ranks: [h1-n0]}}]", "jobs.yaml", fabric())


@pytest.mark.parametrize(
    ("collective", "path", "expected"),
    [
        ("kind: GATHER, bytes: 1, root: 3", "root", "rank 3 is out of range: the job has ranks 0 to 2"),
        ("kind: BROADCAST, bytes: 1, members: [1, 2]", "root", "rank 0 is no member"),
        ("kind: ALL_TO_ALL, bytes: 1, members: [0, 3]", "members[1]", "rank 3 is out of range"),
        ("kind: ALL_TO_ALL, bytes: 1, members: [0, 1, 0]", "members[2]", "rank 0 is a member already, at members[0]"),
        ("kind: ALL_TO_ALL, bytes: 1, qps_per_flow: 17", "qps_per_flow", "must be from 1 to 16, is 17"),
        ("kind: SEND_RECV, bytes: 1", "pairs", "must not be empty for SEND_RECV"),
        ("kind: CUSTOM", "flows", "must not be empty for CUSTOM"),
        ("kind: GATHER, bytes: 1, pairs: [{src_rank: 0, dst_rank: 1}]", "pairs", "belong to SEND_RECV only"),
        ("kind: GATHER, bytes: 1, flows: [{src_rank: 0, dst_rank: 1}]", "flows", "belong to CUSTOM only"),
        (
            "kind: SEND_RECV, bytes: 1, pairs: [{src_rank: 0, dst_rank: 3}]",
            "pairs[0].dst_rank",
            "rank 3 is out of range",
        ),
        ("kind: SEND_RECV, bytes: 1, pairs: [{src_rank: 1, dst_rank: 1}]", "pairs[0].dst_rank", "is the sender too"),
        ("kind: CUSTOM, flows: [{src_rank: 9, dst_rank: 1}]", "flows[0].src_rank", "rank 9 is out of range"),
        ("kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 0}]", "flows[0].dst_rank", "is the sender too"),
        (
            "kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 1, udp_source_port: 49151}]",
            "flows[0].udp_source_port",
            "must be from 49152 to 65535, or 0",
        ),
        (
            "kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 1, rate_bps: 4000000000001}]",
            "flows[0].rate_bps",
            "must be from 0 to 4000000000000",
        ),
        (
            "kind: CUSTOM, qps_per_flow: 2, flows: [{src_rank: 0, dst_rank: 1, udp_source_port: 50000}]",
            "qps_per_flow",
            "must be 1 where a flow has a fixed udp_source_port",
        ),
    ],
)
def test_an_invalid_collective_is_refused_at_its_key(collective, path, expected):
    (line,) = job_refused(one(collective))
    assert line.startswith(f"jobs.yaml: jobs[0].collectives[0].{path}: ")
    assert expected in line


def test_the_root_of_a_collective_that_has_none_is_ignored():
    assert job(one("kind: TREE_ALL_REDUCE, bytes: 1, root: 77"))


WIDE = fabric("generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1000}")


def test_the_maximum_of_flow_plans_is_accepted_and_one_more_refused():
    ranks = "[" + ", ".join(f"h{i}-n0" for i in range(1, 1002)) + "]"
    assert job(
        f"ranks: {ranks}, collectives: [{{kind: ALL_TO_ALL, bytes: 1}}, {{kind: ALL_TO_ALL, bytes: 1, members: "
        f"{list(range(999))}}}]",
        WIDE,
    )
    text = f"ranks: {ranks}, collectives: [{{kind: ALL_TO_ALL, bytes: 1, qps_per_flow: 2}}]"
    assert job_refused(text, WIDE) == [
        "jobs.yaml: jobs[0].collectives: the job asks for more than 2,000,000 flow plans, the most there may be: "
        "fewer ranks, pairs or queue pairs"
    ]


def test_flow_plans_of_all_jobs_are_counted_together():
    ranks = "[" + ", ".join(f"h{i}-n0" for i in range(1, 1101)) + "]"
    jobs = ", ".join(
        f"{{job_id: {name}, ranks: {ranks}, collectives: [{{kind: ALL_TO_ALL, bytes: 1}}]}}" for name in "ab"
    )
    with pytest.raises(InputError, match=r"jobs: all jobs together ask for more than 2,000,000 flow plans"):
        parse_jobs(f"jobs: [{jobs}]", "jobs.yaml", WIDE)


def test_ranks_on_one_host_count_as_no_flow_plan():
    rails = fabric("generate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 1, nics_per_host: 1500}")
    assert job("ranks: {all: true}, collectives: [{kind: ALL_TO_ALL, bytes: 1}]", rails)


def test_a_million_wrong_ranks_are_refused_for_the_first_of_them():
    lines = job_refused(f"ranks: [{'h9999-n0, ' * 20_000}]")
    assert len(lines) == 21
    assert lines[-1] == "jobs.yaml: (+9980 more)"


def test_ranks_on_other_networks_are_ranks():
    text = GENERATE + "hosts: [{id: s, nics: [{id: s0, ip: 10.1.0.1, port: 'leaf1:60', gbps: 1, network: storage}]}]\n"
    assert job("ranks: [s0, h1-n0]", fabric(text)).ranks == ("s0", "h1-n0")
