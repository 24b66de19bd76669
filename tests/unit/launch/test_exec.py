"""`heddle exec` as processes beside a controller with fake switches: nodes meet, get ports, renew, and end the job."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import grpc
import pytest

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.verbs import compiled
from tests.unit.api.conftest import running

ROOT = Path(__file__).parents[3]
OPENS = shutil.which("cc") is not None
IMPATIENT = (
    "from heddle.client import connection; from heddle.programs.console import main; "
    "connection.CONNECT_TIMEOUT_S = 0.2; main.main()"
)
ENDS_ON_REQUEST = 'echo $$ >"$1.pid"; trap "exit 9" TERM; while [ ! -e "$1.end" ]; do sleep 0.05; done; exit 7'


async def begin(*arguments, program=("-m", "heddle.programs.console.main"), **environment):
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *program, "exec", *map(str, arguments)),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )


async def result(process):
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), errors.decode()


async def until(holds):
    async with asyncio.timeout(60):
        while True:
            found = await holds() if asyncio.iscoroutinefunction(holds) else holds()
            if found:
                return found
            await asyncio.sleep(0.02)


@pytest.fixture
async def controller():
    async with running() as found:
        await found.connect_all()
        yield found


def node(controller, rank, *more, job="ring", nodes=2):
    return ("--server", controller.addresses["grpc"], "--job", job, "--node-rank", rank, "--node-count", nodes, *more)


async def plan_of(controller, job):
    try:
        return await controller.jobs.GetJob(pb.GetJobRequest(job_id=job))
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return None
        raise


@pytest.mark.skipif(not OPENS, reason="no C compiler")
async def test_nodes_meet_their_queue_pairs_get_planned_ports_and_the_last_to_end_releases(controller, tmp_path):
    programs = compiled(tmp_path)
    opens = f'"{programs.by_dlvsym}" IBVERBS_1.1 4 0 3 >"$1.out"; {ENDS_ON_REQUEST}'
    first = await begin(
        *node(controller, 0, "--host", "h1", "--qps", 4, "--", "sh", "-c", opens, "sh", tmp_path / "first"),
        LD_LIBRARY_PATH=str(programs.libraries),
        HEDDLE_PORT_DEADLINE_MS="30000",
        XDG_CACHE_HOME=str(tmp_path),
    )
    second = await begin(
        *node(
            controller, 1, "--nic", "h3-n0", "--qps", 4, "--", "sh", "-c", ENDS_ON_REQUEST, "sh", tmp_path / "second"
        ),
        XDG_CACHE_HOME=str(tmp_path),
    )
    await until(lambda: (tmp_path / "first.pid").exists() and (tmp_path / "second.pid").exists())
    plan = await plan_of(controller, "ring")
    planned = [flow.udp_source_port for flow in plan.flows if (flow.src_nic, flow.dst_nic) == ("h1-n0", "h3-n0")]
    labels = [int(line.split()[1]) for line in (tmp_path / "first.out").read_text().splitlines()[:-1]]
    assert [0xC000 | ((label & 0x3FFF) ^ (label >> 14)) for label in labels] == planned
    assert len(planned) == 4
    (tmp_path / "first.end").touch()
    assert await result(first) == (7, "", "")
    assert await plan_of(controller, "ring") is not None
    (tmp_path / "second.end").touch()
    assert await result(second) == (7, "", "")
    assert await plan_of(controller, "ring") is None


async def test_the_lease_is_renewed_while_the_command_runs_and_ends_a_killed_job(controller, tmp_path):
    only = node(controller, 0, "--nic", "h1-n0", "--nic", "h3-n0", "--no-shim", "--lease", 1, nodes=1)
    process = await begin(*only, "--", "sh", "-c", ENDS_ON_REQUEST, "sh", tmp_path / "only")
    await until(lambda: (tmp_path / "only.pid").exists() and (tmp_path / "only.pid").read_text())
    begun = (await plan_of(controller, "ring")).lease_expires_unix_ms

    async def renewed():
        return (await plan_of(controller, "ring")).lease_expires_unix_ms > begun + 1_000

    await until(renewed)
    process.kill()
    (tmp_path / "only.end").touch()  # the command outlives it, and holds the ends of its output
    await process.wait()

    async def released():
        return await plan_of(controller, "ring") is None

    await until(released)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 9), (signal.SIGUSR1, 128 + signal.SIGUSR1)], ids=["trapped", "deadly"]
)
async def test_a_signal_goes_to_the_command_and_its_status_comes_back(controller, tmp_path, number, status):
    only = node(controller, 0, "--nic", "h1-n0", "--nic", "h3-n0", "--no-shim", nodes=1)
    process = await begin(*only, "--", "sh", "-c", ENDS_ON_REQUEST, "sh", tmp_path / "only")
    await until(lambda: (tmp_path / "only.pid").exists() and (tmp_path / "only.pid").read_text())
    process.send_signal(number)
    assert (await result(process))[0] == status
    assert await plan_of(controller, "ring") is None


async def test_a_signal_while_the_command_starts_goes_to_it(tmp_path):
    script = """
import os, signal, subprocess, sys, time
from heddle.programs.console.launch.child import Child
start, ready = subprocess.Popen, sys.argv[-1]
def started(*arguments, **options):
    process = start(*arguments, **options)
    while not os.path.exists(ready):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    return process
subprocess.Popen = started
command = 'trap "exit 9" TERM; : >"$1"; for i in $(seq 1000); do sleep 0.05; done'
sys.exit(Child().run(("sh", "-c", command, "sh", ready), os.environ))
"""
    assert (await result(await begin(tmp_path / "ready", program=("-c", script))))[0] == 9


async def test_without_a_controller_the_command_runs_and_one_line_says_so():
    elsewhere = ("--server", "127.0.0.1:1", "--job", "j", "--node-rank", 0, "--node-count", 1)
    options = ((), ("--require-plan",))
    begun = [await begin(*elsewhere, *more, "--", "echo", "runs", program=("-c", IMPATIENT)) for more in options]
    (status, out, errors), refused = [await result(process) for process in begun]
    assert (status, out, errors.count("\n")) == (0, "runs\n", 1)
    assert "the command runs without planned paths" in errors
    assert (refused[0], refused[1], refused[2].count("\n")) == (1, "", 1)


class Waiting(rpc.JobServiceServicer, rpc.FabricServiceServicer):
    """A controller at which the other nodes of a job never arrive."""

    def __init__(self):
        self.joined, self.withdrawn = asyncio.Event(), asyncio.Event()

    async def GetTopology(self, request, context):
        return pb.Topology(nics=[pb.Nic(id="n", host="h", ip="10.0.0.1", network="compute")])

    async def JoinJob(self, request, context):
        self.joined.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn.set()


async def test_a_node_that_is_ended_while_it_waits_for_others_withdraws_and_runs_nothing(tmp_path):
    service, server = Waiting(), grpc.aio.server()
    rpc.add_JobServiceServicer_to_server(service, server)
    rpc.add_FabricServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        job = ("--job", "j", "--node-rank", 0, "--node-count", 2, "--host", "h")
        process = await begin("--server", f"127.0.0.1:{port}", *job, "--", "touch", tmp_path / "ran")
        await asyncio.wait_for(service.joined.wait(), 60)
        process.send_signal(signal.SIGTERM)
        assert (await result(process))[0] == 128 + signal.SIGTERM
        await asyncio.wait_for(service.withdrawn.wait(), 60)
        assert not (tmp_path / "ran").exists()
        begun = await begin("--server", f"127.0.0.1:{port}", *job, "--wait", 1, "--", "touch", tmp_path / "ran")
        status, _, errors = await result(begun)
        assert (status, (tmp_path / "ran").exists()) == (0, True)
        assert errors == "heddle: j: not all 2 nodes registered within 1 s: the command runs without planned paths\n"
    finally:
        await server.stop(0)
