"""A job on routers that hash: agents in the hosts' namespaces find its ports for the controller, within the budgets."""

from collections import Counter
from contextlib import AsyncExitStack
from math import ceil
from pathlib import Path

import grpc
import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.probing.search import BUDGET_FACTOR
from heddle.v1 import heddle_pb2 as pb
from tests.e2e.lab.test_check_fabric import POLICY, set_routers
from tests.e2e.lab.test_routed_fabric import assert_on_planned_cables, sent, slowest, slowest_median
from tests.support.processes.probe_agents import probe_agents, until_attached
from tests.unit.api.conftest import running

pytestmark = pytest.mark.e2e

SHAPES = {
    "2 tiers": ("kind: spine_leaf, spines: 4, leaves: 2, hosts_per_leaf: 2, gbps: 0.02", 4),
    "8 NICs a leaf": ("kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 8, gbps: 0.008, uplink_gbps: 0.016", 4),
    "parallel": ("kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 4, links_per_spine: 2, gbps: 0.016", 4),
    "3 tiers": ("kind: clos3, pods: 2, aggs_per_pod: 2, spines: 4, leaves: 2, hosts_per_leaf: 2, gbps: 0.02", 4),
}
GOODPUT = 0.95
SHORT = "2 tiers"
SWITCH_PPS = 120
CHECK_PROBES = 330
"""The probes of a first contact with a leaf of two tiers; three have twice as many hops."""


@pytest.fixture
def fabric(request, tmp_path) -> Fabric:
    path = tmp_path / "fabric.yaml"
    path.write_text(f"version: 1\nname: routed\nsteering: hash\ngenerate: {{{SHAPES[request.param][0]}}}\n")
    return load_fabric(path)


def errors_sent(lab: RoutedLab) -> dict[str, int]:
    """Return how many time-exceeded errors the kernel of each router has sent."""
    found = {}
    for switch in lab.fabric.switches:
        text = Path(f"/proc/{lab.net.host(switch.id).pid}/net/snmp").read_text()
        names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("IcmpMsg:"))
        found[switch.id] = int(dict(zip(names, values, strict=True)).get("OutType11", 0))
    return found


def permutation(fabric: Fabric) -> pb.SubmitJobRequest:
    """Return a job in which every NIC sends at its rate to one of another leaf."""
    count = len(fabric.nics)
    flows = [
        pb.FlowDemand(src_rank=rank, dst_rank=(rank + count // 2) % count, rate_bps=nic.capacity_bps)
        for rank, nic in enumerate(fabric.nics)
    ]
    sent_once = pb.Collective(kind=pb.Collective.CUSTOM, flows=flows)
    return pb.SubmitJobRequest(job_id="routed", ranks=[nic.id for nic in fabric.nics], collectives=[sent_once])


def one_flow_of_each_leaf(fabric: Fabric) -> JobRequest:
    """Return a job that waits for the first contact with all leaves."""
    every = Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=1)
    return JobRequest(job_id="all", ranks=tuple(nic.id for nic in fabric.nics), collectives=(every,))


@pytest.mark.parametrize(
    "fabric", [SHORT, *(pytest.param(name, marks=pytest.mark.soak) for name in SHAPES if name != SHORT)], indirect=True
)
async def test_a_job_gets_the_ports_that_lead_its_flows_over_their_planned_paths(fabric, request, tmp_path):
    ways, server = SHAPES[request.node.callspec.params["fabric"]][1], f"unix:{tmp_path}/grpc"
    with RoutedLab(fabric) as lab:
        hosts = list(lab.net.nics_of_host)
        set_routers(lab, fabric.leaves[:1], POLICY, 0)
        async with (
            running(fabric, server, probes_per_switch_pps=SWITCH_PPS, samples_per_switch_pps=0) as controller,
            AsyncExitStack() as stack,
        ):
            agents = controller.application.attached.probe_agents
            processes = stack.enter_context(probe_agents(lab, server, hosts))
            await until_attached(agents, hosts)
            with pytest.raises(grpc.aio.AioRpcError, match="sends every source port of two NICs over one") as refused:
                await controller.jobs.SubmitJob(permutation(fabric))
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "fib_multipath_hash_policy=1" in refused.value.details()
            set_routers(lab, fabric.leaves[:1], POLICY, 1)
            processes[hosts[0]].kill()
            await until_attached(agents, hosts[1:])
            again = stack.enter_context(probe_agents(lab, server, hosts[:1]))
            await until_attached(agents, hosts)
            contact = controller.application.port_search.probing.first_contact
            await contact.admit(one_flow_of_each_leaf(fabric))
            before, replied = errors_sent(lab), Counter(agents.replied)
            plan, asked = await controller.jobs.SubmitJob(permutation(fabric)), errors_sent(lab)
            again[hosts[0]].kill()
            await until_attached(agents, hosts[1:])
        hops = len(plan.flows[0].links) - 2
        assert sum(before.values()) <= CHECK_PROBES * hops / 2 * (len(fabric.leaves) + 1)
        asked = {switch: asked[switch] - before[switch] for switch in asked}
        flows, took_s = list(plan.flows), plan.certificate.install_ns / 1e9
        result = sent(lab, flows, {flow.flow_id: flow.udp_source_port for flow in flows})
        print(
            f"FIGURES goodput of the slowest flow {slowest(flows, result):.3f} of its planned rate; "
            f"{sum(asked.values()) / len(flows):.1f} probes a flow of {ways} paths in {took_s:.2f} s; "
            f"errors sent by each router {asked}"
        )
        assert plan.certificate.probed
        assert plan.certificate.paths_confirmed == len(flows) == len(fabric.nics)
        assert {switch: count for switch, count in asked.items() if count} == agents.replied - replied
        assert sum(asked.values()) <= len(flows) * BUDGET_FACTOR * ways
        assert max(asked.values()) <= ceil(SWITCH_PPS * took_s) + len(flows)  # the last round is not paid back
        assert not agents.lies
        assert result.completed
        assert_on_planned_cables(lab, flows, result)
        assert all(flow.rate_bps == lab.fabric.nic_by_id[flow.src_nic].capacity_bps for flow in flows)
        assert slowest_median(flows, result) >= GOODPUT or request.node.callspec.params["fabric"] == SHORT
