"""Planned flows on real switches: every packet is captured on exactly the planned links."""

import itertools
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from heddle.controller.config import load_fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.measure.runner import FlowChanges
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller, controller

pytestmark = pytest.mark.e2e

SIZE_BYTES = 120_000
FABRICS = {
    "two spines": "kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2",
    "three spines, two cables each": "kind: spine_leaf, spines: 3, links_per_spine: 2, leaves: 2, hosts_per_leaf: 3",
    "three tiers": "kind: clos3, pods: 2, leaves: 2, aggs_per_pod: 2, spines: 4, hosts_per_leaf: 2",
}
SERVER = "import socket as s;l=s.create_server(('',9000));c=l.accept()[0];print(sum(iter(lambda:len(c.recv(65536)),0)))"


class Planned(NamedTuple):
    lab: Lab
    controller: Controller


@pytest.fixture(scope="module", params=FABRICS, ids=lambda name: name.replace(",", "").replace(" ", "-"))
def planned(request, tmp_path_factory) -> Iterator[Planned]:
    path = tmp_path_factory.mktemp("planned") / "fabric.yaml"
    path.write_text(f"version: 1\nname: planned\ngenerate: {{{FABRICS[request.param]}, gbps: 0.02}}\n")
    with controller(path) as running, Lab(load_fabric(path)) as lab:
        lab.connect_controller(running.openflow_port)
        running.wait_for_rules()
        yield Planned(lab, running)


def shifted(lab: Lab, job_id: str, **more) -> pb.SubmitJobRequest:
    """Return a job in which every NIC sends to the one half the fabric away, so that every flow crosses leaves."""
    nics = [nic.id for nic in lab.fabric.nics]
    pairs = [pb.RankPair(src_rank=i, dst_rank=(i + len(nics) // 2) % len(nics)) for i in range(len(nics))]
    collective = pb.Collective(kind="SEND_RECV", bytes=SIZE_BYTES, pairs=pairs)
    return pb.SubmitJobRequest(job_id=job_id, ranks=nics, collectives=[collective], **more)


def run(lab: Lab, plan: pb.JobPlan, changes: FlowChanges | None = None):
    return lab.run_flows(
        [
            FlowRequest(
                flow_id=flow.flow_id,
                src_nic=flow.src_nic,
                dst_nic=flow.dst_nic,
                udp_source_port=flow.udp_source_port,
                reverse_udp_source_port=flow.reverse_udp_source_port,
                rate_bps=flow.rate_bps * 98 // 100,
                size_bytes=SIZE_BYTES,
            )
            for flow in plan.flows
        ],
        timeout_s=60,
        changes=changes,
    )


def assert_on_planned_links_only(lab: Lab, plan: pb.JobPlan, result) -> None:
    assert result.valid, result.integrity
    for flow, found in zip(plan.flows, result.flows, strict=True):
        counted = result.capture.links_of(lab.stream_of(found.request))
        assert counted == dict.fromkeys(flow.links, found.tx_packets)


@pytest.mark.parametrize("steering", ["SOURCE_PORT", "PIN"])
def test_every_planned_flow_is_counted_on_exactly_its_planned_links(planned, steering):
    lab, running = planned
    plan = running.jobs.SubmitJob(shifted(lab, f"exact-{steering}".lower(), steering=steering))
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound
    with JobFollower(running.channel, plan) as follower:
        result = run(lab, plan, follower)
        running.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=plan.job_id))
    assert_on_planned_links_only(lab, plan, result)
    assert all(flow.acked_bytes == SIZE_BYTES for flow in result.flows)
    assert result.moves == ()


def test_acknowledgements_take_the_planned_reverse_path(planned):
    lab, running = planned
    plan = running.jobs.SubmitJob(shifted(lab, "reverse"))
    result = run(lab, plan)
    for flow, found in zip(plan.flows, result.flows, strict=True):
        back = lab.path_of(lab.reverse_stream_of(found.request))
        assert list(back) == list(flow.reverse_links)
    running.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=plan.job_id))


def test_ping_and_tcp_work_between_the_same_hosts(planned):
    lab, _ = planned
    first, last = lab.fabric.nics[0], lab.fabric.nics[-1]
    address = ".".join(str(last.ip >> shift & 255) for shift in (24, 16, 8, 0))
    assert " 0% packet loss" in lab.net.host(first.host).cmd(f"ping -c 2 -i 0.2 -W 5 {address}")
    server = lab.net.host(last.host).popen(["python3", "-c", SERVER], text=True, stdout=subprocess.PIPE)
    lab.net.host(last.host).cmd("while ! ss -ltn | grep -q :9000; do sleep 0.02; done")
    client = f"import socket as s;c=s.create_connection(('{address}',9000),10);c.sendall(bytes(300000));c.close()"
    lab.net.host(first.host).cmd(f'python3 -c "{client}"')
    assert server.communicate(timeout=60)[0].strip() == "300000"


def test_the_rules_outlive_a_killed_controller_and_the_next_one_takes_them_over(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text("version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 0.02}\n")
    with Lab(load_fabric(path)) as lab:
        with controller(path) as running:
            lab.connect_controller(running.openflow_port)
            running.wait_for_rules()
            plan = running.jobs.SubmitJob(shifted(lab, "outlives"))
            address = running.openflow
            running.kill()
        assert_on_planned_links_only(lab, plan, run(lab, plan))
        with controller(path, address) as running:
            running.wait_for_rules()
            again = running.jobs.SubmitJob(shifted(lab, "outlives"))
            assert [list(flow.links) for flow in again.flows] == [list(flow.links) for flow in plan.flows]
            assert_on_planned_links_only(lab, again, run(lab, again))


def test_unplanned_traffic_avoids_a_cable_that_is_down(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text("version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, gbps: 0.02}\n")
    with controller(path) as running, Lab(load_fabric(path)) as lab:
        lab.connect_controller(running.openflow_port)
        running.wait_for_rules()
        ports = [0xC000 + 0x100 * step for step in range(0, 64, 8)]
        assert {lab.path_of(stream(lab, port))[1] for port in ports} == {"leaf1:1>spine1:1", "leaf1:2>spine2:1"}
        watch = running.fabric.WatchTopology(pb.GetTopologyRequest())
        lab.net.set_cable("leaf1:1>spine1:1", False)
        for topology in itertools.islice(watch, 50):
            if not {link.id: link.up for link in topology.links}["leaf1:1>spine1:1"]:
                break
        running.jobs.SubmitJob(shifted(lab, "barrier"))  # its reply comes after the barriers of the exceptions
        assert {lab.path_of(stream(lab, port))[1] for port in ports} == {"leaf1:2>spine2:1"}


def stream(lab: Lab, port: int):
    source, destination = lab.fabric.nics[0], lab.fabric.nics[-1]
    return lab.stream_of(
        FlowRequest(
            flow_id="probe",
            src_nic=source.id,
            dst_nic=destination.id,
            udp_source_port=port,
            reverse_udp_source_port=port,
            rate_bps=1_000_000,
            size_bytes=1,
        )
    )
