"""Whether running flows keep their paths in another fabric, by ports alone and as the rules of that fabric forward."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.brain.intent import pin_rules_of
from heddle.controller.brain.state import Job
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, Steering
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import Plan
from heddle.controller.model.rule import SwitchRules
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ports.reading import reader_of
from heddle.controller.planner.solve import solve
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.listing import group_rows, rows
from heddle.controller.runtime.journal import jobs
from tests.oracles.openflow_interpreter import Network, roce
from tests.support.examples import examples
from tests.unit.rules.builders import GBPS, clos3, spine_leaf
from tests.unit.rules.strategies import fabrics, irregular


def job_of(fabric: Fabric, pairs, steering: Steering) -> Job | None:
    """Plan a job of these pairs of NICs, two queue pairs each; None where there is no plan."""
    flows = tuple(FlowDemand(src_rank=a, dst_rank=b) for a, b in pairs)
    collective = Collective(kind=CollectiveKind.CUSTOM, flows=flows, qps_per_flow=2)
    ranks = tuple(nic.id for nic in fabric.nics)
    request = JobRequest(job_id="job", ranks=ranks, collectives=(collective,), steering=steering)
    plan = solve(fabric, [request], health=Health())
    if not isinstance(plan, Plan):
        return None
    return Job(
        request=request, number=1, generation=1, state=JobState.RUNNING, reason="", lease_expires_unix_ms=0,
        flows=plan.jobs[0],
    )  # fmt: skip


def continued(job: Job, before: Fabric, after: Fabric) -> Job:
    """Return a job as a journal hands it to a controller with another fabric."""
    then, now = topology_of(before), topology_of(after)
    return jobs.decode(now, jobs.encode(then, job), jobs.renumbering(now, then.cable_ids))


def strayed(fabric: Fabric, job: Job) -> list[bool]:
    reader = reader_of(fabric, topology_of(fabric), layout_of(fabric))
    return steering_of(fabric).strayed(reader, job).tolist()


def off_their_paths(fabric: Fabric, job: Job) -> list[bool]:
    """Return which flows, or their ACKs, the rules of a fabric lead elsewhere: a packet each, sent through them."""
    compiled = dict(compile_fabric(fabric, layout_of(fabric)))
    for switch, pins in pin_rules_of(fabric, job.request, job.flows, 1).items():
        held = compiled[switch]
        compiled[switch] = SwitchRules(rules=held.rules + pins, groups=held.groups)
    network = Network(fabric, rows(fabric, compiled), group_rows(fabric, compiled))
    wires = {cable.lower: cable.up_link for cable in fabric.cables}
    wires |= {cable.upper: cable.down_link for cable in fabric.cables}
    wires |= {nic.port: nic.down_link for nic in fabric.nics}

    def is_off(source: str, target: str, port: int, links: tuple[str, ...]) -> bool:
        start, end = fabric.nic_by_id[source], fabric.nic_by_id[target]
        journey = network.send(source, roce(start.ip, end.ip, port))
        taken = (start.up_link, *(wires[PortRef(switch, number)] for switch, number in journey.hops))
        return journey.nic != target or taken != links

    return [
        is_off(flow.src_nic, flow.dst_nic, flow.udp_source_port, flow.links)
        or is_off(flow.dst_nic, flow.src_nic, flow.reverse_udp_source_port, flow.reverse_links)
        for flow in job.flows.flows
    ]


@st.composite
def pairs_of(draw, fabric: Fabric):
    rank = st.integers(0, len(fabric.nics) - 1)
    pair = st.tuples(rank, rank).filter(lambda pair: pair[0] != pair[1])
    return draw(st.lists(pair, min_size=1, max_size=10))


@st.composite
def changed(draw, fabric: Fabric, used: frozenset[str]) -> Fabric:
    """Return a fabric with other rates, with cables and switches more, without unused cables, with a NIC elsewhere."""
    kinds = draw(st.lists(st.sampled_from(["rate", "cable", "switch", "removed", "nic"]), max_size=3))
    for kind in kinds:
        fabric = {"rate": rated, "cable": cabled, "switch": grown, "removed": reduced, "nic": moved}[kind](
            draw, fabric, used
        )
    return replace(fabric, cables=tuple(draw(st.permutations(fabric.cables))))


def rated(draw, fabric: Fabric, used: frozenset[str]) -> Fabric:
    slower = draw(st.lists(st.sampled_from(fabric.cables), min_size=1, max_size=3)) if fabric.cables else []
    bps = draw(st.sampled_from([50, 100, 400])) * GBPS
    cables = (replace(each, capacity_bps=bps) if each in slower else each for each in fabric.cables)
    return replace(fabric, cables=tuple(cables))


def cabled(draw, fabric: Fabric, used: frozenset[str]) -> Fabric:
    lower = draw(st.sampled_from(fabric.switches))
    uppers = [each for each in fabric.switches if each.role.tier > lower.role.tier]
    return wired(fabric, lower, [draw(st.sampled_from(uppers))]) if uppers else fabric


def grown(draw, fabric: Fabric, used: frozenset[str]) -> Fabric:
    """Add a leaf to every switch of the tier above leaves, or a spine or core to all below the top."""
    tiers = {each.role.tier for each in fabric.switches}
    number = len(fabric.switches) + 1
    if draw(st.booleans()):
        leaf = Switch(id=f"new{number}", role=Role.LEAF, datapath_id=number)
        fabric = replace(fabric, switches=(*fabric.switches, leaf))
        return wired(fabric, leaf, [each for each in fabric.switches if each.role.tier == min(tiers - {0}, default=9)])
    top = Switch(id=f"new{number}", role=Role.SPINE, datapath_id=number)
    below = [each for each in fabric.switches if each.role.tier == max(tiers - {2}, default=9)]
    fabric = replace(fabric, switches=(*fabric.switches, top))
    for each in below:
        fabric = wired(fabric, each, [top])
    return fabric


def wired(fabric: Fabric, lower: Switch, uppers: list[Switch]) -> Fabric:
    for upper in uppers:
        ends = (PortRef(lower.id, free_port(fabric, lower.id)), PortRef(upper.id, free_port(fabric, upper.id)))
        cable = Cable(lower=ends[0], upper=ends[1], capacity_bps=100 * GBPS)
        fabric = replace(fabric, cables=(*fabric.cables, cable))
    return fabric


def free_port(fabric: Fabric, switch: str) -> int:
    taken = {port.number for port in (*fabric.cable_by_port, *fabric.nic_by_port) if port.switch == switch}
    return next(number for number in range(1, 10_000) if number not in taken)


def reduced(draw, fabric: Fabric, used: frozenset[str]) -> Fabric:
    spare = [cable for cable in fabric.cables if used.isdisjoint((cable.up_link, cable.down_link))]
    gone = draw(st.sampled_from(spare)) if spare else None
    return replace(fabric, cables=tuple(cable for cable in fabric.cables if cable is not gone))


def moved(draw, fabric: Fabric, used: frozenset[str]) -> Fabric:
    nic, leaf = draw(st.sampled_from(fabric.nics)), draw(st.sampled_from(fabric.leaves))

    def placed(each: Nic) -> Nic:
        return replace(each, port=PortRef(leaf, free_port(fabric, leaf))) if each is nic else each

    return replace(fabric, nics=tuple(map(placed, fabric.nics)))


@given(data=st.data(), fabric=st.one_of(fabrics(), irregular()).filter(lambda fabric: len(fabric.nics) > 1))
@settings(max_examples=examples(80), deadline=None)
def test_flows_stray_where_rules_of_another_fabric_lead_their_packets_elsewhere_and_no_others_if_even(data, fabric):
    job = job_of(fabric, data.draw(pairs_of(fabric)), Steering.SOURCE_PORT)
    if job is None:
        return
    used = frozenset(link for flow in job.flows.flows for link in (*flow.links, *flow.reverse_links))
    other = data.draw(changed(fabric, used))
    kept = continued(job, fabric, other)
    off, found = off_their_paths(other, kept), strayed(other, kept)
    assert all(seen or not is_off for is_off, seen in zip(off, found, strict=True)), "none is missed"
    assert found == off or not is_even(other)


def is_even(fabric: Fabric) -> bool:
    """Return whether the switches above each switch have the same leaves below: else rules lead some ports around."""
    return all(
        len({fabric.leaves_below[cable.upper.switch] for cable in choices}) < 2
        for choices in fabric.up_choices.values()
    )


@given(data=st.data(), fabric=fabrics().filter(lambda fabric: len(fabric.nics) > 1))
@settings(max_examples=examples(20), deadline=None)
def test_no_pinned_flow_that_its_pins_lead_elsewhere_is_missed(data, fabric):
    job = job_of(fabric, data.draw(pairs_of(fabric)), Steering.PIN)
    if job is None:
        return
    used = frozenset(link for flow in job.flows.flows for link in (*flow.links, *flow.reverse_links))
    other = data.draw(changed(fabric, used))
    kept = continued(job, fabric, other)
    off, found = off_their_paths(other, kept), strayed(other, kept)
    assert all(seen or not is_off for is_off, seen in zip(off, found, strict=True))


def test_data_of_pinned_flows_does_not_stray_with_its_port():
    """Both directions of each pair are pinned; with one spine more the ports alone would lead elsewhere."""
    fabric, more = spine_leaf(4, 2), spine_leaf(4, 2)
    for leaf in ("leaf1", "leaf2"):
        more = wired(more, more.switch_by_id[leaf], [more.switch_by_id["spine1"]])
    there_and_back = [(0, 2), (2, 0), (1, 3), (3, 1)]
    pinned = job_of(fabric, there_and_back, Steering.PIN)
    by_port = job_of(fabric, there_and_back, Steering.SOURCE_PORT)
    assert pinned is not None
    assert by_port is not None
    assert not any(strayed(more, continued(pinned, fabric, more)))
    assert any(strayed(more, continued(by_port, fabric, more)))


def test_a_flow_without_a_path_does_not_stray_while_its_job_says_that_it_is_stranded():
    fabric = spine_leaf(2, 2)
    job = job_of(fabric, [(0, 2)], Steering.SOURCE_PORT)
    assert job is not None
    table = job.flows.flows
    assert isinstance(table, FlowTable)
    none = np.full_like(table.hops, -1)
    paths = replace(table.paths, hops=none, reverse_hops=none)
    lost = replace(job, flows=replace(job.flows, flows=FlowTable(table.topology, table.request, paths, table.rates)))
    assert not any(strayed(fabric, replace(lost, stranded=len(table))))
    assert all(strayed(fabric, lost))


def test_a_cable_that_lets_an_agg_turn_down_earlier_takes_flows_off_their_way_over_a_core():
    fabric = clos3(pods=2, leaves=1, aggs=1, cores_per_agg=1, nics_per_leaf=1)
    job = job_of(fabric, [(1, 0)], Steering.SOURCE_PORT)
    assert job is not None
    ends = [fabric.switch_by_id[name] for name in ("pod1-leaf1", "pod2-agg1")]
    shortcut = wired(fabric, ends[0], [ends[1]])
    kept = continued(job, fabric, shortcut)
    assert strayed(shortcut, kept) == off_their_paths(shortcut, kept) == [True, True]


def uneven() -> Fabric:
    """Return three tiers: a cable of a core is the second of three to one leaf, and the second of two to another."""
    whole = clos3(pods=2, leaves=2, aggs=3, cores_per_agg=1, nics_per_leaf=1, meshed=True)
    left_out = ("pod1-leaf2", "pod1-agg3")
    return replace(
        whole, cables=tuple(each for each in whole.cables if (each.lower.switch, each.upper.switch) != left_out)
    )


@pytest.mark.parametrize("fabric", [spine_leaf(3, 2, 2, gbps=(100, 50)), uneven()], ids=["uneven rates", "uneven pods"])
def test_any_port_strays_or_not_as_the_rules_have_it(fabric):
    """Also ports that no plan has: those of surplus blocks, and of the upper part of home blocks."""
    everyone = range(len(fabric.nics))
    job = job_of(fabric, [(a, b) for a in everyone for b in everyone if a != b] * 4, Steering.SOURCE_PORT)
    assert job is not None
    assert not any(strayed(fabric, job))
    table = job.flows.flows
    assert isinstance(table, FlowTable)
    other = table.with_ports({row: 0xC000 + row * 613 % (1 << 14) for row in range(len(table))})
    changed_ports = replace(job, flows=replace(job.flows, flows=other))
    found = strayed(fabric, changed_ports)
    assert found == off_their_paths(fabric, changed_ports)
    assert len(set(found)) == 2
