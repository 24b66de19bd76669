"""Random faults on a lab: jobs, cuts, flaps, drains, restarts of switches and controller, and loss of the broker.

After each quiet period the rules that Open vSwitch holds are those of the plans, every plan passes the independent
checker, and packets of the NICs reach exactly the NICs that networkx finds. `-rP` prints the steps.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import networkx
import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import Cable
from heddle.controller.model.health import Health
from heddle.controller.model.rule import Match, SwitchRules
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.listing import group_rows, rows
from heddle.controller.rules.pins import is_pin
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.testing.plans.plan_checker import check
from heddle.v1 import heddle_pb2 as pb
from tests.oracles.openflow_interpreter import Network
from tests.property.planner.test_planner_steering import walked
from tests.support.controllers.controller_process import Controller
from tests.support.fabrics.ovs_rules import read_rules
from tests.support.fabrics.planning import CERTIFICATE_FIELDS, FLOW_FIELDS
from tests.support.fabrics.quiet_fabric import fabric_as_file
from tests.support.processes.lab_agent import lab_agent
from tests.support.processes.mosquitto import Mosquitto, mosquitto

pytestmark = pytest.mark.e2e  # it measures no rate: beside other tests it only takes longer

FABRIC = "version: 1\nname: chaos\ngenerate: {kind: spine_leaf, spines: 2, leaves: 3, hosts_per_leaf: 2, gbps: 0.02}\n"
CONFIG = (
    "port_hold_ms: 50\npin_grace_ms: 1000\naudit_ms: 1000\ntelemetry: {{broker: '127.0.0.1:{port}', period_ms: 200}}\n"
)
TIMEOUT_S = 30.0
POLL_S = 0.1
STEPS_PER_QUIET = 6
NO_PATH_S = 3.0
"""NICs without a path are given up after so long; the others' packets take milliseconds, more on a busy machine."""
PACKET_BYTES = 4096
RATE_BPS = 1_000_000
REFUSALS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND)


class Site:
    """A lab, its controller and its broker, with what is true of them: cut cables, drains, jobs that hold paths."""

    def __init__(self, lab: Lab, path: Path, broker: Mosquitto, seed: int) -> None:
        self.lab, self.fabric, self._broker = lab, lab.fabric, broker
        self._path, self.drawn = path, random.Random(seed)
        self._more = ("--config", str(path.with_name("heddle.yaml")))
        self.controller = Controller(path, more=self._more)
        lab.connect_controller(self.controller.openflow_port)
        self.controller.wait_for_rules()
        self.cut: set[str] = set()
        self.drained: set[str] = set()
        self.jobs: dict[str, pb.SubmitJobRequest] = {}
        self.steps: list[str] = []
        self._left: list[Callable[[Site], str | None]] = []
        self._arrivals = 0

    def step(self) -> None:
        """Let something happen: all that may, in any order, before anything happens again."""
        if not self._left:
            self._left = self.drawn.sample(ACTS, len(ACTS))
        act = self._left.pop()
        self.steps.append(f"{act.__name__.strip('_')} {act(self) or ''}".strip())

    def _call(self, method: Callable[..., object], request: object) -> str:
        """Call the controller; return why it refuses, if it does."""
        try:
            method(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() not in REFUSALS:
                raise
            return f"refused: {error.details()}"
        return ""

    def _a_job_arrives(self) -> str:
        nics = [nic.id for nic in self.fabric.nics]
        ranks = self.drawn.sample(nics, self.drawn.randint(2, len(nics)))
        shift = self.drawn.randrange(1, len(ranks))
        pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + shift) % len(ranks)) for rank in range(len(ranks))]
        collective = pb.Collective(kind="SEND_RECV", bytes=1_000_000, pairs=pairs)
        self._arrivals += 1
        request = pb.SubmitJobRequest(
            job_id=f"job-{self._arrivals}", ranks=ranks, collectives=[collective],
            steering=self.drawn.choice(("PIN", "SOURCE_PORT")),
        )  # fmt: skip
        refused = self._call(self.controller.jobs.SubmitJob, request)
        if not refused:
            self.jobs[request.job_id] = request
        return f"{request.job_id} {pb.Steering.Name(request.steering)} {refused}"

    def _a_job_leaves(self) -> str:
        if not self.jobs:
            return "none"
        job_id = self.drawn.choice(sorted(self.jobs))
        del self.jobs[job_id]
        return job_id + self._call(self.controller.jobs.ReleaseJob, pb.ReleaseJobRequest(job_id=job_id))

    def _cable(self) -> Cable:
        return self.drawn.choice(self.fabric.cables)

    def _a_cable_is_cut(self) -> str:
        cable = self._cable().id
        self.lab.net.set_cable(cable, False)
        self.cut.add(cable)
        return cable

    def _a_cable_returns(self) -> str:
        for cable in sorted(self.cut)[:1]:
            self.lab.net.set_cable(cable, True)
            self.cut.remove(cable)
            return cable
        return "none"

    def _a_cable_flaps(self) -> str:
        cable = self._cable().id
        for number in range(self.drawn.randint(2, 6)):
            self.lab.net.set_cable(cable, bool(number % 2))
        self.lab.net.set_cable(cable, cable not in self.cut)
        return cable

    def _a_target_is_drained(self) -> str:
        target = self.drawn.choice([self._cable().id, "spine1", "spine2"])
        refused = self._call(self.controller.fabric.Drain, pb.DrainRequest(target=target))
        if not refused:
            self.drained.add(target)
        return f"{target} {refused}"

    def _a_target_is_in_use_again(self) -> str:
        for target in sorted(self.drained)[:1]:
            undrain = pb.DrainRequest(target=target, undrain=True)
            if not (refused := self._call(self.controller.fabric.Drain, undrain)):
                self.drained.remove(target)
            return f"{target} {refused}"
        return "none"

    def _a_switch_starts_again(self) -> str:
        """Empty a switch and end its session, as a restart does."""
        switch, bridge = self.drawn.choice(sorted(self.lab.net.bridge_of.items()))
        held = self.lab.ovs.vsctl("get", "bridge", bridge, "controller")
        self.lab.ovs.vsctl("clear", "bridge", bridge, "controller")
        self.lab.ovs.ofctl("-O", "OpenFlow13", "del-flows", bridge)
        self.lab.ovs.ofctl("-O", "OpenFlow13", "del-groups", bridge)
        self._point(bridge)
        return f"{switch} {held.strip()[:4]}"

    def _point(self, bridge: str) -> None:
        target = f'target="tcp:127.0.0.1:{self.controller.openflow_port}"'
        more = ("max_backoff=1000", "inactivity_probe=5000", "connection_mode=out-of-band")
        self.lab.ovs.vsctl(
            "--", "--id=@c", "create", "controller", target, *more, "--", "set", "bridge", bridge, "controller=@c"
        )

    def _the_controller_is_killed(self) -> str:
        before = self.controller
        before.kill()
        more = (*self._more, "--grpc", before.grpc)
        self.controller = Controller(self._path, openflow=before.openflow, more=more)
        grpc.channel_ready_future(self.controller.channel).result(TIMEOUT_S)
        self.controller.wait_for_rules()
        self.drained.clear()
        for job_id, request in list(self.jobs.items()):
            if self._call(self.controller.jobs.SubmitJob, request):
                del self.jobs[job_id]
        return f"{len(self.jobs)} jobs again"

    def _the_broker_is_lost(self) -> None:
        self._broker.kill()

    def _the_broker_returns(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _time_passes(self) -> None:
        time.sleep(self.drawn.choice((0.05, 0.3)))

    def quiet(self) -> None:
        """Wait until all is as it should be, then let all NICs send to all others; raises AssertionError."""
        end = time.monotonic() + TIMEOUT_S
        while found := self.faults():
            assert time.monotonic() < end, found
            time.sleep(POLL_S)
        self.steps.append("quiet")
        reached, expected = self.reached(), self.joined()  # what is drained carries nothing
        assert reached == expected, (sorted(reached ^ expected), "reached wrongly or not")

    def faults(self) -> list[str]:
        """Return what the controller, its plans or the switches have wrong now."""
        topology = self.controller.fabric.GetTopology(pb.GetTopologyRequest())
        down = {self.fabric.cable_by_link[link.id].id for link in topology.links
                if not link.up and link.id in self.fabric.cable_by_link}  # fmt: skip
        found = [f"down are {sorted(down)}, cut {sorted(self.cut)}"] if down != self.cut else []
        found += [f"{switch.id} is not connected" for switch in topology.switches if not switch.connected]
        if found:
            return found
        plans = [self.controller.jobs.GetJob(pb.GetJobRequest(job_id=job_id)) for job_id in self.jobs]
        held = {switch: read_rules(self.lab.ovs.directory / f"{bridge}.mgmt")
                for switch, bridge in self.lab.net.bridge_of.items()}  # fmt: skip
        return [*self._wrong_rules(held, plans), *self._wrong_paths(held, plans), *self._wrong_plans(plans)]

    @property
    def out_of_use(self) -> Health:
        """Return what is cut, and what is drained."""
        switches = frozenset(self.drained) & self.lab.net.bridge_of.keys()
        return Health(down_cables=frozenset(self.cut | self.drained - switches), down_switches=switches)

    def _wrong_rules(self, held: dict[str, SwitchRules], plans: list[pb.JobPlan]) -> list[str]:
        compiled = compile_fabric(self.fabric, layout_of(self.fabric), self.out_of_use)
        streams = {(flow.src_nic, flow.dst_nic) for plan in plans for flow in plan.flows}
        ip = {nic.id: nic.ip for nic in self.fabric.nics}
        pairs = {(ip[a], ip[b]) for a, b in streams} | {(ip[b], ip[a]) for a, b in streams}
        found = []
        for switch, rules in held.items():
            mine = {(rule.key, rule.actions) for rule in rules.rules if not is_pin(rule)}
            wanted = {(rule.key, rule.actions) for rule in compiled[switch].rules}
            if mine != wanted or set(rules.groups) != set(compiled[switch].groups):
                found.append(f"{switch}: {len(mine ^ wanted)} rules of the underlay differ, or its groups")
            pins = [rule.match for rule in rules.rules if is_pin(rule)]
            strange = [pin for pin in pins if not isinstance(pin, Match) or _ends(pin) not in pairs]
            found += [f"{switch}: {len(strange)} pins of no job: {strange[:2]}"] if strange else []
        return found

    def _wrong_paths(self, held: dict[str, SwitchRules], plans: list[pb.JobPlan]) -> list[str]:
        network = Network(self.fabric, rows(self.fabric, held), group_rows(self.fabric, held), frozenset(self.cut))
        joined, found = self.joined(), []
        for flow in (flow for plan in plans for flow in plan.flows if (flow.src_nic, flow.dst_nic) in joined):
            forth = (flow.src_nic, flow.dst_nic, flow.udp_source_port, flow.links)
            back = (flow.dst_nic, flow.src_nic, flow.reverse_udp_source_port, flow.reverse_links)
            for source, target, port, links in (forth, back):
                if (taken := walked(self.fabric, network, source, target, port)) != tuple(links):
                    found.append(f"{flow.flow_id}, {source} to {target}: takes {taken}, planned are {links}")
        return found

    def _wrong_plans(self, plans: list[pb.JobPlan]) -> list[str]:
        if not plans:
            return []
        joined = self.joined()
        stranded = {flow.flow_id for plan in plans for flow in plan.flows if (flow.src_nic, flow.dst_nic) not in joined}
        kept = {flow.flow_id for plan in plans for flow in plan.flows}
        file = {"version": 1, "jobs": [_job_as_file(self.jobs[plan.job_id]) for plan in plans]}
        plan = {"jobs": [_plan_as_json(each) for each in plans]}
        return check(fabric_as_file(self.fabric, self.out_of_use), file, plan, kept, stranded)

    def joined(self) -> set[tuple[str, str]]:
        """Return the pairs of NICs that a path joins, up and then down, by networkx: on cables that are in use."""
        down = self.out_of_use
        graph = networkx.DiGraph([((switch.id, "up"), (switch.id, "down")) for switch in self.fabric.switches
                                  if switch.id not in down.down_switches])  # fmt: skip
        for cable in self.fabric.cables:
            low, high = cable.lower.switch, cable.upper.switch
            if cable.id not in down.down_cables and high not in down.down_switches:
                graph.add_edges_from([((low, "up"), (high, "up")), ((high, "down"), (low, "down"))])
        leaf = {nic.id: nic.port.switch for nic in self.fabric.nics}
        reach = {name: networkx.descendants(graph, (name, "up")) for name in set(leaf.values())}
        return {(a, b) for a in leaf for b in leaf if a != b and (leaf[b], "down") in reach[leaf[a]]}

    def reached(self) -> set[tuple[str, str]]:
        """Return the pairs of NICs between which packets arrive and ACKs return."""
        ends = [(a.id, b.id) for a in self.fabric.nics for b in self.fabric.nics if a is not b]
        flows = [
            FlowRequest(
                flow_id=f"{a}/{b}", src_nic=a, dst_nic=b, udp_source_port=port, reverse_udp_source_port=port,
                rate_bps=RATE_BPS, size_bytes=PACKET_BYTES,
            )
            for a, b in ends
            for port in (self.drawn.randrange(49_153, 65_536),)
        ]  # fmt: skip
        wait_s = TIMEOUT_S if len(self.joined()) == len(ends) else NO_PATH_S
        result = self.lab.run_flows(flows, wait_s)
        done = (flow.request for flow in result.flows if flow.acked_bytes == PACKET_BYTES)
        return {(request.src_nic, request.dst_nic) for request in done}

    def close(self) -> None:
        """End the controller."""
        self.controller.end()


ACTS: tuple[Callable[[Site], str | None], ...] = (
    Site._a_job_arrives, Site._a_job_arrives, Site._a_job_arrives, Site._a_job_leaves, Site._a_cable_is_cut,
    Site._a_cable_returns, Site._a_cable_returns, Site._a_cable_flaps, Site._a_target_is_drained,
    Site._a_target_is_in_use_again, Site._a_switch_starts_again, Site._the_controller_is_killed,
    Site._the_broker_is_lost, Site._the_broker_returns, Site._time_passes,
)  # fmt: skip


def _ends(pin: Match) -> tuple[int, int]:
    return getattr(pin.ipv4_src, "value", 0), getattr(pin.ipv4_dst, "value", 0)


def _job_as_file(request: pb.SubmitJobRequest) -> dict:
    (collective,) = request.collectives
    pairs = [{"src_rank": pair.src_rank, "dst_rank": pair.dst_rank} for pair in collective.pairs]
    return {
        "job_id": request.job_id, "ranks": list(request.ranks), "priority": 0,
        "steering": pb.Steering.Name(request.steering),
        "collectives": [{"kind": "SEND_RECV", "phase": 0, "qps_per_flow": 1, "pairs": pairs}],
    }  # fmt: skip


def _plan_as_json(plan: pb.JobPlan) -> dict:
    flows = [{name: getattr(flow, name) for name in FLOW_FIELDS} for flow in plan.flows]
    for flow in flows:
        flow["links"], flow["reverse_links"] = list(flow["links"]), list(flow["reverse_links"])
    names = (*CERTIFICATE_FIELDS, "own_max_link_utilisation")
    certificate = {name: getattr(plan.certificate, name) for name in names}
    return {"job_id": plan.job_id, "flows": flows, "certificate": certificate}


@contextmanager
def site(folder: Path, seed: int) -> Iterator[Site]:
    path = folder / "fabric.yaml"
    path.write_text(FABRIC)
    with mosquitto() as broker, Lab(load_fabric(path)) as lab, lab_agent(lab, "chaos", broker.port, "200ms"):
        path.with_name("heddle.yaml").write_text(CONFIG.format(port=broker.port))
        found = Site(lab, path, broker, seed)
        try:
            yield found
        finally:
            found.close()


LONG = [pytest.param(seed, 120, marks=pytest.mark.soak) for seed in range(1, 4)]


@pytest.mark.parametrize(("seed", "steps"), [(0, 12), *LONG])
def test_after_faults_in_any_order_a_lab_has_the_wanted_rules_and_nics_reach_each_other(tmp_path, seed, steps):
    with site(tmp_path, seed) as found:
        try:
            for number in range(steps):
                found.step()
                if number % STEPS_PER_QUIET == STEPS_PER_QUIET - 1:
                    found.quiet()
        finally:
            print("STEPS " + "; ".join(found.steps))
