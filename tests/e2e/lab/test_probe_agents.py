"""Agents in the hosts' namespaces and the controller find the ports of planned paths over gRPC, within the budgets."""

import asyncio
from math import ceil
from pathlib import Path

import pytest

from controller.config import load_fabric
from controller.model.fabric import Fabric
from controller.runtime.probing.finder import ProbeFinder
from mininet_topos.routed.lab import RoutedLab
from probing.search import BUDGET_FACTOR
from tests.e2e.lab.test_routed_fabric import assert_on_planned_cables, planned, sent
from tests.support.probe_agents import probe_agents, until_attached
from tests.support.probed_ports import wanted_of
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
    path.write_text(f"version: 1\nname: routed\ngenerate: {{{SHAPES[request.param][0]}, gbps: 0.02}}\n")
    return load_fabric(path)


def errors_sent(lab: RoutedLab) -> dict[str, int]:
    """Return how many time-exceeded errors the kernel of each router has sent."""
    found = {}
    for switch in lab.fabric.switches:
        text = Path(f"/proc/{lab.net.host(switch.id).pid}/net/snmp").read_text()
        names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("IcmpMsg:"))
        found[switch.id] = int(dict(zip(names, values, strict=True)).get("OutType11", 0))
    return found


@pytest.mark.parametrize(
    "fabric", [SHORT, *(pytest.param(name, marks=pytest.mark.soak) for name in SHAPES if name != SHORT)], indirect=True
)
async def test_agents_find_the_ports_of_a_planned_permutation(fabric, request, tmp_path):
    ways = SHAPES[request.node.callspec.params["fabric"]][1]
    flows, server = planned(fabric), f"unix:{tmp_path}/grpc"
    with RoutedLab(fabric) as lab:
        wanted, hosts = wanted_of(lab, flows), list(lab.net.nics_of_host)
        async with running(fabric, server) as controller:
            agents = controller.application.loop.probe_agents
            finder = ProbeFinder(agents, fabric, lab.routers.routes.link_at, switch_pps=SWITCH_PPS)
            with probe_agents(lab, server, hosts) as processes:
                await until_attached(agents, hosts)
                clock = asyncio.get_running_loop().time
                began_s = clock()
                found = await finder.find(wanted, ways)
                took_s, asked = clock() - began_s, errors_sent(lab)
                processes[hosts[0]].kill()
                await until_attached(agents, hosts[1:])
                without = await finder.find(wanted[:1], ways)
        result = sent(lab, flows, dict(found.ports))
        print(
            f"FIGURES {found.probes / len(flows):.1f} probes a flow of {ways} paths in {took_s:.2f} s; "
            f"errors sent by each router {asked}"
        )
        assert not found.missing
        assert found.probes <= len(flows) * BUDGET_FACTOR * ways
        assert {switch: count for switch, count in asked.items() if count} == agents.replied
        assert sum(asked.values()) == found.probes
        assert max(asked.values()) <= ceil(SWITCH_PPS * took_s) + len(flows)  # the last round is not paid back
        assert not agents.lies
        assert without.missing == {wanted[0].flow_id: f"no probe agent at {hosts[0]}"}
        assert result.completed
        assert_on_planned_cables(lab, flows, result)
