"""A node's agent with mutual TLS: which certificates read plans and report pairs, and the line that others get."""

import asyncio
from contextlib import closing

import pytest

from heddle.foundation.identity import TLS_VARIABLE, Role
from heddle.programs.console.launch.node.jobs import NodeJobs
from heddle.programs.console.launch.responder import Caller
from heddle.programs.console.slurm.planned_jobs import PlannedJobs
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.certified_callers import Certified, certified
from tests.unit.api.conftest import running

JOB = "slurm-7-0123456789ab"
TIMEOUT_S = 60
USER = 1000


def gid(address):
    return bytes(10) + b"\xff\xff" + address.to_bytes(4, "big")


class Node:
    """The agent of h1, whose process 1 belongs to the job; `lines` is what was logged."""

    def __init__(self, calls, proc):
        (proc / "1").mkdir(parents=True)
        (proc / "1" / "environ").write_bytes(b"SLURM_JOB_ID=7")
        (proc / "1" / "cgroup").write_text("0::/\n")
        self.lines, self._calls = [], calls
        self.jobs = NodeJobs(calls, ["h1"], self.lines.append, proc=proc)

    def port(self):
        """Return the port from h1 to h3 after a pass that reads plans, and report what is connected."""
        ends = gid(0x0A000001), gid(0x0A000003)
        self.jobs.ports(Caller(1, USER))(*ends, 5)
        self.jobs.run_pass(0.0)
        found = self.jobs.ports(Caller(1, USER))(*ends, 5)
        self.jobs.run_pass(0.0)
        return found


@pytest.fixture
async def site(tmp_path, monkeypatch):
    """Return what has an agent of a certificate: the port that it gives, its lines, and the job's reported pairs."""
    async with certified(tmp_path, monkeypatch) as callers, running() as controller:
        await controller.connect_all()
        stub = rpc.JobServiceStub(callers.channel(Role.OPERATOR, "ada"))
        ring = pb.Collective(kind=pb.Collective.RING_ALL_REDUCE, bytes=10**9)
        request = pb.SubmitJobRequest(job_id=JOB, ranks=["h1-n0", "h3-n0"], collectives=[ring], assumed=True)
        plan = await stub.SubmitJob(request, timeout=TIMEOUT_S)
        (wanted,) = (flow.udp_source_port for flow in plan.flows if flow.src_nic == "h1-n0")

        def run(name):
            with closing(PlannedJobs(f"127.0.0.1:{callers.port}", 0)) as calls:
                node = Node(calls, tmp_path / "proc" / name)
                return node.port() == wanted, node.lines

        async def agent(role, by=callers):
            name = role or "none"
            monkeypatch.delenv(TLS_VARIABLE, raising=False)
            if role:
                monkeypatch.setenv(TLS_VARIABLE, str(by.folder(role, "h1")))
            is_planned, lines = await asyncio.to_thread(run, name)
            pairs = await stub.GetPairs(pb.GetJobRequest(job_id=JOB), timeout=TIMEOUT_S)
            return is_planned, lines, [(pair.src_nic, pair.dst_nic) for pair in pairs.pairs]

        yield agent


async def test_an_operator_s_certificate_reads_plans_and_reports_pairs(site):
    is_planned, lines, pairs = await site(Role.OPERATOR)
    assert (is_planned, pairs) == (True, [("h1-n0", "h3-n0")])
    assert lines == [f"{JOB}: its plan is known, for processes of user {USER}"]


async def test_a_viewer_s_certificate_gives_programs_their_ports_and_reports_nothing_in_one_line(site):
    is_planned, lines, pairs = await site(Role.VIEWER)
    assert (is_planned, pairs) == (True, [])
    (why,) = lines[1:]
    assert why.startswith("pairs are not reported: ")


@pytest.mark.parametrize("role", [None, Role.OPERATOR], ids=["none", "another authority"])
async def test_without_a_certificate_or_with_another_authority_s_programs_keep_their_ports_in_one_line(
    site, tmp_path, role
):
    other = Certified(tmp_path / "other") if role else None
    is_planned, lines, pairs = await site(role, other)
    assert (is_planned, pairs) == (False, [])
    (why,) = lines
    assert why.startswith("plans are not read: ")
