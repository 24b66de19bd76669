"""Unchanged programs under a real Slurm, without a wrapper: their queue pairs have the planned ports of their job."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from heddle.programs.console.launch.node.places import LIBRARY
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.verbs import compiled
from tests.support.schedulers.slurm_cluster import MISSING
from tests.support.schedulers.slurm_site import TIMEOUT_S, slurm_site, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(MISSING is not None, reason=f"{MISSING} of Debian's Slurm is not installed (scripts/setup all)"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]
QPS = 4
OWN_LABEL = 77


@pytest.fixture(scope="module")
def site():
    with tempfile.TemporaryDirectory(prefix="hdports") as folder, slurm_site(Path(folder)) as found:
        yield found


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("verbs"))


@pytest.fixture(scope="module")
def agents(site):
    """The agents of h1 and h2, each a process with a socket of its own; they count what they did when they end."""
    found = [site.start_ports(host) for host in ("h1", "h2")]
    yield found
    for each in found:
        each.terminate()
    assert [each.wait(TIMEOUT_S) for each in found] == [0, 0]
    assert all("queue pairs with a planned port" in site.ports_text(host) for host in ("h1", "h2"))
    assert not (site.ports / "h1").exists()


@pytest.fixture
def job_on(site):
    """Return a function that submits a job which says how many queue pairs it has, and waits until it is planned."""

    def submit(hosts):
        number = site.submit("-w", hosts, "-N", "2", "--comment", f"heddle: qps={QPS}")
        site.wait_for({number: 2 * QPS})
        return number

    yield submit
    site.slurm.run("scancel", "--user=root")
    site.wait_for({})


def run(site, programs, job, program="by_dlvsym", count=QPS, step=(), peer="$((PEERS - VERBS_HOST))"):
    """Run a program on both nodes as a step of the job; return the source ports that each has, and the errors."""
    script = (
        "export VERBS_HOST=${SLURMD_NODENAME#h}; PEERS=$([ $VERBS_HOST -lt 3 ] && echo 3 || echo 11); "
        f"exec {getattr(programs, program)} IBVERBS_1.1 {count} {OWN_LABEL} {peer}"
    )
    environment = f"ALL,LD_LIBRARY_PATH={programs.libraries},HEDDLE_PORT_DEADLINE_MS=30000"
    step = step or ("srun", "--quiet", f"--jobid={job}", "--overlap", "-N2", "-n2", "-l")
    text = site.slurm.run(*step, f"--export={environment}", "sh", "-c", script)
    found: dict[int, list[int]] = {0: [], 1: []}
    errors = []
    for line in text.splitlines():
        task, *words = line.replace(":", "").split()
        if len(words) == 4 and words[2] == "1":
            label = int(words[1])
            found[int(task)].append(0xC000 | ((label & 0x3FFF) ^ (label >> 14)))
        elif len(words) != 1 or not words[0].isdigit():
            errors.append(line)
    return found, errors


def planned(flows, src, dst):
    return [flow.udp_source_port for flow in flows if (flow.src_nic, flow.dst_nic) == (f"{src}-n0", f"{dst}-n0")]


def test_every_queue_pair_has_its_planned_port_however_the_program_finds_its_function(site, programs, agents, job_on):
    job = job_on("h1,h2")
    flows = site.flows(job)
    wanted = {0: planned(flows, "h1", "h2"), 1: planned(flows, "h2", "h1")}
    assert [len(ports) for ports in wanted.values()] == [QPS, QPS]
    for program in ("by_dlvsym", "by_module", "by_dlsym", "linked"):  # as NCCL, UCX, NVSHMEM and others do
        assert run(site, programs, job, program) == (wanted, []), program
    assert f"slurm-{job}-" in site.ports_text("h1")


def test_without_the_node_s_agent_output_and_status_are_those_without_heddle(site, programs, job_on):
    job = job_on("h5,h6")
    own = {task: [0xC000 | OWN_LABEL] * QPS for task in (0, 1)}
    assert run(site, programs, job) == (own, [])
    ended = site.start_ports("h5")
    ended.kill()  # its socket file stays
    ended.wait(TIMEOUT_S)
    assert (site.ports / "h5").exists()
    assert run(site, programs, job) == (own, [])
    status = site.slurm.run(
        "srun", "-w", "h5,h6", "-N2", "--overlap", f"--jobid={job}", "sh", "-c", "exit 7", check=False
    )
    assert "Exited with exit code 7" in status


def test_a_job_that_connects_other_pairs_than_assumed_is_planned_again_with_them(site, programs, agents):
    job = site.submit("-w", "h1,h2,h3,h4", "-N", "4")
    site.wait_for({job: 4})  # a ring: h1 sends to h2
    step = ("srun", "--quiet", f"--jobid={job}", "--overlap", "-N1", "-n1", "-w", "h1", "-l")
    own, _ = run(site, programs, job, count=3, step=step, peer="3")
    assert own[0] == [0xC000 | OWN_LABEL] * 3
    site.wait_for({job: 3})
    wanted = planned(site.flows(job), "h1", "h3")
    wait_until(lambda: run(site, programs, job, count=3, step=step, peer="3")[0][0] == wanted, site.text)
    wait_until(lambda: "planned as it connects, 3 flows" in site.text(), site.text)
    site.slurm.run("scancel", str(job))
    site.wait_for({})


def test_a_job_is_planned_again_as_the_environment_of_its_tasks_says(site, agents):
    job = site.submit("-w", "h1,h2", "-N", "2")
    site.wait_for({job: 2})
    says = ("env", "HEDDLE_SENDS=collective=ALL_TO_ALL qps=3")
    site.slurm.run(*says, "srun", "--quiet", f"--jobid={job}", "--overlap", "-N2", "-n2", "true")
    site.wait_for({job: 6})
    wait_until(lambda: "planned as its environment says, 6 flows" in site.text(), site.text)
    site.slurm.run("scancel", str(job))
    site.wait_for({})


def test_a_program_in_a_container_gets_the_ports_of_the_job_that_it_names(site, programs, agents):
    ring = pb.Collective(kind=pb.Collective.RING_ALL_REDUCE, bytes=10**9, qps_per_flow=QPS)
    request = pb.SubmitJobRequest(job_id="pod-9", ranks=["h1-n0", "h2-n0"], collectives=[ring], lease_ms=60_000)
    plan = site.controller.jobs.SubmitJob(request, timeout=TIMEOUT_S)
    script = (
        f"mount --bind {site.ports} {site.ports}; mount -o remount,bind,ro {site.ports}; [ $$ = 1 ] || exit 8; "
        f"! touch {site.ports}/x 2>/dev/null || exit 9; exec {programs.by_dlvsym} IBVERBS_1.1 {QPS} {OWN_LABEL} 2"
    )
    environment = {
        "PATH": site.slurm.environment["PATH"], "LD_LIBRARY_PATH": str(programs.libraries), "VERBS_HOST": "1",
        "HEDDLE_JOB_ID": "pod-9", "HEDDLE_PORT_SOCKET": str(site.ports / "h1"), "HEDDLE_PORT_DEADLINE_MS": "30000",
    }  # fmt: skip
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script]

    def ports():
        audited = ["env", f"LD_AUDIT={site.ports / LIBRARY}", *command]
        text = subprocess.run(
            audited, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        ).stdout
        return [0xC000 | (int(line.split()[1]) & 0x3FFF) for line in text.splitlines()[:-1]]

    wait_until(lambda: ports() == planned(plan.flows, "h1", "h2"), lambda: site.ports_text("h1"))
    site.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="pod-9"), timeout=TIMEOUT_S)
