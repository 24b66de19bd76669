"""`ApplyFabric` at a controller process: switches that decode its bytes, a job that runs, and SIGKILL at any moment."""

import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.rules.trace import Packet, Tracer
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.controllers.controller_process import Controller
from tests.support.fabrics.grown_files import LEAF_MORE, SPINE_MORE, YARD
from tests.support.processes.running_switches import Switches

PATIENCE_S = 60.0
BOTH_MORE = LEAF_MORE + SPINE_MORE.removeprefix(YARD) + '  - {a: "leaf4:9", b: "spine3:4", gbps: 40}\n'
READ = pb.GetJobRequest(job_id="mesh")


class Site:
    """A controller process on a state directory, and the switches of the largest fabric that it is to have."""

    def __init__(self, folder: Path) -> None:
        self.file, self.state = folder / "yard.yaml", folder / "state"
        self.file.write_text(YARD)
        self.controller = Controller(self.file, more=("--state", str(self.state)))
        self.fakes = Switches(parse_fabric(BOTH_MORE, "both"))
        self.fakes.connect(self.controller.openflow)

    def apply(self, text: str, *, dry_run: bool = False) -> pb.ApplyFabricReply:
        return self.controller.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=dry_run))

    def apply_beside_another(self, text: str) -> None:
        """Apply a file twice at once, while a switch connects again and again: one of the calls is refused."""
        request = pb.ApplyFabricRequest(fabric=text)
        calls = [self.controller.fabric.ApplyFabric.future(request) for _ in range(2)]
        while not all(call.done() for call in calls):
            self.fakes.hang_up("leaf1")
            time.sleep(0.5)
        assert {call.code() for call in calls} == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}

    def refusal(self, text: str) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as why:
            self.apply(text)
        return why.value.code(), why.value.details() or ""

    def off_their_paths(self, fabric: Fabric, plan: pb.JobPlan) -> list[str]:
        """Return the flows whose data or ACKs the rules that switches hold do not lead over the planned path."""
        rules = self.fakes.run(
            lambda: {
                name: switch.tables.rules() for name, switch in self.fakes.by_id.items() if name in fabric.switch_by_id
            }
        )
        tracer, nics = Tracer(fabric, rules), fabric.nic_by_id

        def taken(source: str, target: str, port: int) -> list[str]:
            packet = Packet.roce(src_ip=nics[source].ip, dst_ip=nics[target].ip, udp_src=port)
            return list(tracer.trace(source, packet).links)

        return [
            flow.flow_id
            for flow in plan.flows
            if taken(flow.src_nic, flow.dst_nic, flow.udp_source_port) != list(flow.links)
            or taken(flow.dst_nic, flow.src_nic, flow.reverse_udp_source_port) != list(flow.reverse_links)
        ]

    def submit(self, name: str, *ranks: int) -> pb.JobPlan:
        request = pb.SubmitJobRequest(
            job_id=name, ranks=[f"h{number}-n0" for number in ranks],
            collectives=[pb.Collective(kind="ALL_TO_ALL", bytes=3_000)],
        )  # fmt: skip
        return self.controller.jobs.SubmitJob(request, timeout=PATIENCE_S)

    def start_again(self, *fabric: str) -> None:
        """Start another controller on the ports of the last, without a file or with one."""
        last = self.controller
        self.controller = Controller(
            self.file, last.openflow, ("--grpc", last.grpc, "--state", str(self.state)), without_file=not fabric
        )


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    found = Site(folder)
    try:
        yield found
    finally:
        if found.controller.process.poll() is None:
            found.controller.end()
        found.fakes.close()


@contextmanager
def reader(found: Site) -> Iterator[list[str | None]]:
    """Read the job all the time, by a channel of its own, while the context lasts; yields which reads have failed."""
    failed: list[str | None] = []
    over = threading.Event()

    def read() -> None:
        with grpc.insecure_channel(found.controller.grpc) as channel:
            jobs = rpc.JobServiceStub(channel)
            while not over.wait(0.01):
                try:
                    jobs.GetJob(READ, timeout=PATIENCE_S)
                except grpc.RpcError as error:
                    failed.append(error.details())

    reading = threading.Thread(target=read)
    reading.start()
    try:
        yield failed
    finally:
        over.set()
        reading.join()


def paths_and_ports(plan: pb.JobPlan) -> list[tuple[object, ...]]:
    return [(tuple(each.links), each.udp_source_port, each.reverse_udp_source_port) for each in plan.flows]


def test_a_running_job_keeps_paths_and_ports_while_the_fabric_grows_and_new_hosts_are_planned(tmp_path):
    with site(tmp_path) as found:
        found.controller.wait_in_force(parse_fabric(YARD, "yard"))
        plan = found.submit("mesh", 1, 2, 3, 4, 5, 6)
        said = found.apply(BOTH_MORE, dry_run=True)
        assert not said.applied
        assert {each.switch for each in said.rules} == {f"leaf{n}" for n in (1, 2, 3, 4)} | {
            f"spine{n}" for n in (1, 2, 3)
        }
        assert [(job.job_id, job.kind) for job in said.jobs] == [("mesh", pb.JobFate.NOTHING)]
        for text in (LEAF_MORE, BOTH_MORE):
            grown = parse_fabric(text, "grown")
            with reader(found) as failed:
                found.apply_beside_another(text)
                served = {each.id for each in found.controller.fabric.GetTopology(pb.GetTopologyRequest()).switches}
                found.controller.wait_in_force(grown)
            assert served == grown.switch_by_id.keys(), "the reply comes once the new fabric is served"
            assert len(failed) <= 1, "at most the call that is under way when the former life ends"
            again = found.controller.jobs.GetJob(READ)
            assert paths_and_ports(again) == paths_and_ports(plan)
            assert found.off_their_paths(grown, again) == []
        new = found.submit("new", 1, 7, 8)
        assert found.off_their_paths(grown, new) == []
        assert any("leaf4" in link for flow in new.flows for link in flow.links)
        again = found.apply(BOTH_MORE)  # nothing differs
        assert (again.applied, list(again.rules)) == (False, [])


def test_a_file_that_does_not_fit_is_refused_in_one_line_and_nothing_changes(tmp_path):
    with site(tmp_path) as found:
        found.controller.wait_in_force(parse_fabric(YARD, "yard"))
        plan = found.submit("mesh", 1, 2, 3, 4, 5, 6)
        for text, words in (
            (YARD.replace("spines: 2", "spines: 1"), "switch spine2 is in use: `heddle drain spine2` first"),
            (YARD.replace("leaves: 3", "leaves: many"), "leaves"),
        ):
            code, details = found.refusal(text)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert words in details
            assert "\n" not in details
        assert list(found.controller.jobs.GetJob(READ).flows) == list(plan.flows)
        assert len(found.controller.fabric.GetTopology(pb.GetTopologyRequest()).switches) == 5


def test_the_file_of_before_is_refused_while_jobs_run_and_without_a_file_the_fabric_in_force_is_continued(tmp_path):
    with site(tmp_path) as found:
        found.controller.wait_in_force(parse_fabric(YARD, "yard"))
        plan = found.submit("mesh", 1, 2, 3, 4, 5, 6)
        assert found.apply(LEAF_MORE).applied
        found.controller.wait_in_force(parse_fabric(LEAF_MORE, "grown"))
        found.controller.end()
        command = [sys.executable, "-m", "heddle.programs.console.main", "run", str(found.file)]
        refused = subprocess.run([*command, "--state", str(found.state)], capture_output=True, text=True, timeout=60)
        assert refused.returncode == 2
        assert re.search(r"is not the fabric in force, on which mesh run: .*`heddle fabric apply", refused.stderr)
        found.start_again()
        found.controller.wait_in_force(parse_fabric(LEAF_MORE, "grown"))
        assert paths_and_ports(found.controller.jobs.GetJob(READ)) == paths_and_ports(plan)


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.slow])])
@pytest.mark.timeout(3_600)
def test_a_controller_that_is_killed_at_any_moment_of_a_change_has_the_former_fabric_or_the_new_one(tmp_path, kills):
    drawn, texts = random.Random(kills), (YARD, LEAF_MORE)
    fabrics = {text: parse_fabric(text, "yard") for text in texts}
    with site(tmp_path) as found:
        found.controller.wait_in_force(fabrics[YARD])
        plan = found.submit("mesh", 1, 2, 3, 4, 5, 6)
        for _ in range(kills):
            if len(found.controller.fabric.GetTopology(pb.GetTopologyRequest()).switches) == 6:
                found.controller.fabric.Drain(pb.DrainRequest(target="leaf4"))
                wanted = YARD
            else:
                wanted = LEAF_MORE
            calling = threading.Thread(target=lambda text=wanted: _applied(found, text))
            calling.start()
            time.sleep(drawn.uniform(0, 3))
            found.controller.kill()
            calling.join()
            found.start_again()
            names = {each.id for each in found.controller.fabric.GetTopology(pb.GetTopologyRequest()).switches}
            (there,) = [fabric for fabric in fabrics.values() if fabric.switch_by_id.keys() == names]
            found.controller.wait_in_force(there)
            again = found.controller.jobs.GetJob(READ)
            assert paths_and_ports(again) == paths_and_ports(plan)
            assert found.off_their_paths(there, again) == []


def _applied(found: Site, text: str) -> None:
    try:
        found.apply(text)
    except (grpc.RpcError, ValueError):  # it was killed, or its channel closed
        return
