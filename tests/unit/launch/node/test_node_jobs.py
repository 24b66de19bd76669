"""A node's agent: ports of the caller's job alone, requests that wait for a plan, limits, and what is no request."""

import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import DeniedError, NotFoundError, PrerequisiteError, UnavailableError
from heddle.programs.console.launch.node import jobs as node_jobs
from heddle.programs.console.launch.node import task_prolog
from heddle.programs.console.launch.node.agent import _free
from heddle.programs.console.launch.node.claim import claim_of
from heddle.programs.console.launch.node.jobs import NodeJobs
from heddle.programs.console.launch.responder import LOWEST_PORT, MAGIC, NO_GID, REPLY, REQUEST, Caller, PortServer
from heddle.v1 import heddle_pb2 as pb

FABRIC = parse_fabric(
    "version: 1\nname: n\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 2}\n", "f"
)
USER = 1000


def gid(host):
    return bytes(10) + b"\xff\xff" + bytes((10, 0, 0, host))


class Controller:
    """A controller with jobs that send from h1 to h3, by the port of their first queue pair."""

    def __init__(self, **ports):
        self.ports = dict(ports)
        self.fails = self.refuses_reports = None
        self.calls = 0
        self.queue_pairs = 1
        self.assumed, self.reports, self.said = set(), [], []

    def fabric(self):
        return FABRIC

    def plans(self, prefix):
        self.calls += 1
        if self.fails:
            raise self.fails
        return [
            pb.JobPlan(job_id=job, generation=port, certificate=pb.Certificate(assumed=job in self.assumed))
            for job, port in self.ports.items()
            if job.startswith(prefix)
        ]

    def report_pairs(self, job, host, pairs, sends=""):
        if self.refuses_reports:
            raise self.refuses_reports
        if sends:
            self.said.append((job, host, sends))
        self.reports.append((job, host, pairs))

    def flows(self, job):
        if job not in self.ports:
            raise NotFoundError(job)
        return [
            pb.FlowPlan(
                flow_id=f"{job}/0/0-1/{n}", src_nic="h1-n0", dst_nic="h3-n0", queue_pair=n,
                udp_source_port=self.ports[job] + n,
            )
            for n in range(self.queue_pairs)
        ]  # fmt: skip


class Node:
    """A node's jobs whose processes have files of their own instead of /proc; `lines` is what was logged."""

    def __init__(self, folder, controller):
        self.folder, self.lines = folder, []
        self.jobs = NodeJobs(controller, ["h1"], self.lines.append, proc=folder)

    def process(self, pid, environment):
        (self.folder / str(pid)).mkdir(exist_ok=True)
        (self.folder / str(pid) / "environ").write_bytes(environment)
        (self.folder / str(pid) / "cgroup").write_text("0::/\n")

    def port(self, pid, src=1, dst=3, queue_pair=5, uid=USER):
        return self.jobs.ports(Caller(pid, uid))(gid(src), gid(dst), queue_pair)

    def counts(self):
        found = self.jobs.counts
        return found.planned, found.unplanned, found.unknown


@pytest.fixture
def controller():
    return Controller(**{"slurm-7-a": 50_007, "slurm-77-a": 50_077, "train": 50_001})


@pytest.fixture
def node(tmp_path, controller):
    found = Node(tmp_path, controller)
    found.process(1, b"SLURM_JOB_ID=7")
    found.process(2, b"SLURM_JOB_ID=77")
    found.process(3, b"HEDDLE_JOB_ID=train")
    found.process(4, b"HEDDLE_JOB_ID=trai")
    found.process(5, b"HOME=/root")
    return found


def test_each_process_gets_the_ports_of_its_own_job_once_that_was_sought(node):
    assert [node.port(pid) for pid in (1, 2, 3, 4)] == [None] * 4
    node.jobs.run_pass(0.0, only_new=True)
    assert [node.port(pid) for pid in (1, 2, 3, 4, 5, 6, 0)] == [50_007, 50_077, 50_001, 0, 0, 0, 0]
    assert [node.port(1, src=1, dst=2), node.port(1, src=3, dst=1)] == [0, 0]
    assert node.counts() == (3, 2, 4)


def test_a_plan_that_changes_is_read_with_the_next_pass_and_one_that_ends_keeps_its_ports(node, controller):
    node.port(1)
    node.jobs.run_pass(0.0)
    controller.ports["slurm-7-b"] = 60_000
    node.jobs.run_pass(1.0)
    assert node.port(1) == 60_000
    controller.ports.clear()
    node.jobs.run_pass(2.0)
    assert node.port(1) == 60_000
    node.jobs.run_pass(time.monotonic() + node_jobs.IDLE_S + 1)
    assert node.port(1) is None


def test_a_controller_out_of_reach_is_one_line_and_queue_pairs_keep_their_own_ports(node, controller):
    controller.fails = UnavailableError("no\ncontroller")
    for _ in range(3):
        for pid in (1, 2, 3):
            node.port(pid)
        node.jobs.run_pass(0.0)
    assert controller.calls == 3  # one a pass, however many jobs there are
    assert [node.port(pid) for pid in (1, 2, 3)] == [0, 0, 0]
    controller.fails = None
    node.jobs.run_pass(0.0)
    assert node.port(1) == 50_007
    assert node.lines[0] == "plans are not read: no"
    assert node.lines[-1] == "plans are read again"
    assert len(node.lines) == 5


def test_a_user_with_many_names_of_jobs_forgets_its_own_and_no_other_user_s(node, monkeypatch):
    monkeypatch.setattr(node_jobs, "MAX_JOBS_OF_A_USER", 3)
    node.port(1, uid=1)
    node.jobs.run_pass(0.0)
    for number in range(9):
        node.process(9, b"HEDDLE_JOB_ID=j%d" % number)
        node.port(9, uid=2)
    assert node.jobs.counts.forgotten == 6
    assert node.port(1, uid=1) == 50_007


def test_queue_pairs_of_another_user_take_no_turns_of_a_job(node, controller):
    controller.queue_pairs = 2
    for uid in (1, 2):
        node.port(3, uid=uid)
    node.jobs.run_pass(0.0)
    found = [node.port(3, queue_pair=n, uid=uid) for n in (5, 6, 7) for uid in (1, 2)]
    assert found == [50_001, 50_001, 50_002, 50_002, 50_001, 50_001]


def test_what_an_assumed_job_connects_is_reported_each_period_and_of_other_jobs_nothing(node, controller):
    controller.assumed = {"slurm-7-a"}
    for pid in (1, 3):
        node.port(pid)
    node.jobs.run_pass(0.0)
    for queue_pair in range(30):
        for dst in (2, 3, 9):
            node.port(1, dst=dst, queue_pair=queue_pair)
        node.port(3, queue_pair=queue_pair)
    for _ in range(2):
        node.jobs.run_pass(0.0)
    wanted = {("h1-n0", "h2-n0"): 16, ("h1-n0", "h3-n0"): 16}
    assert controller.reports == [("slurm-7-a", "h1", wanted)] * 2  # another controller may have taken over
    node.jobs.run_pass(0.0, only_new=True)
    controller.ports = {"slurm-7-b": 50_000}
    node.jobs.run_pass(0.0)
    assert controller.reports[2:] == [("slurm-7-b", "h1", wanted)]


def test_all_claims_to_a_job_are_one_report(node, controller, monkeypatch):
    monkeypatch.setattr(node_jobs, "MAX_PAIRS", 2)
    controller.assumed = {"slurm-7-a"}
    node.process(6, b"HEDDLE_JOB_ID=slurm-7-a")
    for _ in range(2):
        for pid, uid, dst, queue_pair in ((1, 1, 2, 5), (1, 2, 2, 6), (6, 1, 3, 7), (6, 1, 4, 8)):
            node.port(pid, uid=uid, dst=dst, queue_pair=queue_pair)
        node.jobs.run_pass(0.0)
    assert controller.reports[-1] == ("slurm-7-a", "h1", {("h1-n0", "h2-n0"): 2, ("h1-n0", "h3-n0"): 1})
    assert len(controller.reports) == 1


def test_a_report_that_is_refused_is_one_line_of_its_own_and_plans_are_read(node, controller):
    controller.assumed = {"slurm-7-a"}
    node.port(1)
    node.jobs.run_pass(0.0)
    node.port(1)
    controller.refuses_reports = DeniedError("viewer:v may\nnot")
    for _ in range(3):
        node.jobs.run_pass(0.0)
    controller.refuses_reports = None
    node.jobs.run_pass(0.0)
    assert node.lines[1:] == ["pairs are not reported: viewer:v may", "pairs are reported again"]


def test_what_a_process_says_that_its_job_sends_is_reported_each_period_also_where_nothing_is_assumed(node, controller):
    node.process(1, b"SLURM_JOB_ID=7\0HEDDLE_SENDS=collective=ALL_TO_ALL qps=2")
    node.process(2, b"SLURM_JOB_ID=77\0HEDDLE_SENDS=a\nb")
    node.port(1)
    node.port(2)
    node.jobs.run_pass(0.0)
    node.process(1, b"SLURM_JOB_ID=7\0HEDDLE_SENDS=qps=9")  # the first one counts
    node.port(1)
    node.jobs.run_pass(0.0)
    assert controller.said == [("slurm-7-a", "h1", "collective=ALL_TO_ALL qps=2")] * 2
    assert controller.reports == [("slurm-7-a", "h1", {})] * 2


def test_jobs_that_keep_coming_leave_no_other_unread(node, controller, monkeypatch):
    now, seen = SimpleNamespace(s=0.0), []
    monkeypatch.setattr(node_jobs, "time", SimpleNamespace(monotonic=lambda: now.s))
    ended = threading.Event()

    def run_pass(now_s, *, only_new):
        seen.append((now_s, only_new))
        now.s += 2
        node.jobs.wake()  # another new job
        if len(seen) == 6:
            ended.set()

    monkeypatch.setattr(node.jobs, "run_pass", run_pass)
    node.jobs.wake()
    node.jobs.run_passes(ended, 5.0)
    assert [now_s for now_s, only_new in seen if not only_new] == [6.0]


def test_a_process_whose_request_is_held_is_read_once(node, served, monkeypatch):
    node.process(os.getpid(), b"SLURM_JOB_ID=7")
    read = []

    def counted(*files):
        read.append(files)
        return claim_of(*files)

    monkeypatch.setattr(node_jobs, "claim_of", counted)
    assert ask(served.path) == 0
    assert (len(read), served.late) == (1, 1)


def ask(path, request=None):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        end.settimeout(10)
        end.connect(path)
        end.send(request or REQUEST.pack(MAGIC, 9, gid(1), gid(3), 5, 6))
        found = end.recv(100)
    return REPLY.unpack(found)[2] if found else None


@pytest.fixture
def served(node, tmp_path):
    with PortServer(str(tmp_path / "socket"), node.jobs.ports) as found:
        yield found


def test_a_request_waits_for_the_plan_of_a_job_that_is_new(node, served):
    node.process(os.getpid(), b"SLURM_JOB_ID=7")
    found = []
    asking = threading.Thread(
        target=lambda: found.append(ask(served.path, REQUEST.pack(MAGIC, 9, NO_GID, NO_GID, 0, 0)))
    )
    asking.start()
    while not node.jobs._known:
        time.sleep(0.001)
    node.jobs.run_pass(0.0, only_new=True)
    asking.join(10)
    assert found == [LOWEST_PORT]
    assert ask(served.path) == 50_007


def test_a_request_that_is_held_in_vain_gets_no_port_and_is_counted(node, served):
    node.process(os.getpid(), b"SLURM_JOB_ID=7")
    assert ask(served.path) == 0
    assert served.late == 1


@pytest.mark.parametrize(
    "request_", [b"x", b"x" * 47, b"x" * 48, b"x" * 5_000, REQUEST.pack(1, 9, gid(1), gid(3), 5, 6)]
)
def test_what_is_no_request_gets_no_reply_is_counted_and_the_next_is_served(node, served, request_):
    node.process(os.getpid(), b"HOME=/root")
    assert ask(served.path, request_) is None
    assert ask(served.path) == 0
    assert served.refused == 1


def test_a_socket_file_of_an_agent_that_has_ended_is_replaced_and_one_that_listens_or_is_none_is_not(tmp_path):
    path = tmp_path / "run" / "socket"
    _free(path)
    with (
        PortServer(str(path), lambda caller: lambda *request: 0),
        pytest.raises(PrerequisiteError, match="another agent"),
    ):
        _free(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stale:
        stale.bind(str(path))
    _free(path)
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(PrerequisiteError, match="no socket"):
        _free(path)


def test_a_task_gets_its_variables_only_where_the_agent_replies_and_the_library_is_there(node, served, tmp_path):
    node.process(os.getpid(), b"HOME=/root")
    library = tmp_path / "port-shim.so"
    assert task_prolog.variables(served.path, str(library), {}) == {}
    library.touch()
    wanted = {"HEDDLE_PORT_SOCKET": served.path, "LD_AUDIT": f"a.so:{library}"}
    assert task_prolog.variables(served.path, str(library), {"LD_AUDIT": "a.so"}) == wanted
    assert task_prolog.variables(served.path, str(library), {"HEDDLE_PORT_SOCKET": ""}) == {}
    assert task_prolog.variables(str(tmp_path / "none"), str(library), {}) == {}
    assert (task_prolog.MAGIC, task_prolog.REQUEST.size) == (MAGIC, REQUEST.size)
