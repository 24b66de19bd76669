"""A job whose NICs spray, on a cable that fails silently: NICs deny, hosts report, and new sets and rates arrive."""

import threading
import time
from collections.abc import Sequence

import pytest

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.mininet_topos.measure.flow_reporter import FlowReporter
from heddle.mininet_topos.measure.flow_run import FlowRequest, RunResult
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.measure.plan_changes import no_floor
from heddle.mininet_topos.measure.spray_paths import paths_on
from heddle.mininet_topos.playground.fabric import lab_fabric
from heddle.mininet_topos.playground.routed import RoutedPlayground
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.routed.static_sids import link_local
from heddle.mininet_topos.switches.fabric_net import ip_batch
from heddle.mininet_topos.traffic.cast import paced
from heddle.mininet_topos.traffic.stage import Stage
from tests.support.fabrics.path_sets import LOAD, YAML
from tests.support.packets.spray_lab import bins_bps

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.alone]

SECONDS, CUT_S = 5.0, 2.0
CUT = "leaf1:3>spine3:1"
NO_PORT = "02:00:00:00:00:fe"


def sprayed(fabric: Fabric) -> JobRequest:
    """Return a permutation whose NICs spray over four paths."""
    nics = fabric.nics
    flows = tuple(
        FlowDemand(src_rank=rank, dst_rank=(rank + 4 + rank % 4 // 2 * 4) % 16, rate_bps=int(LOAD * nic.capacity_bps))
        for rank, nic in enumerate(nics)
    )
    sent = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1_000_000, flows=flows, paths_per_flow=4)
    return JobRequest(job_id="sprayed", ranks=tuple(nic.id for nic in nics), collectives=(sent,))


def fail_silently(lab: RoutedLab) -> None:
    """Let both ends of a cable send to an address that no port has: the carrier stays up, and nothing arrives."""
    cable, net = lab.fabric.cable_by_link[CUT], lab.routers
    assert net.sids is not None
    for port in (cable.lower, cable.upper):
        peer, device = link_local(net.sids.peer_mac_of[port]), net.interface_of[port]
        ip_batch(
            [f"neigh replace {peer} lladdr {NO_PORT} dev {device} nud permanent"], lab.net.host(port.switch).entrance
        )


def run(playground: RoutedPlayground, requests: Sequence[FlowRequest], follower: JobFollower) -> tuple[RunResult, int]:
    """Run the flows through the failure; return their result and the start of the run."""
    lab, begun_ns = playground.lab, list[int]()
    assert isinstance(lab, RoutedLab)
    with FlowReporter(playground.client.channel) as reporter:
        timer: list[threading.Timer] = []

        def on_progress(seconds: float) -> None:
            if not begun_ns:
                begun_ns.append(time.monotonic_ns() - int(seconds * 1e9))
                timer.append(threading.Timer(CUT_S - seconds, fail_silently, (lab,)))
                timer[0].start()
            reporter.report(lab.observed_flows())

        result = lab.run_flows(requests, SECONDS, on_progress, follower)
        timer[0].join()
        reporter.end()
    return result, begun_ns[0]


def test_a_silent_failure_brings_sets_and_rates_without_the_cable(own_registry, tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text(YAML)
    with RoutedPlayground(lab_fabric(path), srv6=True) as playground:
        lab, client = playground.lab, playground.client
        plan = client.submit(sprayed(lab.fabric))
        requests = Stage(lab, client, SECONDS).planned(plan)
        assert {len(request.paths) for request in requests} == {4}
        with JobFollower(client.channel, plan, paced, no_floor, paths_on(lab.fabric)) as follower:
            result, begun_ns = run(playground, requests, follower)
        later = [one for one in follower.generations if one.plan.generation > plan.generation]
    denied_ns = min(change.at_ns for flow in result.flows for change in flow.path_changes)
    new_ns = [one.monotonic_ns - begun_ns - denied_ns for one in later]
    print(
        f"FIGURES denied {denied_ns / 1e6 - CUT_S * 1e3:.0f} ms after the cut, generations "
        f"{', '.join(f'{ns / 1e6:.0f}' for ns in new_ns)} ms later; lost {sum(f.lost_packets for f in result.flows)}, "
        f"resent {sum(f.retransmitted_packets for f in result.flows)}; {[round(b / 1e6) for b in bins_bps(result)]}; "
        f"{[one.plan.reason for one in later]}; "
        f"{sorted((round(c.at_ns / 1e6), c.state, c.reason) for f in result.flows for c in f.path_changes)[:12]}"
    )
    links = {lab.fabric.cable_by_link[CUT].up_link, lab.fabric.cable_by_link[CUT].down_link}
    assert later
    for flow in later[0].flows.values():
        assert not any(links & set(path.links) for path in flow.path_set.paths)
    assert not result.queue_drops
    assert sum(flow.lost_packets for flow in result.flows) < 100
