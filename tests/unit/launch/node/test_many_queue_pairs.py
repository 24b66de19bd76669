"""Real programs at a node's agent: one with very many queue pairs, and another one beside it."""

import shutil
import subprocess

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.programs.console.launch import planned_ports
from heddle.programs.console.launch.node.jobs import NodeJobs
from heddle.programs.console.launch.port_shim import shim_library
from heddle.programs.console.launch.responder import PortServer
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.verbs import compiled

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
FABRIC = parse_fabric(
    "version: 1\nname: n\ngenerate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 2}\n", "f"
)
QPS = 4
MAX_QUEUE_PAIRS = 200


class Controller:
    def fabric(self):
        return FABRIC

    def plans(self, prefix):
        return [pb.JobPlan(job_id=prefix + "a", generation=1)]

    def flows(self, job):
        return [
            pb.FlowPlan(flow_id=str(n), src_nic="h1-n0", dst_nic="h2-n0", queue_pair=n, udp_source_port=50_000 + n)
            for n in range(QPS)
        ]

    def report_pairs(self, job, host, pairs, sends=""):
        raise AssertionError("the job is not assumed")


@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.timeout(600)
def test_a_program_with_very_many_queue_pairs_gets_ports_in_turn_and_another_gets_its_own(tmp_path, count, monkeypatch):
    monkeypatch.setattr(planned_ports, "MAX_QUEUE_PAIRS", MAX_QUEUE_PAIRS)
    programs, shim = compiled(tmp_path), shim_library(tmp_path)
    jobs = NodeJobs(Controller(), ["h1"], lambda line: None)
    environment = {
        "LD_LIBRARY_PATH": str(programs.libraries), "LD_AUDIT": str(shim), "HEDDLE_PORT_DEADLINE_MS": "30000",
        "HEDDLE_PORT_SOCKET": str(tmp_path / "socket"),
    }  # fmt: skip
    with PortServer(environment["HEDDLE_PORT_SOCKET"], jobs.ports) as served:
        begun = []
        for job, queue_pairs in ((7, count), (8, 100)):
            command = [programs.by_dlvsym, "IBVERBS_1.1", str(queue_pairs), "77", "2"]
            own = {**environment, "SLURM_JOB_ID": str(job)}
            begun.append(subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True))
            while len(jobs._known) < len(begun):
                assert begun[-1].poll() is None
            jobs.run_pass(0.0, only_new=True)
        many, few = ([line.split()[1] for line in each.communicate()[0].splitlines()[:-1]] for each in begun)
    late = served.late  # requests that were held before the pass: of a loaded machine
    assert [label for label in few if label != "77"] == [
        str(50_000 + n % QPS & 0x3FFF) for n in range(100 - few.count("77"))
    ]
    assert len(many) == count
    assert jobs.counts.planned == count + 100 - late
    tables = [known.ports._turn_of for known in jobs._known.values() if known.ports is not None]
    assert sorted(map(len, tables)) == [100 - few.count("77"), MAX_QUEUE_PAIRS]
