"""Packets with planned ports take the planned paths through the compiled rules, run by an independent interpreter."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.plan import FlowPlan, Plan
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ports.steering import path_of_port, port_of_path
from heddle.controller.planner.solve import solve
from heddle.controller.rules.compile import WHOLE, compile_fabric
from heddle.controller.rules.listing import group_rows, rows
from tests.oracles.openflow_interpreter import Network, roce
from tests.support.examples import examples
from tests.unit.rules.builders import clos3
from tests.unit.rules.strategies import fabrics, failures, irregular


def plan_of(fabric: Fabric, health: Health, pairs: list[tuple[int, int]]) -> Plan | None:
    flows = tuple(FlowDemand(src_rank=a, dst_rank=b) for a, b in pairs)
    collective = Collective(kind=CollectiveKind.CUSTOM, flows=flows, qps_per_flow=2)
    request = JobRequest(job_id="job", ranks=tuple(nic.id for nic in fabric.nics), collectives=(collective,))
    plan = solve(fabric, [request], health=health)
    return plan if isinstance(plan, Plan) else None


def walked(fabric: Fabric, network: Network, source: str, target: str, port: int) -> tuple[str, ...]:
    """Return the links of a packet from its source NIC to the end of its path."""
    start, end = fabric.nic_by_id[source], fabric.nic_by_id[target]
    journey = network.send(source, roce(start.ip, end.ip, port))
    wires = {cable.lower: cable.up_link for cable in fabric.cables}
    wires |= {cable.upper: cable.down_link for cable in fabric.cables}
    wires |= {nic.port: nic.down_link for nic in fabric.nics}
    return (start.up_link, *(wires[switch, port] for switch, port in journey.hops))  # type: ignore[index]


def check_flow(fabric: Fabric, network: Network, flow: FlowPlan) -> None:
    assert walked(fabric, network, flow.src_nic, flow.dst_nic, flow.udp_source_port) == flow.links
    back = walked(fabric, network, flow.dst_nic, flow.src_nic, flow.reverse_udp_source_port)
    assert back == flow.reverse_links


def check_plan(fabric: Fabric, health: Health, plan: Plan) -> None:
    compiled = compile_fabric(fabric, layout_of(fabric), health)
    network = Network(
        fabric, rows(fabric, compiled), group_rows(fabric, compiled), health.down_cables, health.down_switches
    )
    for flow in plan.jobs[0].flows:
        check_flow(fabric, network, flow)


def some_pairs(fabric: Fabric) -> st.SearchStrategy[list[tuple[int, int]]]:
    rank = st.integers(0, len(fabric.nics) - 1)
    return st.lists(st.tuples(rank, rank).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=12)


@given(data=st.data(), fabric=st.one_of(fabrics(), irregular()).filter(lambda fabric: len(fabric.nics) > 1))
@settings(max_examples=examples(80))
def test_every_planned_port_steers_along_its_path(data, fabric):
    health = data.draw(st.one_of(st.just(WHOLE), failures(fabric)))
    plan = plan_of(fabric, health, data.draw(some_pairs(fabric)))
    if plan is not None:
        check_plan(fabric, health, plan)


def test_a_core_steers_to_leaves_below_different_aggs_of_a_pod():
    """A cable of such a core is the second of three on the way to one leaf, and the second of two to another."""
    whole = clos3(pods=2, leaves=2, aggs=3, cores_per_agg=1, nics_per_leaf=3, meshed=True)
    left_out = ("pod1-leaf2", "pod1-agg3")
    cables = tuple(cable for cable in whole.cables if (cable.lower.switch, cable.upper.switch) != left_out)
    fabric = replace(whole, cables=cables)
    everyone = range(len(fabric.nics))
    plan = plan_of(fabric, WHOLE, [(a, b) for a in everyone for b in everyone if a != b])
    assert plan is not None
    check_plan(fabric, WHOLE, plan)


@given(data=st.data(), fabric=fabrics().filter(lambda fabric: len(fabric.nics) > 1))
@settings(max_examples=examples(40))
def test_port_and_path_are_inverse_in_a_healthy_fabric(data, fabric):
    layout = layout_of(fabric)
    plan = plan_of(fabric, Health(), data.draw(some_pairs(fabric)))
    assert plan is not None
    for flow in plan.jobs[0].flows:
        assert path_of_port(fabric, layout, flow.src_nic, flow.dst_nic, flow.udp_source_port) == flow.links
        spare = flow.udp_source_port & ((1 << layout.spare_bits) - 1)
        assert port_of_path(fabric, layout, flow.links, spare) == flow.udp_source_port
