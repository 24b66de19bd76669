"""Ports on a fabric that hashes: a job runs once every flow has a port that leads it over its planned path."""

from collections import Counter
from dataclasses import replace

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.effect import FindPorts, Install, Solve
from heddle.controller.model.error import InputError, NoAdmissiblePlanError
from heddle.controller.model.event import Drain, PortsAstray, PortsFound, PortStatus, Release, Submit, Tick, Withdraw
from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.job import Steering
from heddle.controller.model.plan import Certificate, FlowPlan, JobPlan
from heddle.probing.flow import Found
from tests.fakes.probing.hashing_fabric import Hash, crc_modulo, mixing
from tests.fakes.probing.hashing_switches import HashingSwitches
from tests.unit.brain.driver import Driver, shift_job, small_fabric

CLOS3 = """
version: 1
name: tiers
steering: hash
generate: {kind: clos3, pods: 2, aggs_per_pod: 4, spines: 16, leaves: 2, hosts_per_leaf: 4, gbps: 1}
"""


def hashing(fabric: Fabric, hashes: Hash = mixing, *, equal_seeds: bool = False) -> Driver:
    fabric = replace(fabric, steered_by=SteeredBy.HASH)
    return Driver(fabric, settings=Settings(), hashing=HashingSwitches(fabric, hashes, equal_seeds))


@pytest.fixture
def driver() -> Driver:
    return hashing(small_fabric(spines=4))


def certificate(driver: Driver) -> Certificate:
    plan = driver.reply_to(1)
    assert isinstance(plan, JobPlan), plan
    return driver.state.jobs[plan.job_id].as_plan(driver.state.certificate).certificate


def assert_confirmed(driver: Driver, job_id: str = "a") -> None:
    """Every flow of a job takes its planned path by the hashes of the switches."""
    nics, job = driver.fabric.nic_by_id, driver.state.jobs[job_id]
    assert driver.hashing is not None
    for flow in job.flows.flows:
        assert driver.hashing.path(nics[flow.src_nic], nics[flow.dst_nic], flow.udp_source_port) == flow.links


def test_a_job_needs_no_switch_session_and_gets_ports_that_lead_over_its_paths(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    plan = driver.reply_to(1)
    assert isinstance(plan, JobPlan)
    assert_confirmed(driver)
    assert not any(effect.steps for effect in driver.effects if isinstance(effect, Install))
    proof = plan.certificate
    assert (proof.probed, proof.paths_confirmed, proof.oldest_confirmation_unix_ms) == (True, 8, driver.now)
    assert proof.probes == driver.hashing.probes > 0
    assert proof.install_ns >= 11
    assert proof.rules_installed == 0


def test_a_caller_gets_no_reply_before_every_path_is_confirmed(driver):
    driver.hold = (FindPorts,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert 1 not in driver.replies
    assert not driver.state.jobs
    driver.release_held()
    assert isinstance(driver.reply_to(1), JobPlan)


def polarised() -> Driver:
    return hashing(parse_fabric(CLOS3, "tiers"), hashes=crc_modulo, equal_seeds=True)


def ranks_across_pods(fabric: Fabric) -> tuple[str, ...]:
    return tuple(nic.id for nic in fabric.nics)


def test_on_a_polarised_fabric_flows_take_paths_that_have_ports_and_the_log_names_the_cause():
    driver = polarised()
    request = replace(shift_job("a", ranks=16, by=8), ranks=ranks_across_pods(driver.fabric))
    driver.feed(Submit(reply=1, request=request))
    assert certificate(driver).paths_confirmed == 16
    assert_confirmed(driver)
    assert [note.text for note in driver.notes if "4 of 16 paths up: tiers hash alike (polarised)" in note.text]


def test_the_certificate_is_that_of_the_paths_that_have_ports():
    driver = polarised()
    request = replace(shift_job("a", ranks=16, by=8), ranks=ranks_across_pods(driver.fabric))
    driver.feed(Submit(reply=1, request=request))
    loads: dict[str, int] = {}
    for flow in driver.state.jobs["a"].flows.flows:
        for link in flow.links[1:-1]:
            loads[link] = loads.get(link, 0) + flow.demand_bps
    capacity = {link.id: link.capacity_bps for link in driver.fabric.directed_links}
    assert certificate(driver).max_link_utilisation == max(load / capacity[link] for link, load in loads.items())


def test_where_ports_change_no_path_flows_share_the_one_that_there_is_and_the_log_has_the_remedy():
    driver = hashing(small_fabric(spines=4), hashes=lambda header, seed, n: 0)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert certificate(driver).max_link_utilisation == 2.0
    assert_confirmed(driver)
    assert [note.text for note in driver.notes if "1 of 4 paths up; let switches hash UDP ports" in note.text]


def test_where_the_paths_that_have_ports_are_too_full_a_job_is_refused_with_the_remedy():
    driver = hashing(small_fabric(spines=4), hashes=lambda header, seed, n: 0)
    driver.feed(Submit(reply=1, request=shift_job("a", require_utilisation=1.0)))
    refused = driver.reply_to(1)
    assert isinstance(refused, NoAdmissiblePlanError)
    assert "let switches hash UDP ports" in str(refused)
    assert "require_utilisation" in str(refused)


def test_a_flow_whose_host_has_no_agent_is_refused_by_its_name(driver):
    driver.hashing.silent = {driver.fabric.nics[0].ip}
    driver.feed(Submit(reply=1, request=shift_job("a")))
    refused = driver.reply_to(1)
    assert isinstance(refused, NoAdmissiblePlanError)
    assert "flow a/0/0-2/0" in str(refused)
    assert "its host has no probe agent" in str(refused)
    assert not driver.state.jobs
    assert driver.state.active is None


def test_a_pin_is_refused_where_switches_hold_no_rules(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    assert isinstance(driver.reply_to(1), InputError)


def test_a_late_result_of_a_search_changes_nothing(driver):
    driver.hold = (FindPorts,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    (search,) = (effect for effect in driver.waiting if isinstance(effect, FindPorts))
    before = driver.state
    driver.feed(PortsFound(token=search.token + 100, found=Found({}, {}, 0), search_ns=1))
    assert driver.state == before


def test_a_failure_during_a_search_lets_the_job_be_planned_around_it(driver):
    driver.hold = (FindPorts,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.hashing.down = {"leaf1:1>spine1:1"}
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    driver.release_held()
    assert isinstance(driver.reply_to(1), JobPlan)
    assert_confirmed(driver)
    assert "leaf1:1>spine1:1" not in driver.state.jobs["a"].flows.link_loads_bps


def test_after_a_failure_moved_flows_are_published_with_ports_that_lead_around_it(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.hashing.down = {"leaf1:1>spine1:1"}
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    job = driver.state.jobs["a"]
    assert_confirmed(driver)
    assert job.generation == 2
    assert driver.announced[-1].generation == 2
    assert "leaf1:1>spine1:1" not in job.flows.link_loads_bps


def rehashed(salt: int, **job: int) -> tuple[Driver, list[FlowPlan], float]:
    """Return a fabric whose hash has changed and was found to, the flows before, and the load where they then led."""
    driver = hashing(small_fabric(spines=4))
    driver.feed(Submit(reply=1, request=shift_job("a", **job)))
    before, nics = list(driver.state.jobs["a"].flows.flows), driver.fabric.nic_by_id
    assert driver.hashing is not None
    driver.hashing.salt = salt
    loads: Counter[str] = Counter()
    for flow in before:
        for link in driver.hashing.path(nics[flow.src_nic], nics[flow.dst_nic], flow.udp_source_port)[1:-1]:
            loads[link] += flow.demand_bps
    driver.feed(PortsAstray(leaves=driver.fabric.leaves))
    return driver, before, max(loads.values()) / 10**9


@pytest.mark.parametrize("salt", range(1, 13))
def test_a_flow_gets_another_port_only_where_the_hash_has_led_flows_beyond_the_bound(salt):
    driver, before, fullest = rehashed(salt, ranks=4, by=2)
    job, planned = driver.state.jobs["a"], {flow.flow_id: flow for flow in before}
    assert_confirmed(driver)
    assert job.flows.own_max_link_utilisation == 1.0
    assert certificate(driver).max_link_utilisation == 1.0
    ports = {flow.flow_id: flow.udp_source_port for flow in job.flows.flows}
    moved = [name for name, flow in planned.items() if flow.udp_source_port != ports[name]]
    assert bool(moved) == (fullest > 1.0)
    assert len(moved) < len(before)
    assert job.effort.paths_confirmed == len(before)


def test_where_the_hash_leads_flows_within_the_bound_their_paths_and_certificate_are_those_seen():
    driver, before, fullest = next(found for salt in range(1, 13) if (found := rehashed(salt, ranks=4, by=2))[2] == 1.0)
    job = driver.state.jobs["a"]
    assert fullest == 1.0
    assert [flow.udp_source_port for flow in job.flows.flows] == [flow.udp_source_port for flow in before]
    assert [flow.links for flow in job.flows.flows] != [flow.links for flow in before]
    assert "flows keep their ports where the hash leads them" in job.reason
    assert "flows moved" not in job.reason
    assert (job.generation, job.effort.flows_moved, job.state) == (2, 0, "running")
    assert driver.announced[-1].generation == 2


def test_only_the_ports_of_a_suspect_leaf_are_confirmed(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.effects.clear()
    driver.feed(PortsAstray(leaves=("leaf2", "leaf9")))
    (search,) = (effect for effect in driver.effects if isinstance(effect, FindPorts))
    assert {flow.flow_id for flow in search.flows} == {"a/0/2-4/0", "a/0/3-5/0"}
    assert [note.subject for note in driver.notes if "leads elsewhere than planned" in note.text] == ["leaf2"]


def test_a_fabric_without_jobs_has_no_suspect_ports(driver):
    driver.feed(PortsAstray(leaves=("leaf1",)))
    assert not driver.effects


def test_a_link_that_changes_no_path_has_the_ports_confirmed_and_publishes_nothing(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=2, by=1)))
    driver.feed(Submit(reply=2, request=shift_job("b", ranks=4, by=2)))
    before, announced = driver.state.jobs["b"], len(driver.announced)
    driver.now += 1_000
    driver.feed(PortStatus(switch="leaf4", port=1, up=False))
    job = driver.state.jobs["b"]
    assert job.flows is before.flows
    assert len(driver.announced) == announced
    assert job.effort.oldest_confirmation_unix_ms == driver.now
    assert job.effort.paths_confirmed == 4


def test_routes_that_change_after_the_port_was_reported_have_the_ports_confirmed_again(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    driver.hashing.down = {"leaf1:1>spine1:1"}  # the routers' protocol is slower than the port
    driver.feed(Tick())
    with pytest.raises(AssertionError):
        assert_confirmed(driver)
    driver.now += driver.settings.settle_ms
    driver.feed(Tick())
    assert_confirmed(driver)
    assert driver.state.jobs["a"].flows.own_max_link_utilisation == 1.0
    before = driver.hashing.probes
    driver.now += driver.settings.settle_ms
    driver.feed(Tick())
    assert driver.hashing.probes == before
    driver.hashing.down = set()
    driver.now += driver.settings.settle_ms
    driver.feed(Tick())
    assert_confirmed(driver)
    for _ in range(8):
        driver.now += 60_000
        driver.feed(Tick())
    before = driver.hashing.probes
    driver.now += 60_000
    driver.feed(Tick())
    assert driver.hashing.probes == before


def test_silence_after_a_failure_moves_no_flow_and_is_said(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4, by=2)))
    before = driver.state.jobs["a"]
    driver.hashing.silent = {nic.ip for nic in driver.fabric.nics}
    driver.feed(PortStatus(switch="leaf4", port=1, up=False))
    job = driver.state.jobs["a"]
    assert list(job.flows.flows) == list(before.flows.flows)
    assert job.state == "running"
    assert job.effort.paths_confirmed == 0
    assert job.effort.oldest_confirmation_unix_ms == before.effort.oldest_confirmation_unix_ms


def test_a_running_flow_without_another_port_makes_its_job_degraded(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.hashing.silent = {nic.ip for nic in driver.fabric.nics}
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    job = driver.state.jobs["a"]
    assert job.state == "degraded"
    assert job.stranded > 0
    assert driver.announced[-1].certificate.paths_confirmed == 0


def test_a_released_job_leaves_nothing(driver):
    driver.hold = (FindPorts,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Release(reply=2, job_id="a"))
    driver.release_held()
    assert driver.reply_to(2) == 8
    assert not driver.state.jobs


def test_the_same_job_submitted_again_during_a_search_gets_the_same_plan(driver):
    driver.hold = (FindPorts,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Submit(reply=2, request=shift_job("a")))
    driver.release_held()
    assert driver.reply_to(1) == driver.reply_to(2)


def test_a_plan_whose_callers_have_left_during_the_search_is_dropped(driver):
    driver.hold = (FindPorts,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Withdraw(reply=1))
    driver.release_held()
    assert not driver.state.jobs
    assert driver.state.active is None


def test_a_drain_moves_flows_to_ports_that_lead_around_the_target(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Drain(reply=2, target="spine1"))
    assert driver.reply_to(2).flows_moved > 0
    assert_confirmed(driver)
    assert not any("spine1" in link for link in driver.state.jobs["a"].flows.link_loads_bps)


def test_a_dry_run_of_a_drain_sends_no_probe(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    before = driver.hashing.probes
    driver.feed(Drain(reply=2, target="spine1", dry_run=True))
    assert driver.hashing.probes == before
    assert driver.reply_to(2).flows_moved > 0


def test_flows_that_stay_keep_their_ports_when_another_job_arrives(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", by=2)))
    before = {flow.flow_id: (flow.links, flow.udp_source_port) for flow in driver.state.jobs["a"].flows.flows}
    driver.feed(Submit(reply=2, request=shift_job("b", by=4)))
    assert_confirmed(driver, "a")
    assert_confirmed(driver, "b")
    after = {flow.flow_id: (flow.links, flow.udp_source_port) for flow in driver.state.jobs["a"].flows.flows}
    assert all(before[name] == now for name, now in after.items() if now[0] == before[name][0])
    assert sum(isinstance(effect, Solve) for effect in driver.effects) == 2


def test_a_ring_of_1024_ranks_over_64_spines_is_confirmed_within_its_budget_of_probes():
    driver = hashing(small_fabric(spines=64, leaves=64, hosts_per_leaf=16))
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=1_024, by=16)))
    proof = certificate(driver)
    assert_confirmed(driver)
    assert proof.paths_confirmed == 1_024
    assert proof.max_link_utilisation == proof.lower_bound
    assert proof.probes <= 8 * 64 * 1_024


def test_where_a_hash_reaches_few_paths_flows_take_these_and_the_log_says_how_many():
    driver = hashing(small_fabric(spines=16), hashes=lambda header, seed, n: 2 * mixing(header, seed, n // 2 or 1))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert certificate(driver).paths_confirmed == 8
    assert_confirmed(driver)
    assert [note.text for note in driver.notes if "8 of 16 paths up: the hash uses few bits of the port" in note.text]
