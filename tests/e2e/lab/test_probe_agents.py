"""A job on routers that hash: agents in the hosts' namespaces find its ports for the controller, within the budgets."""

from math import ceil
from pathlib import Path

import pytest

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.config import load_fabric
from controller.model.fabric import Fabric
from mininet_topos.routed.lab import RoutedLab
from probing.search import BUDGET_FACTOR
from tests.e2e.lab.test_routed_fabric import assert_on_planned_cables, sent
from tests.support.processes.probe_agents import probe_agents, until_attached
from tests.unit.api.conftest import running

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

SHAPES = {
    "2 tiers": ("kind: spine_leaf, spines: 4, leaves: 2, hosts_per_leaf: 2", 4),
    "2 tiers, 16 NICs": ("kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 4", 4),
    "parallel cables": ("kind: spine_leaf, spines: 2, leaves: 3, hosts_per_leaf: 4, links_per_spine: 2", 4),
    "3 tiers": ("kind: clos3, pods: 2, aggs_per_pod: 2, spines: 4, leaves: 2, hosts_per_leaf: 2", 4),
}
SHORT = "2 tiers"
SWITCH_PPS = 60


@pytest.fixture
def fabric(request, tmp_path) -> Fabric:
    path = tmp_path / "fabric.yaml"
    path.write_text(f"version: 1\nname: routed\nsteering: hash\ngenerate: {{{SHAPES[request.param][0]}, gbps: 0.02}}\n")
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


@pytest.mark.parametrize(
    "fabric", [SHORT, *(pytest.param(name, marks=pytest.mark.soak) for name in SHAPES if name != SHORT)], indirect=True
)
async def test_a_job_gets_the_ports_that_lead_its_flows_over_their_planned_paths(fabric, request, tmp_path):
    ways, server = SHAPES[request.node.callspec.params["fabric"]][1], f"unix:{tmp_path}/grpc"
    with RoutedLab(fabric) as lab:
        hosts = list(lab.net.nics_of_host)
        async with running(fabric, server, probes_per_switch_pps=SWITCH_PPS) as controller:
            agents = controller.application.loop.probe_agents
            with probe_agents(lab, server, hosts) as processes:
                await until_attached(agents, hosts)
                plan, asked = await controller.jobs.SubmitJob(permutation(fabric)), errors_sent(lab)
                processes[hosts[0]].kill()
                await until_attached(agents, hosts[1:])
        flows, took_s = list(plan.flows), plan.certificate.install_ns / 1e9
        result = sent(lab, flows, {flow.flow_id: flow.udp_source_port for flow in flows})
        print(
            f"FIGURES {sum(asked.values()) / len(flows):.1f} probes a flow of {ways} paths in {took_s:.2f} s; "
            f"errors sent by each router {asked}"
        )
        assert plan.certificate.probed
        assert plan.certificate.paths_confirmed == len(flows) == len(fabric.nics)
        assert {switch: count for switch, count in asked.items() if count} == agents.replied
        assert sum(asked.values()) <= len(flows) * BUDGET_FACTOR * ways
        assert max(asked.values()) <= ceil(SWITCH_PPS * took_s) + len(flows)  # the last round is not paid back
        assert not agents.lies
        assert result.completed
        assert_on_planned_cables(lab, flows, result)
