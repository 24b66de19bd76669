"""A cable of a lab of routers fails and returns under a permutation at full rate that the controller has planned.

From the cut on, the packets of each half second are compared with the plan of that time: the certificate is true again
where every flow is on exactly the cables that the controller says. `-rP` prints after how long.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import NamedTuple

import pytest

from heddle.controller.model.fabric import Cable, Fabric
from heddle.mininet_topos.measure.flow_run import Capture, FiveTuple
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.playground.fabric import lab_fabric
from heddle.mininet_topos.playground.routed import RoutedPlayground
from heddle.mininet_topos.routed.routes import Routing
from heddle.mininet_topos.traffic.cast import paced
from heddle.mininet_topos.traffic.stage import Stage
from heddle.mininet_topos.traffic.workloads import compute_nics, rotation
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

SHORT = "kind: spine_leaf, spines: 4, leaves: 2, hosts_per_leaf: 2"
LONG = "kind: spine_leaf, spines: 4, leaves: 4, hosts_per_leaf: 4"
PARALLEL = "kind: spine_leaf, spines: 2, leaves: 3, hosts_per_leaf: 4, links_per_spine: 2"
LIMIT_S = 60.0
"""A run ends where a certificate is not true again for so long; the soak form has the limits of the promise."""
WINDOW_S = 0.5
FOUND_S, TRUE_S = 2.0, 5.0
CASES = [
    pytest.param(SHORT, Routing.GROUP, False, id="short"),
    *(pytest.param(LONG, routing, True, marks=pytest.mark.soak, id=f"4 x 4 {routing}") for routing in Routing),
    pytest.param(PARALLEL, Routing.RESILIENT, True, marks=pytest.mark.soak, id="parallel cables"),
]
Flows = dict[str, pb.FlowPlan]


class Change(NamedTuple):
    """What followed from a cut or a repair, in seconds after it.

    `moved` are flows with another path, `followed` those of them that kept their port: the hash has moved them.
    """

    known_s: float
    planned_s: float
    true_s: float
    moved: frozenset[str]
    followed: frozenset[str]
    reaimed: frozenset[str]


class Observed:
    """A run that is compared with its plan while it lasts: call `on_progress` as `run_flows` does."""

    def __init__(self, playground: RoutedPlayground, follower: JobFollower, job_id: str) -> None:
        self._lab, self._routers, self._follower = playground.lab, playground.routers, follower
        self._jobs, self._job_id = rpc.JobServiceStub(playground.client.channel), job_id
        self._windows_s: list[float] = []
        self._since_s = 0.0
        self._before: Flows = {}
        self.problem = "no packets yet"
        self.failure: BaseException | None = None

    def plan(self) -> pb.JobPlan:
        return self._jobs.GetJob(pb.GetJobRequest(job_id=self._job_id))

    def on_progress(self, _seconds: float) -> None:
        """End a window of the capture, and note where its packets were on the planned cables."""
        now_s = time.monotonic()
        if now_s - self._since_s < WINDOW_S:
            return
        counted, plan = self._lab.captured(), self.plan()
        flows = {flow.flow_id: flow for flow in plan.flows}
        self.problem = self._problem(counted, plan, flows)
        if not self.problem:
            self._windows_s.append(self._since_s)
        self._since_s, self._before = now_s, flows

    def _problem(self, counted: Capture, plan: pb.JobPlan, flows: Flows) -> str:
        """Return why the packets of a window are not those of the plan; "" where they are."""
        if (confirmed := plan.certificate.paths_confirmed) != len(flows):
            return f"{confirmed} of {len(flows)} paths are confirmed"
        if ports_of(flows) != ports_of(self._before):
            return "flows have new ports"
        return misplaced(self._lab.fabric, counted, flows)

    def until_true(self, since_s: float) -> float:
        """Wait until a window has all packets on the planned cables; return when it began."""
        while not self._windows_s or self._windows_s[-1] < since_s:
            decisions = [one.plan.reason for one in self._follower.generations]
            assert time.monotonic() - since_s < LIMIT_S, f"{self.problem}; {decisions}"
            time.sleep(0.02)
        return next(begin for begin in self._windows_s if begin >= since_s)

    def changed(self, do: Callable[[], float], failed: Collection[str]) -> Change:
        """Cut or repair, and wait until the certificate is true again; BGP has its routes after `do`."""
        before = {flow.flow_id: flow for flow in self.plan().flows}
        began_s = time.monotonic()
        known_s = do()
        if (bgp := self._routers.bgp) is not None:
            bgp.await_routes(failed)
            print(f"FIGURES routes after {time.monotonic() - began_s:.2f} s")
        time.sleep(WINDOW_S)  # of a window before the routers have changed their routes nothing follows
        true_s = self.until_true(time.monotonic())
        after = {flow.flow_id: flow for flow in self.plan().flows}
        found = [one.monotonic_ns / 1e9 for one in self._follower.generations if one.monotonic_ns / 1e9 > began_s]
        moved = {name for name, flow in after.items() if flow.links != before[name].links}
        ports = {name for name, flow in after.items() if flow.udp_source_port != before[name].udp_source_port}
        return Change(
            known_s, max(found, default=began_s) - began_s, true_s - began_s,
            frozenset(moved), frozenset(moved - ports), frozenset(ports - moved),
        )  # fmt: skip


def ports_of(flows: Flows) -> dict[str, int]:
    return {name: flow.udp_source_port for name, flow in flows.items()}


def misplaced(fabric: Fabric, counted: Capture, flows: Flows) -> str:
    """Return which flow has no packet on a cable of its path, or has one elsewhere, or from another port."""
    nics = fabric.nic_by_id
    streams = {
        FiveTuple(nics[flow.src_nic].ip, nics[flow.dst_nic].ip, flow.udp_source_port): set(flow.links)
        for flow in flows.values()
    }
    seen: dict[FiveTuple, set[str]] = {}
    for link, counts in counted.data.items():
        for stream in counts:
            seen.setdefault(stream, set()).add(link)
    wrong = [stream for stream in streams | seen if streams.get(stream) != seen.get(stream)]
    found = [f"{stream} planned {streams.get(stream)} captured {seen.get(stream)}" for stream in wrong]
    return "; ".join(found)


@pytest.fixture
def playground(request, own_registry, tmp_path) -> Iterator[RoutedPlayground]:
    shape, routing = request.param
    path = tmp_path / "fabric.yaml"
    path.write_text(f"version: 1\nname: routed\ngenerate: {{{shape}, gbps: 0.02}}\n")
    found = RoutedPlayground(lab_fabric(path), routing=routing)
    found.config = "moves: {failure: none, congestion: none}\n"  # else others make room, as the policy says
    with found as running:
        yield running


def timed(do: Callable[[str], tuple[Cable, float]], link: str) -> float:
    return do(link)[1]


def run(playground: RoutedPlayground, script: Callable[[Observed, pb.JobPlan], None]) -> None:
    """Run the permutation for as long as the script lasts, and fail as the script fails."""
    lab, client = playground.lab, playground.client
    workload = rotation(compute_nics(lab.fabric), 4 * LIMIT_S)
    plan = client.submit(workload.job)
    with JobFollower(client.channel, plan, paced) as follower:
        observed = Observed(playground, follower, plan.job_id)

        def play() -> None:
            try:
                observed.until_true(time.monotonic())
                script(observed, plan)
            except BaseException as failure:
                observed.failure = failure
            finally:
                lab.end_flows()

        player = threading.Thread(target=play)
        player.start()
        try:
            requests = Stage(lab, client, 4 * LIMIT_S).planned(plan)
            result = lab.run_flows(requests, 4 * LIMIT_S, observed.on_progress, changes=follower)
        finally:
            player.join()
        if observed.failure is not None:
            raise observed.failure
        assert result.capture.exact


@pytest.mark.parametrize(
    ("playground", "is_long"),
    [pytest.param((case.values[0], case.values[1]), case.values[2], marks=case.marks, id=case.id) for case in CASES],
    indirect=["playground"],
)
def test_a_cut_and_its_repair_leave_every_flow_on_the_cables_that_the_controller_says(playground, is_long):
    changes: list[Change] = []

    def script(observed: Observed, plan: pb.JobPlan) -> None:
        cut = next(flow.links[1] for flow in plan.flows if len(flow.links) > 2)
        crossed = {flow.flow_id for flow in plan.flows if cut in flow.links}
        cable = playground.lab.fabric.cable_by_link[cut]
        crossed |= {flow.flow_id for flow in plan.flows if {cable.up_link, cable.down_link} & set(flow.links)}
        for what, do, failed in (("cut", playground.cut, {cable.id}), ("heal", playground.heal, ())):
            change = observed.changed(partial(timed, do, cut), failed)
            changes.append(change)
            print(
                f"FIGURES {what} {cut}: known after {change.known_s:.2f} s, last ports {change.planned_s:.2f} s, "
                f"certificate true {change.true_s:.2f} s; of {len(plan.flows)} flows {len(crossed)} on it, "
                f"{len(change.moved)} moved, {len(change.followed)} of them by the hash, "
                f"{len(change.reaimed)} others with new ports"
            )
            if what == "cut":
                assert change.moved - change.followed <= crossed <= change.moved
                assert not any({cable.up_link, cable.down_link} & set(flow.links) for flow in observed.plan().flows)
        healed = observed.plan().certificate
        assert healed.max_link_utilisation == plan.certificate.max_link_utilisation

    run(playground, script)
    if is_long:
        assert max(change.known_s for change in changes) <= FOUND_S
        assert max(change.true_s for change in changes) <= TRUE_S
    if is_long and playground.routers.bgp is None:  # which has its routes seconds after a repair
        assert max(change.planned_s for change in changes) <= FOUND_S
