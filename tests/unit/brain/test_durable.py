"""What a restart reads from the journal: the jobs as they were, and nothing to send to switches that hold it."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_network
from typing import Any

import pytest

from heddle.controller.brain import durable
from heddle.controller.brain.begin import begin
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.virtual_networks import Gateway
from heddle.controller.model.effect import Install, Persist
from heddle.controller.model.event import Drain, PortStatus, Release, Renew, Submit, SwitchUp
from heddle.controller.model.job import Steering
from heddle.controller.model.job_state import JobState
from heddle.controller.model.network_event import ApplyBorder, ApplyLoadBalancer, ApplyPeering, ApplyVpc, GatewayUp
from heddle.controller.model.plan import JobPlan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.runtime.journal import jobs, values
from heddle.dataplane.config.balancers import BackEnd, HealthCheck, LoadBalancer
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import (
    BorderRule,
    DirectConnect,
    Direction,
    Endpoint,
    FloatingIp,
    GatewayPort,
    Peering,
    Protocol,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.foundation.network import Network
from tests.unit.brain.driver import Driver, shift_job, small_fabric

V6 = IPv6Address("fd01::1")
JOURNALED = Settings(is_journaled=True)


def running(**more) -> Driver:
    driver = Driver(small_fabric(), settings=JOURNALED, **more)
    driver.connect_all()
    return driver


def written(driver: Driver) -> dict[str, dict[str, object]]:
    """Return what the journal holds after all effects, encoded and decoded again."""
    topology, held = topology_of(driver.fabric), {}
    for effect in driver.effects:
        if isinstance(effect, Persist):
            held |= effect.values
    found: dict[str, dict[str, object]] = {}
    for (kind, name), value in held.items():
        if value is None:
            continue
        if kind == "job":
            value = jobs.decode(topology, jobs.encode(topology, value), None)
        else:
            value = values.decode(durable.TYPES[kind], values.encode(value))
        found.setdefault(kind, {})[name] = value
    return found


PORTS = (
    GatewayPort(
        name="wan", address=IPv4Address("192.0.2.253"), network=IPv4Network("192.0.2.0/24"),
        router=IPv4Address("192.0.2.254"),
    ),
    GatewayPort(name="provider", address=IPv4Address("10.8.0.1")),
)  # fmt: skip


def with_networks() -> Driver:
    driver = running()
    driver.feed(
        GatewayUp(reply=9, session=1, gateway_id="gw", vtep=IPv4Address("10.9.0.1"), host_vtep=None, ports=PORTS)
    )
    driver.feed(GatewayUp(reply=9, session=2, gateway_id="h1", vtep=IPv4Address("10.0.0.1"), kind=Kind.HOST))
    for number, name in enumerate(("blue", "red"), 1):
        driver.feed(ApplyVpc(reply=number, vpc=vpc(name, number), vteps=frozenset({IPv4Address("10.0.0.1")})))
    pools = {"blue": (IPv4Address("10.1.0.99"), IPv6Address("fd01::99"))}
    driver.feed(
        GatewayUp(
            reply=9, session=3, gateway_id="lb", vtep=IPv4Address("10.9.0.2"), kind=Kind.BALANCER, pools=pools,
        )
    )  # fmt: skip
    back_end = BackEnd(ip=IPv4Address("10.1.0.5"), port=80, weight=2)
    wanted = LoadBalancer(
        id="web", vpc="blue", vip=IPv4Address("10.1.0.50"), port=80, back_ends=(back_end,), health=HealthCheck(),
    )  # fmt: skip
    driver.feed(ApplyLoadBalancer(reply=5, balancer=wanted))
    driver.feed(ApplyPeering(reply=3, peering=Peering(a="blue", b="red")))
    rule = BorderRule(allow=True, vpc="*", realm=Network.STORAGE, remote=ip_network("fd00::/16"), protocol=Protocol.TCP)
    driver.feed(ApplyBorder(reply=4, rules=(rule,)))
    return driver


def vpc(name: str, number: int) -> Vpc:
    """Return a VPC with a value in each field."""
    prefix = ip_network(f"10.{number}.0.0/16")
    return Vpc(
        id=name,
        tenant="t",
        vni=number,
        subnets=(Subnet(prefix=prefix, gateway=prefix[1]), Subnet(prefix=ip_network("fd01::/64"), gateway=V6)),
        endpoints=(Endpoint(ip=prefix[5], mac=0x020000000005, vtep=IPv4Address("10.0.0.1")),),
        rules=(SecurityRule(allow=False, direction=Direction.IN, remote=prefix, port_min=5, port_max=9),),
        nat=IPv4Address("192.0.2.1"),
        direct_connects=(DirectConnect(vlan=number, customer=ip_network("172.16.0.0/12"), next_hop=prefix[9]),),
        floating_ips=(
            FloatingIp(public=IPv4Address(f"192.0.2.{number + 9}"), endpoint=IPv4Address(f"10.{number}.0.5")),
        ),
        realm=Network.STORAGE,
    )


def restarted(before: Driver, **ports: dict[int, bool]) -> Driver:
    driver = Driver(before.fabric, settings=JOURNALED, now=before.now + 1_000)
    driver.state = durable.restored(begin(before.fabric, JOURNALED, driver.now), written(before), driver.now)
    driver.held = dict(before.held)
    for switch in driver.fabric.switches:
        up = dict.fromkeys(ports.get(switch.id, ()), False)
        driver.feed(SwitchUp(switch=switch.id, ports=up, installed=driver.held[switch.id]))
    return driver


@pytest.mark.parametrize("steering", list(Steering))
def test_a_restart_has_the_same_jobs_and_sends_no_rule(steering):
    before = running()
    for number, name in enumerate(("a", "b", "c"), 1):
        before.feed(Submit(reply=number, request=shift_job(name, by=number + 1, steering=steering)))
    before.feed(Renew(reply=4, job_id="b", lease_ms=77_000))
    before.feed(Release(reply=5, job_id="a"))
    after = restarted(before)
    assert not [effect for effect in after.effects if isinstance(effect, Install)]
    assert list(after.state.jobs) == ["b", "c"]
    for name, job in after.state.jobs.items():
        was = before.state.jobs[name]
        lease_ms = 77_000 if name == "b" else JOURNALED.default_lease_ms
        began = after.now  # leases begin again in full
        assert job == replace(was, lease_expires_unix_ms=began + lease_ms), name
        assert job.flows.link_loads_bps == was.flows.link_loads_bps
    assert after.state.certificate == before.state.certificate
    assert after.state.next_job_number == before.state.next_job_number


def test_failures_and_drains_are_known_before_the_first_switch_connects():
    before = running()
    before.feed(Submit(reply=1, request=shift_job("a")))
    before.feed(PortStatus(switch="leaf1", port=1, up=False))
    before.feed(PortStatus(switch="spine1", port=1, up=False))
    before.feed(Drain(reply=2, target="leaf2:2>spine2:2"))
    after = restarted(before, leaf1={1: False}, spine1={1: False})
    assert not [effect for effect in after.effects if isinstance(effect, Install)]
    assert (after.state.health, after.state.drained) == (before.state.health, before.state.drained)
    assert after.state.jobs["a"].flows.flows == before.state.jobs["a"].flows.flows


def test_a_job_is_written_when_its_switches_have_acknowledged_it_and_before_its_caller_learns():
    driver = running(hold=(Install,))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert "job" not in written(driver)
    driver.release_held()
    assert list(written(driver)["job"]) == ["a"]
    kinds = [type(effect).__name__ for effect in driver.effects]
    assert kinds.index("Persist") < kinds.index("Reply")
    assert isinstance(driver.reply_to(1), JobPlan)


def test_a_job_of_which_nothing_durable_has_changed_is_not_written_again():
    driver = running()
    driver.feed(Submit(reply=1, request=shift_job("a")))
    before = driver.state
    job = before.jobs["a"]
    same = replace(before, jobs={"a": replace(job, lease_expires_unix_ms=job.lease_expires_unix_ms + 1)})
    assert durable.changes(before, same) == ()
    durables: dict[str, Any] = {
        "request": replace(job.request, priority=3), "number": 9, "generation": 9, "state": JobState.DEGRADED,
        "reason": "x", "lease_ms": 9, "effort": replace(job.effort, probes=9), "stranded": 9,
        "healthy_utilisation": 0.5, "flows": replace(job.flows),
    }  # fmt: skip
    for name, value in durables.items():
        changed = replace(job, **{name: value})
        (persist,) = durable.changes(before, replace(before, jobs={"a": changed}))
        assert persist.values == {("job", "a"): changed}


def test_pins_of_a_job_that_was_never_acknowledged_are_removed_at_once():
    before = running()
    before.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    held = dict(before.held)
    before.effects = [effect for effect in before.effects if not isinstance(effect, Persist)]
    after = restarted(before)
    assert after.held != held
    assert not after.differing()


def test_networks_are_as_before_and_their_generations_go_on_above_what_gateways_run():
    before = with_networks()
    after = restarted(before)
    assert before.state.networks.generation
    gateway, known = Gateway(vtep=IPv4Address("10.9.0.1"), ports=PORTS), before.state.networks.gateways
    assert before.state.networks.known_since
    assert before.state.networks.has_border
    detached = {"gw": gateway} | {name: replace(known[name], session=None) for name in ("h1", "lb")}
    assert after.state.networks == replace(before.state.networks, gateways=detached, waiting=())
    assert after.state.networks.load_balancers
    lost = before.state.networks.generation + 3  # published, and not written when the controller was killed
    up = GatewayUp(reply=9, session=1, gateway_id="gw", vtep=gateway.vtep, host_vtep=None, generation=lost)
    after.feed(up)
    assert after.state.networks.generation > lost


def test_paths_stay_where_a_fabric_file_lists_cables_in_another_order_and_has_more():
    before = running()
    for number, steering in enumerate(Steering):
        before.feed(Submit(reply=number, request=shift_job(f"job{number}", by=number + 2, steering=steering)))
    then, now = topology_of(before.fabric), small_fabric(spines=3)
    cables = tuple(reversed(now.cables))
    grown = topology_of(replace(now, cables=cables, nics=before.fabric.nics))
    renumbered = jobs.renumbering(grown, then.cable_ids)
    for job in before.state.jobs.values():
        moved = jobs.decode(grown, jobs.encode(then, job), renumbered)
        assert [flow.links for flow in moved.flows.flows] == [flow.links for flow in job.flows.flows]
        assert [flow.reverse_links for flow in moved.flows.flows] == [flow.reverse_links for flow in job.flows.flows]


def test_a_path_over_a_cable_that_the_fabric_file_lacks_is_refused():
    before = running()
    before.feed(Submit(reply=1, request=shift_job("a")))
    then, job = topology_of(before.fabric), before.state.jobs["a"]
    used = next(link for flow in job.flows.flows for link in flow.links if link in before.fabric.cable_by_link)
    cables = tuple(cable for cable in before.fabric.cables if cable is not before.fabric.cable_by_link[used])
    smaller = topology_of(replace(before.fabric, cables=cables))
    with pytest.raises(jobs.ForeignFabricError, match="job a has paths over a cable"):
        jobs.decode(smaller, jobs.encode(then, job), jobs.renumbering(smaller, then.cable_ids))
