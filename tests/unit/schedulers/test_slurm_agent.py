"""`heddle slurm agent` with a squeue that prints a file, and real hooks: what each failure changes, which is little."""

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures
from types import SimpleNamespace

import grpc
import pytest

from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.programs.console.slurm import agent as agent_module
from heddle.programs.console.slurm import commands, hook, observed_jobs
from heddle.programs.console.slurm.agent import Agent, SlurmAgentOptions, run_agent
from heddle.programs.console.slurm.job_rules import JobRules
from heddle.programs.console.slurm.planned_jobs import PlannedJobs
from heddle.programs.console.slurm.topology_keeper import TopologyKeeper
from heddle.programs.console.slurm.wake_socket import WakeSocket
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc


class Jobs(rpc.JobServiceServicer, rpc.FabricServiceServicer):
    """A controller of h1 to h4 that keeps jobs, one page for each, and refuses what `refuses` names."""

    def __init__(self):
        self.ranks = {"train": ()}
        self.renewed = []
        self.requests = []
        self.refuses = self.refuses_previews = None
        self.refuses_algorithm = None
        self.assumed = set()
        self.pairs, self.sends = [], ""
        self.previews = []
        self.address = ""

    def GetTopology(self, request, context):
        kinds = [(n, kind) for n in range(1, 5) for kind in ("compute", "storage")]
        return pb.Topology(
            switches=[pb.Switch(id="leaf1", role="leaf")],
            nics=[
                pb.Nic(
                    id=f"h{n}-{'n' if kind == 'compute' else 's'}0", host=f"h{n}", network=kind,
                    ip=f"10.0.0.{n}", mac=f"02:00:00:00:00:0{n}", leaf_port=f"leaf1:{n}",
                )
                for n, kind in kinds
            ],
        )  # fmt: skip

    def SubmitJob(self, request, context):
        if self.refuses is not None:
            context.abort(self.refuses, "no\nroom")
        if self.refuses_algorithm == request.collectives[0].algorithm:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no nvlink_domain")
        self.requests.append(request)
        self.ranks[request.job_id] = tuple(request.ranks)
        self.assumed |= {request.job_id} if request.assumed else set()
        return pb.JobPlan(job_id=request.job_id, flow_count=len(request.ranks))

    def PreviewJob(self, request, context):
        self.previews.append(request)
        if self.refuses_previews is not None:
            context.abort(self.refuses_previews, "no\nroom")
        return pb.JobPlan()

    def GetPairs(self, request, context):
        return pb.JobPairs(pairs=self.pairs, sends=self.sends)

    def StreamFlows(self, request, context):
        yield pb.FlowPlanPage(flows=[])

    def ListJobs(self, request, context):
        names = sorted(self.ranks)
        at = names.index(request.page_token) if request.page_token else 0
        after = names[at + 1] if at + 1 < len(names) else ""
        proof = pb.Certificate(assumed=names[at] in self.assumed)
        return pb.ListJobsReply(jobs=[pb.JobPlan(job_id=names[at], certificate=proof)], next_page_token=after)

    def RenewJob(self, request, context):
        self.renewed.append(request.job_id)
        return pb.JobPlan()

    def ReleaseJob(self, request, context):
        del self.ranks[request.job_id]
        return pb.ReleaseJobReply()

    @property
    def planned(self):
        return {int(job.split("-")[1]): ranks for job, ranks in self.ranks.items() if job != "train"}


class LoggedAgent(Agent):
    """An agent that keeps what it logs."""

    def __init__(self, calls):
        self.lines: list[str] = []
        super().__init__(calls, 90_000, self.lines.append)


@pytest.fixture
def jobs():
    server, found = grpc.server(futures.ThreadPoolExecutor(2)), Jobs()
    rpc.add_JobServiceServicer_to_server(found, server)
    rpc.add_FabricServiceServicer_to_server(found, server)
    found.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield found
    server.stop(None).wait(10)


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """Return a function that sets what squeue prints, and its exit status."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def prints(text, status=0):
        (folder / "text").write_text(text)
        (folder / "squeue").write_text(
            f'#!/bin/sh\ncase "$*" in *--jobs*) echo "$*" | tail -c 2 | xargs -I N cat "$(dirname "$0")/N";;\n'
            f'*) cat "$(dirname "$0")/text"; exit {status};;\nesac\n'
        )
        (folder / "squeue").chmod(0o755)

    for number in (7, 8):
        (folder / str(number)).write_text("(null)|main|(null)\n")
    prints("")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return prints


@pytest.fixture
def agent(jobs, squeue):
    calls = PlannedJobs(jobs.address, 90_000)
    yield LoggedAgent(calls)
    calls.close()


def test_a_job_is_planned_once_renewed_at_once_by_the_next_agent_and_released_at_its_end(agent, jobs, squeue):
    squeue("7|7|h[1-3]\n8|8|h4\n")
    for _ in range(3):
        agent.run_pass()
    assert jobs.planned == {7: ("h1-n0", "h2-n0", "h3-n0")}
    assert jobs.renewed == []
    Agent(agent._jobs, 90_000, print).run_pass()
    assert len(jobs.renewed) == 1
    squeue("8|8|h4\n")
    agent.run_pass()
    assert list(jobs.ranks) == ["train"]
    assert [line.partition(": ")[2] for line in agent.lines] == [
        "planned as assumed, 3 flows, its fullest link 0.00",
        "released",
    ]


def test_a_job_that_is_requeued_to_other_nodes_is_released_and_planned_anew(agent, jobs, squeue):
    squeue("7|7|h[1-2]\n")
    agent.run_pass()
    squeue("7|7|h[3-4]\n")
    agent.run_pass()
    assert jobs.planned == {7: ("h3-n0", "h4-n0")}
    assert len(jobs.ranks) == 2


@pytest.mark.parametrize(
    ("text", "status"), [("", 1), ("slurm_load_jobs error: Unable to contact\n", 0), ("7|7|h[1-\n", 0), ("\x00", 0)]
)
def test_a_squeue_that_fails_or_prints_garbage_ends_no_job_and_is_one_line(agent, jobs, squeue, text, status):
    squeue("7|7|h[1-2]\n")
    agent.run_pass()
    squeue(text, status)
    for _ in range(3):
        agent.run_pass()
    assert list(jobs.planned) == [7]
    assert [line.startswith("no pass: squeue") for line in agent.lines[1:]] == [True]
    squeue("7|7|h[1-2]\n")
    agent.run_pass()
    assert (agent.lines[-1], agent.failing) == ("passes go on", "")


def test_while_squeue_fails_planned_jobs_keep_their_leases_for_an_hour(agent, jobs, squeue, monkeypatch):
    now = SimpleNamespace(s=time.monotonic())
    monkeypatch.setattr(agent_module, "time", SimpleNamespace(monotonic=lambda: now.s))
    squeue("7|7|h[1-2]\n")
    agent.run_pass()
    squeue("", 1)
    for after_s, renewals in ((29, 0), (31, 1), (60, 1), (62, 2), (3_599, 3), (3_700, 3)):
        start_s = agent._heard_s
        now.s = start_s + after_s
        agent.run_pass()
        assert len(jobs.renewed) == renewals, after_s
    assert len(agent.lines) == 2
    squeue("")
    agent.run_pass()
    assert jobs.planned == {}


@pytest.mark.parametrize(
    ("script", "line"), [("exec sleep 60", "no end within 0.2 s"), ("yes '7|7|h[1-2]'", "more than 0 MiB of output")]
)
def test_a_squeue_that_hangs_or_prints_without_end_is_one_line_and_ends_no_job(
    agent, jobs, squeue, tmp_path, monkeypatch, script, line
):
    squeue("7|7|h[1-2]\n")
    agent.run_pass()
    monkeypatch.setattr(agent_module, "SQUEUE_TIMEOUT_S", 0.2 if "no end" in line else 60.0)
    monkeypatch.setattr(commands, "MAX_BYTES", 1_000)
    (tmp_path / "bin" / "squeue").write_text(f"#!/bin/sh\n{script}\n")
    for _ in range(2):
        agent.run_pass()
    assert agent.lines[1:] == [f"no pass: squeue --noheader: {line}"]
    assert list(jobs.planned) == [7]


def test_a_job_whose_description_hangs_is_planned_by_the_next_pass(agent, jobs, squeue, tmp_path, monkeypatch):
    squeue("7|7|h[1-2]\n8|8|h[3-4]\n")
    sound = (tmp_path / "bin" / "squeue").read_text()
    (tmp_path / "bin" / "squeue").write_text(sound.replace("*--jobs*) ", "*--jobs*) sleep 60; "))
    monkeypatch.setattr(agent_module, "SQUEUE_TIMEOUT_S", 0.2)
    agent.run_pass()
    assert jobs.planned == {}
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin" / "squeue").write_text(sound)
    agent.run_pass()
    assert sorted(jobs.planned) == [7, 8]
    assert len(agent.lines) == 4  # why there was no pass, that passes go on, two plans


def test_a_job_on_more_nodes_than_slurm_can_have_is_one_line(agent, jobs, squeue):
    squeue("7|7|h[1-2]\n")
    agent.run_pass()
    squeue("7|7|h[1-2]\n8|8|x[1-100000]\n")
    agent.run_pass()
    assert list(jobs.planned) == [7]
    assert agent.lines[1:] == ["no pass: squeue: 100,000 hosts or more; at most 65,536 are possible"]


def test_nodes_that_the_fabric_does_not_know_are_left_out_of_a_plan(agent, jobs, squeue):
    squeue("7|7|h[2-3],login,x[001-900]\n8|8|h1,login\n")
    agent.run_pass()
    assert jobs.planned == {7: ("h2-n0", "h3-n0")}


def test_a_refused_job_is_one_line_and_keeps_no_other_from_being_planned(agent, jobs, squeue):
    squeue("7|7|h[1-2]\n")
    jobs.refuses = grpc.StatusCode.FAILED_PRECONDITION
    agent.run_pass()
    jobs.refuses = None
    squeue("7|7|h[1-2]\n8|8|h[3-4]\n")
    agent.run_pass()
    assert list(jobs.planned) == [8]
    assert agent.lines[0].endswith("not planned as assumed: SubmitJob: no\\nroom")


def test_of_too_many_jobs_the_oldest_are_planned_and_one_line_says_so(agent, jobs, squeue, monkeypatch):
    for module in ("heddle.programs.console.slurm.agent", "heddle.controller.schedulers.slurm_jobs"):
        monkeypatch.setattr(f"{module}.MAX_JOBS", 1)
    squeue("8|8|h[3-4]\n7|7|h[1-2]\n")
    for _ in range(2):
        agent.run_pass()
    assert list(jobs.planned) == [7]
    assert agent.lines[0] == "the first 1 jobs are planned, others are not"
    assert len(agent.lines) == 2


def test_a_controller_that_does_not_reply_is_one_line_and_the_next_pass_goes_on(agent, jobs, squeue):
    squeue("7|7|h[1-2]\n")
    jobs.refuses = grpc.StatusCode.UNAVAILABLE
    for _ in range(3):
        agent.run_pass()
    jobs.refuses = None
    agent.run_pass()
    assert list(jobs.planned) == [7]
    assert agent.lines[0] == "no pass: SubmitJob: no"
    assert len(agent.lines) == 3


def test_a_lease_that_would_end_between_two_passes_is_refused(tmp_path):
    with pytest.raises(InputError, match="--lease: must be at least 3 times --period, 30 s"):
        run_agent("127.0.0.1:1", tmp_path / "s", 10.0, 29.0, print)


class StepError(Exception):
    """Ends an agent that runs in the test's thread."""


def run_until(monkeypatch, tmp_path, jobs, holds, **options):
    """Run an agent with its socket until a condition holds, and return its lines."""
    lines, end_s = [], time.monotonic() + 40

    def wait(hooks, timeout_s):
        if holds() or time.monotonic() > end_s:
            raise KeyboardInterrupt
        time.sleep(0.02)
        return []

    monkeypatch.setattr(WakeSocket, "wait", wait)
    run_agent(jobs.address, tmp_path / "s", 0.1, 90, lines.append, SlurmAgentOptions(**options))
    return lines


def test_a_command_of_slurm_that_hangs_for_a_topology_file_keeps_no_job_from_being_planned(
    jobs, squeue, tmp_path, monkeypatch
):
    folder = tmp_path / "bin"
    (folder / "scontrol").write_text(
        '#!/bin/sh\ncd "$(dirname "$0")"\ntouch hangs\nwhile [ ! -e go ]; do sleep 0.02; done\nexit 1\n'
    )
    (folder / "scontrol").chmod(0o755)

    def planned():
        if (folder / "hangs").exists():
            squeue("7|7|h[1-2]\n")
        if 7 in jobs.planned:
            (folder / "go").touch()
            return True
        return False

    lines = run_until(monkeypatch, tmp_path, jobs, planned, topology=tmp_path / "topology.conf")
    assert 7 in jobs.planned
    assert [line.partition(": ")[2] for line in lines if "topology" in line] == [
        "not kept: scontrol show: exit status 1: it says no more"
    ]


def test_an_error_of_the_thread_beside_passes_ends_the_agent(jobs, squeue, tmp_path, monkeypatch):
    def keep(keeper, fabric, now_s):
        raise StepError

    monkeypatch.setattr(TopologyKeeper, "keep", keep)
    with pytest.raises(StepError):
        run_until(monkeypatch, tmp_path, jobs, lambda: False, topology=tmp_path / "topology.conf")
    assert not (tmp_path / "s").exists()


CODES = grpc.StatusCode


@pytest.mark.parametrize(
    ("code", "is_replanned"), [(CODES.FAILED_PRECONDITION, False), (CODES.ALREADY_EXISTS, True), (None, True)]
)
def test_what_a_job_connects_is_previewed_for_its_tenant_before_its_plan_is_released(
    jobs, squeue, tmp_path, monkeypatch, code, is_replanned
):
    now = SimpleNamespace(s=time.monotonic())
    monkeypatch.setattr(agent_module, "time", SimpleNamespace(monotonic=lambda: now.s))
    (tmp_path / "bin" / "7").write_text("ml|main|(null)\n")
    squeue("7|7|h[1-4]\n")
    jobs.refuses_previews = code
    jobs.pairs = [pb.ConnectedPair(src_nic="h1-n0", dst_nic="h3-n0", queue_pairs=1)]
    calls, lines = PlannedJobs(jobs.address, 90_000), []
    agent = Agent(calls, 90_000, lines.append, tenants=True)
    for _ in range(3):
        agent.run_pass()
        now.s += 10
    calls.close()
    assert [(each.tenant, each.assumed) for each in jobs.previews] == [("ml", False)]
    assert [each.assumed for each in jobs.requests] == [True, False][: 1 + is_replanned]
    assert len(jobs.planned) == 1
    assert ("the plan before stays: PreviewJob: no\\nroom" in lines[-1]) == (not is_replanned)
    assert agent.failing == ""


# Hooks


@pytest.fixture
def sockets(tmp_path):
    found = WakeSocket(tmp_path / "run" / "s")
    yield found
    found.close()


def test_a_hook_waits_until_a_pass_that_began_after_it_has_ended(sockets, tmp_path):
    started = threading.Thread(target=hook.wake, args=(str(tmp_path / "run" / "s"), 60.0))
    started.start()
    waiting = sockets.wait(60)
    assert len(waiting) == 1
    assert started.is_alive()
    sockets.release(waiting)
    started.join(60)
    assert not started.is_alive()


def test_without_hooks_the_wait_ends_with_the_period(sockets):
    assert sockets.wait(0.01) == []


def test_of_many_hooks_the_oldest_are_released(sockets, tmp_path, monkeypatch):
    monkeypatch.setattr("heddle.programs.console.slurm.wake_socket.MAX_WAITING", 3)
    ends = []
    for _ in range(5):
        ends.append(socket.socket(socket.AF_UNIX))
        ends[-1].connect(str(tmp_path / "run" / "s"))
    waiting = sockets.wait(60)
    assert (len(waiting), sockets.turned_away) == (3, 2)
    assert [end.recv(1) for end in ends[:2]] == [b"", b""]
    ends[2].close()  # a hook that has gone
    sockets.release(waiting)
    assert [end.recv(1) for end in ends[3:]] == [b"\n", b"\n"]
    for end in ends:
        end.close()


def test_the_socket_is_its_user_s_alone_and_a_second_agent_is_refused(sockets, tmp_path):
    path = tmp_path / "run" / "s"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(PrerequisiteError, match="another agent listens"):
        WakeSocket(path)


def test_a_stale_socket_file_is_replaced(tmp_path):
    path = tmp_path / "s"
    WakeSocket(path)._listener.close()
    WakeSocket(path).close()
    assert not path.exists()


def test_a_file_that_is_no_socket_is_kept(tmp_path):
    path = tmp_path / "s"
    path.write_text("mine")
    with pytest.raises(PrerequisiteError, match="no socket"):
        WakeSocket(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("path", ["none", "a" * 300, "nul\0", "folder"])
def test_a_hook_without_an_agent_ends_at_once_and_well(tmp_path, path):
    (tmp_path / "folder").mkdir()
    hook.wake(str(tmp_path / path))


def test_a_hook_ends_by_its_deadline_where_the_agent_hangs(tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen(1)
        hook.wake(str(tmp_path / "s"), 0.1)  # returns though nothing replies
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(100) == hook.WAKE
            assert connection.recv(100) == b""


def test_the_printed_hook_runs_without_path_and_ends_with_0(heddle_output, tmp_path):
    script = tmp_path / "hook"
    script.write_text(heddle_output("slurm", "hooks", "--socket", tmp_path / "a b"))
    script.chmod(0o755)
    assert subprocess.run([script], env={}, check=False).returncode == 0


def test_the_hook_imports_only_what_is_compiled_into_the_interpreter():
    def imported(*arguments):
        command = [sys.executable, "-I", "-S", "-X", "importtime", *arguments]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
        return {line.rpartition("|")[2].strip() for line in lines}

    assert imported(hook.__file__, "/nonexistent", "3") - imported("-c", "pass") <= {"_socket", "time"}


@pytest.mark.parametrize("command", ["prolog", "epilog"])
def test_the_hook_as_a_command_wakes_the_agent_and_does_not_import_the_command_line(sockets, tmp_path, command):
    script = (
        f"import sys; sys.argv = ['heddle', 'slurm', '{command}']; from heddle.programs.console.start import main\n"
        "main(); print('typer' in sys.modules)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, hook.VARIABLE: str(tmp_path / "run" / "s")}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    waiting = sockets.wait(60)
    assert waiting[0].recv(8) == hook.WAKE
    sockets.release(waiting)
    assert (process.communicate()[0], process.returncode) == ("False\n", 0)


@pytest.fixture
def heddle_output(capsys, monkeypatch):
    from heddle.programs.console.main import app

    def run(*arguments):
        app([*map(str, arguments)], standalone_mode=False)
        return capsys.readouterr().out

    return run


# What jobs say of themselves


def test_a_job_is_planned_as_its_comment_says_and_for_its_account_s_tenant(jobs, squeue, tmp_path):
    (tmp_path / "bin" / "7").write_text("ml|main|heddle: collective=ALL_TO_ALL bytes=5000 qps=2\n")
    (tmp_path / "bin" / "8").write_text("ml|main|heddle: collective=NONE\n9|9|h[1-4]\n")
    squeue("7|7|h[1-2]\n8|8|h[3-4]\n")
    calls, lines = PlannedJobs(jobs.address, 90_000), []
    Agent(calls, 90_000, lines.append, tenants=True).run_pass()
    calls.close()
    assert {request.tenant for request in jobs.requests} == {"ml"}
    said, assumed = (request.collectives[0] for request in sorted(jobs.requests, key=lambda each: each.job_id))
    assert (said.kind, said.bytes, said.qps_per_flow) == (pb.Collective.ALL_TO_ALL, 5_000, 2)
    assert (assumed.kind, assumed.qps_per_flow) == (pb.Collective.RING_ALL_REDUCE, 1)
    assert {request.job_id.split("-")[1]: request.assumed for request in jobs.requests} == {"7": False, "8": True}
    assert "collective='NONE' is no collective" in "".join(lines)
    assert len(jobs.planned) == 2


POLICY = """\
version: 1
slurm:
- {account: unknown, collective: TREE_ALL_REDUCE}
- {account: ml, partition: night, collective: ALL_TO_ALL, bytes: 7000, qps: 3}
- {partition: main, collective: ALL_GATHER}
"""


def test_a_rule_by_account_or_partition_comes_after_the_comment_and_before_the_assumption(jobs, squeue, tmp_path):
    said = {1: "ml|night|heddle: qps=2", 2: "ml|night|(null)", 3: "ml|main|(null)", 4: "ml|day|(null)"}
    for number, text in said.items():
        (tmp_path / "bin" / str(number)).write_text(f"{text}\n")
    squeue("".join(f"{number}|{number}|h[1-2]\n" for number in said))
    (tmp_path / "policy.yaml").write_text(POLICY)
    calls, lines = PlannedJobs(jobs.address, 90_000), []
    Agent(calls, 90_000, lines.append, rules=JobRules(tmp_path / "policy.yaml", lines.append)).run_pass()
    calls.close()
    found = [(request.collectives[0].kind, request.collectives[0].bytes, request.assumed) for request in jobs.requests]
    assert found == [
        (pb.Collective.RING_ALL_REDUCE, 10**9, False),
        (pb.Collective.ALL_TO_ALL, 7_000, False),
        (pb.Collective.ALL_GATHER, 10**9, False),
        (pb.Collective.RING_ALL_REDUCE, 10**9, True),
    ]
    words = [line.partition("planned ")[2].partition(",")[0] for line in lines]
    assert words == ["as it says", "by a rule", "by a rule", "as assumed"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("algorithm: NCCL", ["not planned as it says", "not planned by a rule", "planned as assumed"]),
        ("algorithm: NCCL_NO_PXN", ["not planned as it says", "planned by a rule"]),
    ],
)
def test_a_comment_that_the_controller_refuses_gives_way_to_the_rule_and_that_to_the_assumption(
    jobs, squeue, tmp_path, rule, words
):
    jobs.refuses_algorithm = pb.Collective.NCCL
    (tmp_path / "bin" / "7").write_text("ml|main|heddle: collective=BROADCAST algorithm=NCCL\n")
    squeue("7|7|h[1-2]\n")
    (tmp_path / "policy.yaml").write_text(f"version: 1\nslurm: [{{{rule}}}]\n")
    calls, lines = PlannedJobs(jobs.address, 90_000), []
    Agent(calls, 90_000, lines.append, rules=JobRules(tmp_path / "policy.yaml", lines.append)).run_pass()
    calls.close()
    assert [line.split(": ")[1].split(",")[0] for line in lines] == words
    assert len(jobs.planned) == 1


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("(null)", ["planned by a rule", "released", "planned as its environment says"]),
        ("heddle: qps=2", ["planned as it says"]),
    ],
)
def test_what_an_environment_says_counts_more_than_a_rule_and_less_than_a_comment(
    jobs, squeue, tmp_path, monkeypatch, comment, words
):
    monkeypatch.setattr(observed_jobs, "READ_PERIOD_S", 0.0)
    (tmp_path / "bin" / "7").write_text(f"ml|main|{comment}\n")
    squeue("7|7|h[1-2]\n")
    (tmp_path / "policy.yaml").write_text("version: 1\nslurm: [{qps: 3}]\n")
    calls, lines = PlannedJobs(jobs.address, 90_000), []
    agent = Agent(calls, 90_000, lines.append, rules=JobRules(tmp_path / "policy.yaml", lines.append))
    agent.run_pass()
    jobs.sends = "collective=ALL_TO_ALL qps=5"
    for _ in range(3):
        agent.run_pass()
    calls.close()
    assert [line.split(": ")[1].split(",")[0] for line in lines] == words
    assert jobs.requests[-1].collectives[0].qps_per_flow == (2 if "qps" in comment else 5)


def test_rules_that_become_wrong_are_one_line_and_the_former_stay(tmp_path):
    path, lines = tmp_path / "policy.yaml", []
    path.write_text(POLICY)
    rules = JobRules(path, lines.append)
    before = rules.current()
    for text in ("slurm: [{collective: RING}]", "slurm: [{qps: 17}]", "{", ""):
        path.write_text(text)
        assert rules.current() == rules.current() == before
    path.unlink()
    assert rules.current() == before
    assert len(lines) == 5
    assert all("the former rules stay" in line and "\n" not in line for line in lines)
    path.write_text("slurm: []")
    assert rules.current() == ()
    path.write_text("slurm: [{partitoin: main}]")
    with pytest.raises(InputError, match=r"slurm\[0\].partitoin"):
        JobRules(path, lines.append)
