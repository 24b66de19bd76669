"""Check a quiet `FaultyFabric` against independent implementations: plans, rules, paths and the states of jobs."""

from collections.abc import Mapping

import networkx

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, JobRequest
from heddle.controller.model.plan import FlowPlan, Plan
from heddle.controller.rules.listing import group_rows, rows
from heddle.testing.plans.plan_checker import check
from tests.oracles.buffer_graph import cycle
from tests.oracles.openflow_interpreter import Network
from tests.property.planner.test_planner_steering import walked
from tests.support.fabrics.faulty_fabric import FaultyFabric
from tests.support.fabrics.planning import plan_as_json


def faults(driver: FaultyFabric) -> list[str]:
    """Return what is wrong where nothing is under way; empty where all is well."""
    state = driver.state
    busy: list[object] = [state.active, state.installing, state.compiling, *state.queue, *state.parked]
    busy += [*state.previews, *state.suggestions]
    found = [f"still under way: {work}" for work in busy if work is not None]
    if state.health != driver.dead:
        found.append(f"health is {state.health}, in truth {driver.dead}")
    found += [f"{switch} does not hold the wanted rules" for switch in driver.differing()]
    found += [f"{switch} is taken to lack rules" for switch in sorted(state.lacking)]
    found += [f"{switch} is taken to lag" for switch, known in state.switches.items() if known.lagging]
    if found:
        return found
    without_path = flows_without_path(driver.fabric, state.out_of_use, driver)
    return [
        *_wrong_states(driver, without_path),
        *_wrong_paths(driver, without_path),
        *_wrong_plans(driver, without_path),
        *_unannounced(driver),
    ]


def flows_without_path(fabric: Fabric, health: Health, driver: FaultyFabric) -> set[str]:
    """Return the ids of flows whose NICs no live path up and then down joins, by networkx."""
    graph = networkx.DiGraph()
    for switch in fabric.switches:
        if switch.id not in health.down_switches:
            graph.add_edge((switch.id, "up"), (switch.id, "down"))
    for cable in fabric.cables:
        low, high = cable.lower.switch, cable.upper.switch
        if cable.id not in health.down_cables and not {low, high} & health.down_switches:
            graph.add_edge((low, "up"), (high, "up"))
            graph.add_edge((high, "down"), (low, "down"))
    leaf = {nic.id: nic.port.switch for nic in fabric.nics}
    reach = {start: networkx.descendants(graph, (start, "up")) for start in leaf.values() if (start, "up") in graph}

    def joined(flow: FlowPlan) -> bool:
        if {flow.src_nic, flow.dst_nic} & health.down_nics:
            return False
        return (leaf[flow.dst_nic], "down") in reach.get(leaf[flow.src_nic], ())

    return {flow.flow_id for job in driver.state.jobs.values() for flow in job.flows.flows if not joined(flow)}


def _wrong_states(driver: FaultyFabric, without_path: set[str]) -> list[str]:
    found = []
    for job_id, job in driver.state.jobs.items():
        stranded = sum(flow.flow_id in without_path for flow in job.flows.flows)
        if job.stranded != stranded:
            found.append(f"{job_id}: {job.stranded} flows without a path, in truth {stranded}")
        slower = job.healthy_utilisation is not None
        if slower and (
            (driver.state.health == driver.fabric.failed and not driver.state.bad_cables)
            or job.flows.own_max_link_utilisation <= (job.healthy_utilisation or 0)
        ):
            found.append(f"{job_id}: degraded, but no failure raises its fullest link")
        if job.state != ("degraded" if stranded or slower else "running"):
            found.append(f"{job_id} is {job.state}: {job.reason}")
    return found


def _dead_links(fabric: Fabric, health: Health) -> set[str]:
    found = set()
    for cable in fabric.cables:
        if cable.id in health.down_cables or {cable.lower.switch, cable.upper.switch} & health.down_switches:
            found |= {cable.up_link, cable.down_link}
    return found


def _wrong_paths(driver: FaultyFabric, without_path: set[str]) -> list[str]:
    """Return the streams on dead links, those whose packets leave their planned links, and cycles of buffers."""
    fabric, dead, found = driver.fabric, _dead_links(driver.fabric, driver.state.out_of_use), []
    network = Network(fabric, rows(fabric, driver.held), group_rows(fabric, driver.held), driver.dead.down_cables)
    if circle := cycle(fabric, network):
        found.append(f"buffers wait for each other: {circle}")
    for job in driver.state.jobs.values():
        for flow in job.flows.flows:
            if flow.flow_id in without_path:
                continue
            forth = (flow.src_nic, flow.dst_nic, flow.udp_source_port, flow.links)
            back = (flow.dst_nic, flow.src_nic, flow.reverse_udp_source_port, flow.reverse_links)
            for what, (source, target, port, links) in (("data", forth), ("ACKs", back)):
                if not dead.isdisjoint(links):
                    found.append(f"{what} of {flow.flow_id} on dead links: {links}")
                elif (taken := walked(fabric, network, source, target, port)) != links:
                    found.append(f"{what} of {flow.flow_id}, port {port}, take {taken}, planned are {links}")
    return found


def _wrong_plans(driver: FaultyFabric, without_path: set[str]) -> list[str]:
    jobs = driver.state.jobs.values()
    plan = plan_as_json(Plan(jobs=tuple(job.flows for job in jobs), certificate=driver.state.certificate))
    file = {"version": 1, "jobs": [_job_as_file(job.request) for job in jobs]}
    kept = {flow.flow_id for job in jobs for flow in job.flows.flows}
    left = {name: bad.left_bps for name, bad in driver.state.bad_cables.items()}
    return check(fabric_as_file(driver.fabric, driver.state.out_of_use, left), file, plan, kept, without_path)


def fabric_as_file(fabric: Fabric, health: Health, left_bps: Mapping[str, int] | None = None) -> dict:
    """Return the fabric file of a fabric with failures, in which bad cables have the rates that they have left."""
    hosts: dict[str, list] = {}
    for nic in fabric.nics:
        port = f"{nic.port.switch}:{nic.port.number}"
        hosts.setdefault(nic.host, []).append({"id": nic.id, "port": port, "gbps": nic.capacity_bps / 10**9})
    links = [
        {
            "a": f"{cable.lower.switch}:{cable.lower.number}", "b": f"{cable.upper.switch}:{cable.upper.number}",
            "gbps": (left_bps or {}).get(cable.id, cable.capacity_bps) / 10**9,
        }
        for cable in fabric.cables
    ]  # fmt: skip
    return {
        "version": 1,
        "name": fabric.name,
        "switches": [{"id": switch.id, "role": switch.role.value} for switch in fabric.switches],
        "links": links,
        "hosts": [{"id": host, "nics": nics} for host, nics in hosts.items()],
        "failed": sorted(health.down_cables | health.down_switches | health.down_nics),
    }


def _job_as_file(request: JobRequest) -> dict:
    return {
        "job_id": request.job_id,
        "ranks": list(request.ranks),
        "priority": request.priority,
        "steering": request.steering.name,
        "incast": request.incast.name,
        "collectives": [_collective_as_file(one) for one in request.collectives],
    }


def _collective_as_file(one: Collective) -> dict:
    return {
        "kind": one.kind.name,
        "phase": one.phase,
        "qps_per_flow": one.qps_per_flow,
        "root": one.root,
        "members": list(one.members),
        "pairs": [pair._asdict() for pair in one.pairs],
        "flows": [flow._asdict() for flow in one.flows],
    }


def _unannounced(driver: FaultyFabric) -> list[str]:
    """Return the jobs whose newest announced generation is not what they have."""
    newest = {plan.job_id: plan for plan in driver.announced}
    return [
        f"{job_id}: generation {job.generation} ({job.state}) was not announced"
        for job_id, job in driver.state.jobs.items()
        if (plan := newest.get(job_id)) is None
        or (plan.generation, plan.state, list(plan.flows.flows)) != (job.generation, job.state, list(job.flows.flows))
    ]
