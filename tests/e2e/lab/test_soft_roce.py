"""Debian's own RDMA stack on planned paths: two guests with soft RoCE in place of two hosts of `heddle lab fabric`."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from heddle.controller.model.address import ip_text, parse_ip
from heddle.controller.model.observed import QueuePair, Reports
from heddle.mininet_topos.measure.flow_run import Capture, FiveTuple
from heddle.mininet_topos.playground.fabric import lab_fabric
from heddle.mininet_topos.playground.lab import Playground
from heddle.mininet_topos.services.telemetry import why_no_broker
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.programs.console.launch.port_shim import shim_library
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.controllers.plan_server import PlanServer, serving
from tests.support.guests.guest import DEVICE, GID_INDEX, MACHINE, Guest, running_guest
from tests.support.guests.image import why_no_guests

WHY_NOT = why_no_guests() or why_no_broker() or why_unavailable()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.soak,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual machines on a lab here: {WHY_NOT}"),
]
FABRIC = """\
version: 1
name: guests
generate: {kind: spine_leaf, spines: 4, leaves: 2, hosts_per_leaf: 1, gbps: 0.02}
"""
ROOT = Path(__file__).parents[3]
HEDDLE = str(Path(sys.prefix, "bin/heddle"))
QUEUE_PAIRS = 8
MESSAGES, MESSAGE_BYTES, MTU_BYTES = 50, 4_096, 1_024
TCP_PORT, MOVING_PORT = 18_515, 18_600
TRAFFIC_S = 5
JOB_S = 300


class Pair(NamedTuple):
    """Two guests on a lab whose controller is reached from them at `server`."""

    playground: Playground
    guests: tuple[Guest, Guest]
    folder: Path
    jobs: rpc.JobServiceStub
    fabric: rpc.FabricServiceStub

    @property
    def server(self) -> str:
        return f"{MACHINE}:{self.playground.addresses['grpc'].rpartition(':')[2]}"

    def start(self, job: str, qps: int, *programs: tuple[str, ...]) -> pb.JobPlan:
        """Start a program in each guest by `heddle exec`, as the nodes of a job, and return the job's plan."""
        for rank, (guest, program) in enumerate(zip(self.guests, programs, strict=True)):
            own = (f"XDG_CACHE_HOME={self.folder}", "HEDDLE_PORT_DEADLINE_MS=5000")
            node = ("--server", self.server, "--job", job, "--node-rank", str(rank), "--node-count", "2")
            wanted = (
                "--nic",
                guest.nic.id,
                "--qps",
                str(qps),
                "--lease",
                f"{JOB_S}",
                "--wait",
                f"{JOB_S}",
                "--require-plan",
            )
            guest.start(job, "env", *own, HEDDLE, "exec", *node, *wanted, "--", *program)
        for guest in self.guests:
            guest.until(f"[ -e ready -o -e {job}.status ]", JOB_S)
            guest.run(f"rm ready || {{ cat {job}.log; exit 1; }}")
        return self.jobs.GetJob(pb.GetJobRequest(job_id=job))

    def streams(self, plan: pb.JobPlan) -> dict[str, FiveTuple]:
        """Return the 5-tuple of the data of each flow."""
        nics = self.playground.lab.fabric.nic_by_id
        return {
            flow.flow_id: FiveTuple(nics[flow.src_nic].ip, nics[flow.dst_nic].ip, flow.udp_source_port)
            for flow in plan.flows
        }


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("guests")
    (folder / "fabric.yaml").write_text(FABRIC)
    shim_library(folder / "heddle")  # a guest would take half a minute to compile it
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("HEDDLE_RUN_DIR", str(folder / "run"))
        playground = stack.enter_context(Playground(lab_fabric(folder / "fabric.yaml")))
        lab = playground.lab
        first, second = (stack.enter_context(running_guest(lab, nic, folder)) for nic in lab.fabric.nics)
        channel = stack.enter_context(grpc.insecure_channel(playground.addresses["grpc"]))
        for guest in (first, second):
            guest.boot()
        yield Pair(playground, (first, second), folder, rpc.JobServiceStub(channel), rpc.FabricServiceStub(channel))


def gated(program: str) -> tuple[str, ...]:
    """Return a command that is ready once the job has its plan, and runs the program when the test lets it."""
    return ("bash", "-c", f"touch ready; until [ -e go ]; do sleep 0.2; done; rm go; exec {program}")


def write_bw(*options: str) -> str:
    """Return the command line of perftest's ib_write_bw with soft RoCE: few messages at once, and patient timers."""
    return " ".join(("ib_write_bw", "-d", DEVICE, "-x", str(GID_INDEX), "-t", "4", "-Q", "1", "-u", "18", *options))


def release_gates(pair: Pair, port: int) -> None:
    """Let the program of the second guest listen, then that of the first connect to it."""
    first, second = pair.guests
    second.run("touch go")
    second.until(listens(port))
    first.run("touch go")


def listens(port: int) -> str:
    """Return a condition of bash: a program listens at a TCP port."""
    return f"ss -Hltn 'sport = :{port}' | grep -q ."


def ports_on_wire(capture: Capture, own: int, peer: int) -> set[int]:
    """Return the source ports of all packets from one address to another."""
    streams = {stream for counts in (capture.data, capture.acks) for link in counts.values() for stream in link}
    return {stream.udp_source_port for stream in streams if (stream.src_ip, stream.dst_ip) == (own, peer)}


def test_packets_of_an_unchanged_program_are_counted_on_exactly_the_planned_cables(pair):
    _, second = pair.guests
    options = ("-b", "-q", str(QUEUE_PAIRS), "-s", str(MESSAGE_BYTES), "-n", str(MESSAGES), "-p", str(TCP_PORT))
    client, server = write_bw(*options, ip_text(second.nic.ip)), write_bw(*options)
    plan = pair.start("unchanged", QUEUE_PAIRS, gated(client), gated(server))
    assert len(plan.flows) == 2 * QUEUE_PAIRS
    assert len({link for flow in plan.flows for link in flow.links if "spine" in link}) == 2 * 2 * 4

    lab = pair.playground.lab
    lab.captured()
    release_gates(pair, TCP_PORT)
    printed = [guest.wait("unchanged", JOB_S) for guest in pair.guests]
    capture = lab.captured()
    streams = pair.streams(plan)
    for flow in plan.flows:
        counted = capture.links_of(streams[flow.flow_id])
        assert counted.keys() == set(flow.links), printed
        assert min(counted.values()) >= MESSAGES * MESSAGE_BYTES // MTU_BYTES
    for counts in (capture.data, capture.acks):
        sent = {stream for link in counts.values() for stream in link}
        assert sent == set(streams.values()), "a packet has a port that is not planned"


def test_reported_queue_pairs_have_the_ports_on_the_wire_with_and_without_the_connection_manager(pair):
    lab = pair.playground.lab
    plans = PlanServer(pb.JobPlan(job_id="none"), ())
    with serving(plans) as address:
        for guest in pair.guests:
            start_agent(guest, pair.folder / "fabric.yaml", f"{MACHINE}:{address.rpartition(':')[2]}")
        for guest in pair.guests:
            guest.until("[ -s agent.log ]", JOB_S)
        connect_and_pause(pair, 2, TCP_PORT + 1)
        connect_and_pause(pair, 3, TCP_PORT + 2, "-R")
        reports = [await_pairs(plans, guest, 5) for guest in pair.guests]
        lab.captured()
        for guest in pair.guests:
            guest.run("pkill -CONT -x ib_write_bw")
        time.sleep(TRAFFIC_S)
        capture = lab.captured()
        for guest in pair.guests:
            guest.run("pkill -KILL -x ib_write_bw; pkill -f 'heddle agent'")
    known = Reports(by_host={})
    for message in reports:
        known = known.with_report(lab.fabric, message.host, map(queue_pair, message.flows))
    for own, peer in (pair.guests, reversed(pair.guests)):
        reported = {each.udp_source_port for each in known.rates_bps(lab.fabric) if each.src_nic == own.nic.id}
        found = ports_on_wire(capture, own.nic.ip, peer.nic.ip)
        assert (len(found), len(reported - found), found - reported) == (4, 1, set())
    assert [sum(bool(flow.udp_source_port) for flow in message.flows) for message in reports] == [3, 3]


def connect_and_pause(pair: Pair, count: int, port: int, *manager: str) -> None:
    """Connect two programs, and stop them: beside them an agent gets no processor time.

    They have two queue pairs, and with the connection manager one more, which is silent while the others send.
    """
    first, second = pair.guests
    before = [int(guest.run(CONNECTED)) for guest in pair.guests]
    command = f"exec {write_bw('-q 2', f'-s {MTU_BYTES}', '-D 600', f'-p {port}', *manager)}"
    second.start(f"bw{port}", "bash", "-c", command)
    second.until("rdma -j resource show cm_id | grep -q LISTEN" if manager else listens(port))
    first.start(f"bw{port}", "bash", "-c", f"{command} {ip_text(second.nic.ip)}")
    for guest, others in zip(pair.guests, before, strict=True):
        guest.until(f"(($({CONNECTED}) == {others + count}))")
    for guest in pair.guests:
        guest.run("pkill -STOP -x ib_write_bw")


CONNECTED = "rdma -j resource show qp | grep -o '\"rqpn\":[1-9]' | wc -l"


def start_agent(guest: Guest, fabric: Path, controller: str) -> None:
    """Start the host's agent, which prints a line when it is ready."""
    options = ("--fabric", str(fabric), "--host", guest.nic.host, "--nic", f"{guest.nic.id}=eth0")
    guest.start("agent", HEDDLE, "agent", "--source", "ethtool", *options, "--controller", controller)


def await_pairs(plans: PlanServer, guest: Guest, count: int) -> pb.ObservedFlows:
    """Return the newest report of a guest once it has so many queue pairs."""
    for _ in range(600):
        reports = plans.reports.get(guest.nic.host, [])
        if reports and len(reports[-1].flows) >= count:
            return reports[-1]
        time.sleep(0.2)
    raise AssertionError(f"{guest.nic.host} reports no {count} queue pairs: {reports[-1:]}; {guest.output('agent')}")


def queue_pair(flow: pb.ObservedFlow) -> QueuePair:
    """Return a reported queue pair as the controller reads it."""
    peer = parse_ip(flow.dst_ip) if flow.dst_ip else None
    return QueuePair(parse_ip(flow.src_ip), peer, flow.udp_source_port, flow.src_qpn, flow.dst_qpn)


def test_a_running_queue_pair_moves_to_the_port_of_the_next_generation_without_a_failed_write(pair):
    first, second = pair.guests
    program = f"env PYTHONPATH={ROOT} {sys.executable} -m tests.support.guests.moving_queue_pair {pair.server}"
    client = gated(f"{program} {first.nic.id} {ip_text(second.nic.ip)}")
    plan = pair.start("moves", 1, client, gated(f"{program} {second.nic.id}"))
    release_gates(pair, MOVING_PORT)
    first.until("grep -q 'at_once\\|Error' moves.log", JOB_S)
    assert_on_planned_links(pair, plan)

    spine = flow_of(plan, first).links[1].partition(">")[2].partition(":")[0]
    pair.fabric.Drain(pb.DrainRequest(target=spine))
    first.until("grep -q moved moves.log")
    drained = pair.jobs.GetJob(pb.GetJobRequest(job_id="moves"))
    assert_on_planned_links(pair, drained)
    pair.fabric.Drain(pb.DrainRequest(target=spine, undrain=True))

    for guest in pair.guests:
        guest.run("touch stop")
    lines = [json.loads(line) for guest in pair.guests for line in guest.wait("moves").splitlines()]
    moves = [line for line in lines if "moved" in line]
    assert flow_of(drained, first).udp_source_port in [line["moved"] for line in moves]
    refusals = [line["at_once"] for line in lines if "at_once" in line]
    assert [text.rpartition(", ")[2] for text in refusals] == ["Invalid argument"] * 2


def flow_of(plan: pb.JobPlan, guest: Guest) -> pb.FlowPlan:
    """Return the only flow of a guest."""
    (flow,) = (flow for flow in plan.flows if flow.src_nic == guest.nic.id)
    return flow


def assert_on_planned_links(pair: Pair, plan: pb.JobPlan) -> None:
    """Check for some seconds that the first guest sends, and on its planned links only."""
    lab = pair.playground.lab
    lab.captured()
    time.sleep(TRAFFIC_S)
    capture = lab.captured()
    flow = flow_of(plan, pair.guests[0])
    stream = pair.streams(plan)[flow.flow_id]
    assert capture.links_of(stream).keys() == set(flow.links)
    assert {found for link in capture.data.values() for found in link} == {stream}
