"""The line rate of a demo: the highest that the machine carries, for all runs, reported with those given up."""

from dataclasses import replace

import pytest

from heddle.controller.model.error import InputError
from heddle.mininet_topos.demo.line_rate import RateTooHighError, measure_at_highest_rate, spread
from heddle.mininet_topos.demo.options import LINE_RATES_GBPS, build_options
from heddle.mininet_topos.demo.results.summary import summary_lines
from heddle.mininet_topos.traffic.queue_pairs import hashed_pairs
from heddle.mininet_topos.traffic.workloads import rotation
from tests.fakes.demo_results import demo_result, path, spine_leaf

SIZES = {"spines": None, "leaves": None, "hosts": None, "gbps": None}
RATES_BPS = [round(gbps * 1e9) for gbps in LINE_RATES_GBPS]
RESULT = demo_result()


def options(**changes):
    arguments = {
        "fabric_file": None, "sizes": SIZES, "workloads": "permutation,ring,incast", "seeds": "1,2",
        "modes": "ecmp,planned", "seconds": 2.5, "scenes": "none",
    }  # fmt: skip
    return build_options(**{**arguments, **changes})


class Machine:
    """A machine that carries rates up to `max_bps`; records the rates it was asked to measure."""

    def __init__(self, max_bps: int) -> None:
        self.max_bps = max_bps
        self.asked: list[tuple[int, bool]] = []

    def measure(self, at, may_give_up):
        self.asked.append((at.line_rate_bps, may_give_up))
        if may_give_up and at.line_rate_bps > self.max_bps:
            raise RateTooHighError("ring seed 1, planned", "2 queue pairs fell behind")
        return replace(RESULT, parameters={**RESULT.parameters, "line_rate_bps": at.line_rate_bps})


def result_on(machine, **changes):
    return measure_at_highest_rate(options(**changes), machine.measure, lambda _: None)


def test_the_candidate_rates_are_in_descending_order():
    assert sorted(LINE_RATES_GBPS, reverse=True) == list(LINE_RATES_GBPS)
    assert len(set(LINE_RATES_GBPS)) == len(LINE_RATES_GBPS) > 1


def test_a_machine_that_carries_the_first_rate_is_measured_once():
    machine = Machine(max_bps=10**9)
    result = result_on(machine)
    assert machine.asked == [(RATES_BPS[0], True)]
    assert result.rates_given_up == ()


@pytest.mark.parametrize("lower", range(1, len(RATES_BPS)))
def test_after_a_rate_is_too_high_everything_is_measured_at_the_highest_that_works(lower):
    machine = Machine(max_bps=RATES_BPS[lower])
    result = result_on(machine)
    assert [rate for rate, _ in machine.asked] == RATES_BPS[: lower + 1]
    assert result.parameters["line_rate_bps"] == RATES_BPS[lower]
    assert [one.line_rate_bps for one in result.rates_given_up] == RATES_BPS[:lower]


def test_the_lowest_rate_is_never_given_up():
    machine = Machine(max_bps=0)
    result_on(machine)
    assert machine.asked == [*((rate, True) for rate in RATES_BPS[:-1]), (RATES_BPS[-1], False)]


def test_a_rate_that_was_asked_for_is_never_given_up():
    machine = Machine(max_bps=0)
    result_on(machine, sizes={**SIZES, "gbps": 0.02})
    assert machine.asked == [(20_000_000, False)]


def test_a_fabric_that_was_given_keeps_its_rates(tmp_path):
    file = tmp_path / "fabric.yaml"
    file.write_text(options().fabric_text)
    assert options(fabric_file=file).slower == ()


def test_other_sizes_have_the_same_candidate_rates():
    slower = options(sizes={**SIZES, "hosts": 12, "leaves": 6}).slower
    assert [(at.line_rate_bps, len(at.fabric.nics)) for at in slower] == [(rate, 12) for rate in RATES_BPS[1:]]


def test_flow_sizes_scale_with_the_rate_so_that_durations_stay_the_same():
    first = options()
    for at in first.slower:
        assert [workload.name for workload in at.workloads] == [workload.name for workload in first.workloads]
        for ours, theirs in zip(at.workloads, first.workloads, strict=True):
            for flow, before in zip(ours.flows, theirs.flows, strict=True):
                assert (flow.src_nic, flow.dst_nic) == (before.src_nic, before.dst_nic)
                wanted = before.size_bytes * at.line_rate_bps / first.line_rate_bps
                assert flow.size_bytes == pytest.approx(wanted, abs=2 * 16_384)


def test_the_controller_is_given_the_fabric_of_the_rate():
    assert [
        at.fabric_text.count(f"gbps: {gbps}") for at, gbps in zip(options().slower, LINE_RATES_GBPS[1:], strict=True)
    ]


def test_a_rate_given_up_is_reported_with_the_run_and_its_problem_and_kept_in_the_results():
    result = result_on(Machine(max_bps=RATES_BPS[1]))
    line = summary_lines(result)[0]
    assert "16 Mbit/s" in line
    assert "does not carry 20 Mbit/s (ring seed 1, planned: 2 queue pairs fell behind)" in line
    kept = {"line_rate_bps": 20_000_000, "run": "ring seed 1, planned", "problem": "2 queue pairs fell behind"}
    assert result.to_json()["rates_given_up"] == (kept,)


def test_another_error_is_not_treated_as_a_rate_too_high():
    def measure(at, may_give_up):
        raise InputError("something else")

    with pytest.raises(InputError):
        measure_at_highest_rate(options(), measure, lambda _: None)


@pytest.mark.parametrize(("leaves", "hosts_per_leaf"), [(4, 2), (2, 2), (3, 2), (8, 2)])
def test_full_load_uses_source_ports_that_hash_onto_disjoint_links(leaves, hosts_per_leaf):
    fabric = spine_leaf(leaves=leaves, hosts_per_leaf=hosts_per_leaf)
    pairs = hashed_pairs(fabric, rotation(fabric.nics, 1.0), "ecmp")

    def path_of(pair):
        return path(fabric, pair.src_nic, pair.dst_nic, pair.udp_source_port * 7919 % 97 % 2)

    spread_out = spread(pairs, path_of)
    links = [link for pair in spread_out for link in pair.links]
    assert len(links) == len(set(links)) == 4 * len(fabric.nics)
    assert all(49152 <= pair.udp_source_port < 65536 for pair in spread_out)
    assert all(pair.links == path_of(pair) for pair in spread_out)


@pytest.mark.parametrize(("leaves", "hosts_per_leaf"), [(1, 3), (2, 1), (4, 2)])
def test_a_rotation_lets_every_nic_send_to_one_and_receive_from_one(leaves, hosts_per_leaf):
    fabric = spine_leaf(leaves=leaves, hosts_per_leaf=hosts_per_leaf)
    flows = rotation(fabric.nics, 1.0).flows
    ids = {nic.id for nic in fabric.nics}
    assert {flow.src_nic for flow in flows} == {flow.dst_nic for flow in flows} == ids
    assert all(flow.src_nic != flow.dst_nic for flow in flows)
