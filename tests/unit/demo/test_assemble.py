import itertools
import json
from dataclasses import replace

import pytest

from heddle.mininet_topos.demo.results.assemble import PlanFigures, assemble, collisions, offered_load, plan_figures
from heddle.mininet_topos.demo.results.values import Congestion, CongestionSeries
from heddle.mininet_topos.measure import flow_run
from heddle.mininet_topos.traffic.queue_pairs import hashed_pairs, with_shares
from heddle.mininet_topos.traffic.workloads import permutation
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.demo_results import path, spine_leaf

FABRIC = spine_leaf()
WORKLOAD = permutation(FABRIC.nics, 1, 0.5)
PAIRS = with_shares(
    FABRIC,
    [replace(p, links=path(FABRIC, p.src_nic, p.dst_nic, 0)) for p in hashed_pairs(FABRIC, WORKLOAD, "ecmp")],
)
SECOND = 10**9


def stream(pair):
    nics = FABRIC.nic_by_id
    return flow_run.FiveTuple(nics[pair.src_nic].ip, nics[pair.dst_nic].ip, pair.udp_source_port)


def flow(pair, **changes):
    """Return the lab's result of a queue pair that takes a second: two flows of half a second share each link."""
    packets = pair.size_bytes // 4096
    found = flow_run.FlowResult(
        request=pair.request,
        acked_bytes=pair.size_bytes,
        delivered_bytes=pair.size_bytes,
        first_tx_ns=0,
        last_rx_ns=SECOND,
        completed_ns=SECOND,
        packets=packets,
        tx_packets=packets,
        rx_packets=packets,
        retransmitted_packets=0,
        packet_seq_err=0,
        local_ack_timeout_err=0,
        out_of_sequence=0,
        duplicate_request=0,
    )
    return replace(found, **changes)


def lab_result(pairs=PAIRS, flows=None, **counts):
    data: dict[str, dict[flow_run.FiveTuple, int]] = {}
    for pair in pairs:
        for link in pair.links:
            data.setdefault(link, {})[stream(pair)] = pair.size_bytes // 4096
    balance = {
        "tx_packets": 100,
        "rx_packets": 100,
        "queue_drops": 0,
        "switch_socket_drops": 0,
        "nic_socket_drops": 0,
        "foreign_packets": 0,
        "icrc_errors": 0,
    }
    return flow_run.RunResult(
        flows=tuple(flows or (flow(pair) for pair in pairs)),
        nics={},
        capture=flow_run.Capture(data=data, ring_drops=counts.pop("ring_drops", 0)),
        queue_drops={},
        integrity=flow_run.Integrity.of_counts(**{**balance, **counts}),
        duration_ns=SECOND,
        vswitchd_cpu_ns=0,
    )


def run(found=None, plan=None):
    return assemble(FABRIC, WORKLOAD, "ecmp", PAIRS, found or lab_result(), plan)


def test_goodput_is_acknowledged_payload_bits_over_the_time_to_the_last_acknowledgement():
    first = run().flows[0]
    assert first.goodput_bps == PAIRS[0].size_bytes * 8


def test_a_flows_time_begins_with_the_run_and_not_with_its_first_packet():
    late = [flow(PAIRS[0], first_tx_ns=SECOND // 2), *(flow(pair) for pair in PAIRS[1:])]
    assert run(lab_result(flows=late)).flows[0].duration_ns == SECOND


def test_a_flow_of_several_queue_pairs_is_done_with_the_last():
    pairs = [replace(p, flow=0, flow_id=f"{p.flow_id}x{i}") for i, p in enumerate(PAIRS[:2])]
    workload = replace(WORKLOAD, flows=WORKLOAD.flows[:1])
    flows = [flow(pairs[0], completed_ns=SECOND // 4), flow(pairs[1], completed_ns=SECOND)]
    found = assemble(FABRIC, workload, "e-ecmp", pairs, lab_result(pairs, flows), None)
    assert found.flows[0].duration_ns == SECOND


def test_packets_counted_on_their_links_make_a_flow_exact():
    assert run().exact_flows == 8


def test_a_packet_counted_elsewhere_makes_a_flow_inexact():
    found = lab_result()
    stray = {**found.capture.data, "leaf4:2>spine2:4": {stream(PAIRS[0]): 1}}
    assert run(replace(found, capture=flow_run.Capture(data=stray))).exact_flows == 7


def test_a_hashed_run_is_predicted_by_its_max_min_shares():
    predicted = run().predicted
    assert predicted.source == "max-min"
    assert predicted.completion_ns == pytest.approx(SECOND, rel=0.02)  # half a second's worth, two flows to a link
    assert predicted.max_link_utilisation == 2.0


def test_a_planned_run_is_predicted_by_its_certificate():
    plan = PlanFigures(certificate={"max_link_utilisation": 1.0}, predicted_completion_ns=5)
    predicted = run(plan=plan).predicted
    assert (predicted.source, predicted.max_link_utilisation, predicted.completion_ns) == ("certificate", 1.0, 5)


def test_offered_load_is_the_sum_of_demands_and_may_exceed_capacity():
    loads = {link.id: link for link in run().links}
    assert loads["leaf1:1>spine1:1"].offered_utilisation == 2.0
    assert loads["leaf1:1>spine1:1"].predicted_utilisation == 1.0


def test_measured_load_is_the_wire_bits_counted_over_the_flows_own_time():
    loads = {link.id: link for link in run().links}
    wire = 2 * PAIRS[0].size_bytes / 4096 * 4154 * 8
    assert loads["leaf1:1>spine1:1"].measured_utilisation == pytest.approx(wire / 20_000_000)


def planned_over(spines, claimed):
    """Return what is wrong with a plan of the permutation that gives the flows of each leaf these spines in turn."""
    seen: dict[str, int] = {}
    pairs = []
    for pair in PAIRS:
        leaf = FABRIC.nic_by_id[pair.src_nic].port.switch
        spine = spines[seen.get(leaf, 0) % len(spines)]
        seen[leaf] = seen.get(leaf, 0) + 1
        pairs.append(replace(pair, links=path(FABRIC, pair.src_nic, pair.dst_nic, spine)))
    plan = PlanFigures(certificate={"max_link_utilisation": claimed}, predicted_completion_ns=0)
    return collisions(FABRIC, WORKLOAD, pairs, plan)


def test_a_plan_that_sends_all_flows_of_a_leaf_over_one_spine_is_worse_than_it_must_be():
    assert planned_over([0], claimed=2.0) == ("the plan loads a link with 2.00, where 1.00 is possible",)


def test_a_certificate_that_claims_more_than_the_paths_have_is_a_fault():
    claims = "the certificate claims 1.00 for the fullest link, which by its paths is at 2.00"
    assert claims in planned_over([0], claimed=1.0)


def test_where_the_least_load_is_not_known_a_plan_is_only_compared_with_its_certificate():
    thick = replace(FABRIC, cables=(replace(FABRIC.cables[0], capacity_bps=10**9), *FABRIC.cables[1:]))
    plan = PlanFigures(certificate={"max_link_utilisation": 2.0}, predicted_completion_ns=0)
    assert collisions(thick, WORKLOAD, PAIRS, plan) == ()


@pytest.mark.parametrize("seed", range(5))
def test_the_least_load_of_a_permutation_is_the_one_that_an_exhaustive_search_finds(seed):
    small = spine_leaf(spines=2, leaves=3, hosts_per_leaf=2)
    workload = permutation(small.nics, seed, 0.5)
    found = []
    drawn = hashed_pairs(small, workload, "ecmp")
    pairs = [replace(pair, links=path(small, pair.src_nic, pair.dst_nic, 0)) for pair in drawn]
    for choice in itertools.product((0, 1), repeat=len(pairs)):
        tried = [
            replace(pair, links=path(small, pair.src_nic, pair.dst_nic, spine))
            for pair, spine in zip(pairs, choice, strict=True)
        ]
        load = offered_load(small, tried)
        plan = PlanFigures(certificate={"max_link_utilisation": load}, predicted_completion_ns=0)
        found.append((load, collisions(small, workload, tried, plan) == ()))
    least = min(load for load, _ in found)
    assert all(is_right == (load == least) for load, is_right in found)


def test_a_balanced_run_is_valid():
    assert run().valid


def test_packets_dropped_by_a_queue_and_counted_leave_a_run_valid():
    assert run(lab_result(tx_packets=100, rx_packets=90, queue_drops=10)).valid


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ({"rx_packets": 99}, "1 packets are missing"),
        ({"switch_socket_drops": 3}, "3 packets were lost in Open vSwitch's sockets"),
        ({"nic_socket_drops": 3}, "3 packets were lost in the NICs' sockets"),
        ({"foreign_packets": 1}, "1 packets reached a NIC that they were not for"),
        ({"icrc_errors": 1}, "1 packets arrived damaged"),
        ({"ring_drops": 1}, "1 packets passed the capture uncounted"),
    ],
)
def test_what_a_queue_did_not_count_makes_a_run_invalid(counts, problem):
    found = run(lab_result(**counts))
    assert not found.valid
    assert found.integrity.problems[0].startswith(problem)


def test_a_queue_pair_that_did_not_finish_makes_a_run_invalid():
    flows = [flow(PAIRS[0], completed_ns=None), *(flow(pair) for pair in PAIRS[1:])]
    assert run(lab_result(flows=flows)).integrity.problems == ("1 queue pairs did not finish in time",)


def test_a_queue_pair_slower_than_its_pace_makes_a_run_invalid():
    flows = [flow(PAIRS[0], completed_ns=SECOND * 5 // 4), *(flow(pair) for pair in PAIRS[1:])]
    (problem,) = run(lab_result(flows=flows)).integrity.problems
    assert problem.startswith("1 queue pairs fell behind a pace that their links have room for")


def test_the_round_trip_time_does_not_make_a_queue_pair_late():
    flows = [flow(PAIRS[0], completed_ns=SECOND + 40_000_000), *(flow(pair) for pair in PAIRS[1:])]
    assert run(lab_result(flows=flows)).valid


def test_a_slow_queue_pair_is_late_if_it_is_paced_but_not_where_marks_and_pauses_set_its_rate():
    slow = lab_result(flows=[flow(pair, completed_ns=3 * SECOND) for pair in PAIRS])
    congestion = Congestion(
        bystander=0,
        marked_packets=0,
        cnps=0,
        pfc_frames=0,
        switch_paused_ns=0,
        nic_paused_ns=0,
        dropped_packets=0,
        series=CongestionSeries(),
    )
    assert not assemble(FABRIC, WORKLOAD, "ecmp", PAIRS, slow, None).valid
    assert assemble(FABRIC, WORKLOAD, "ecmp", PAIRS, slow, None, congestion).valid


def test_the_figures_of_a_plan_are_plain_values_whatever_its_certificate_has():
    plan = pb.JobPlan(certificate=pb.Certificate(lower_bound=0.5, spraying=pb.Spraying()), predicted_completion_ns=7)
    found = plan_figures(plan)
    assert (found.certificate["lower_bound"], found.predicted_completion_ns) == (0.5, 7)
    assert json.loads(json.dumps(found.certificate)) == found.certificate
