"""Jobs of a real Slurm are planned before they start and released at their end; no failure of ours fails one."""

import signal
import tempfile
import time
from pathlib import Path

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.schedulers.slurm_check import problems_of
from heddle.controller.schedulers.slurm_drains import REASON
from heddle.controller.schedulers.slurm_files import Format
from heddle.controller.schedulers.slurm_jobs import SQUEUE
from heddle.programs.console.slurm.drainer import PERIOD_S, Drainer
from tests.support.examples import examples
from tests.support.schedulers.disturbed_jobs import run_disturbed
from tests.support.schedulers.printed import SQUEUE_PRINTS, form_of
from tests.support.schedulers.slurm_cluster import MISSING
from tests.support.schedulers.slurm_site import FABRIC, TIMEOUT_S, slurm_site, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(MISSING is not None, reason=f"{MISSING} of Debian's Slurm is not installed (scripts/setup all)"),
]


@pytest.fixture(scope="module")
def running():
    with tempfile.TemporaryDirectory(prefix="hdslurm") as folder, slurm_site(Path(folder)) as found:
        yield found


@pytest.fixture
def site(running):
    """The site of all tests, without jobs, and with an agent."""
    if running.agent.poll() is not None:
        running.start_agent()
    yield running
    running.deadline.write_text("3")
    running.agent.send_signal(signal.SIGCONT)
    running.slurm.run("scancel", "--user=root", check=False)
    wait_until(lambda: running.slurm.run("squeue", "-h") == "", lambda: running.slurm.run("squeue"))
    if running.agent.poll() is None:
        running.wait_for({})


def test_a_job_is_planned_before_its_first_task_starts_and_released_after_the_last(site):
    site.deadline.write_text("60")  # on a busy machine too
    first_task = f"[ $SLURM_PROCID != 0 ] || {{ echo $SLURM_JOB_ID; cat {site.log}; }}"
    seen = site.slurm.run("srun", "-N", "3", "sh", "-c", first_task)
    job = seen.split()[0]
    assert f"slurm-{job}-" in seen
    assert "planned as assumed, 3 flows" in seen
    site.wait_for({})


def test_a_job_is_planned_as_its_comment_says(site):
    job = site.submit("-N", "4", "--comment", "night run\nheddle: collective=ALL_TO_ALL qps=2")
    site.wait_for({job: 4 * 3 * 2})
    wait_until(lambda: "planned as it says, 24 flows" in site.text(), site.text)  # said once it is planned


def test_arrays_and_heterogeneous_jobs_are_planned_and_jobs_on_one_node_are_not(site):
    one = site.submit("-N", "1")
    array = site.submit("-N", "2", "--array=1-2")
    both = site.slurm.run(
        "sbatch", "--parsable", "-N2", "-o", "/dev/null", ":", "-N2", "-w", "h16,h15", "--wrap", "sleep 60"
    )
    wait_until(lambda: len(site.planned()) == 3, lambda: f"{site.planned()} {site.slurm.run('squeue')}")
    planned = site.planned()
    assert one not in planned
    assert planned[int(both.split(";")[0])] == 4
    assert sorted(planned.values()) == [2, 2, 4]
    assert array in planned


def test_squeue_prints_what_the_fakes_of_other_tests_print(site):
    site.submit("-N2", "-w", "h[1-2]")
    site.submit("-N1", "-w", "h3", "--array=3")
    site.slurm.run(
        "sbatch", "-N2", "-w", "h[5-6]", "-o", "/dev/null", ":", "-N1", "-w", "h8", "--wrap", "sleep 60"
    )  # fmt: skip
    wait_until(lambda: form_of(site.slurm.run(*SQUEUE)) == form_of(SQUEUE_PRINTS), lambda: site.slurm.run(*SQUEUE))


def test_a_job_that_is_requeued_or_cancelled_is_released(site):
    jobs = [site.submit("-N", "2", "--requeue") for _ in range(2)]
    site.wait_for(dict.fromkeys(jobs, 2))
    site.slurm.run("scontrol", "requeue", str(jobs[0]))
    site.slurm.run("scancel", str(jobs[1]))
    site.wait_for({})


def ran_as_without_heddle(site, at_least_s=0.0):
    """Run a job; check its status, its output, its end and its hooks, and return its id.

    A hook that reached a process that hangs has waited; how long it takes beyond depends on the machine.
    """
    begun_s = time.monotonic()
    seen = site.slurm.run("srun", "-Q", "-N", "2", "sh", "-c", "echo $SLURM_JOB_ID")
    assert time.monotonic() - begun_s >= at_least_s
    job = int(seen.split()[0])
    assert seen == f"{job}\n{job}\n"
    wait_until(lambda: len(site.hooks_of(job)) == 2, lambda: f"{site.hooks_of(job)}")
    assert site.hooks_of(job) == ["prolog_slurmctld 0", "epilog_slurmctld 0"]
    wait_until(lambda: "JobState=COMPLETED" in shown(site, job), lambda: shown(site, job))
    assert "Restarts=0 " in shown(site, job)
    assert "ExitCode=0:0" in shown(site, job)
    return job


def shown(site, job):
    return site.slurm.run("scontrol", "show", "job", str(job))


def test_without_an_agent_jobs_run_and_the_next_agent_plans_and_releases_them(site):
    first = site.submit("-N", "2")
    site.wait_for({first: 2})
    site.agent.kill()
    site.agent.wait(TIMEOUT_S)
    site.slurm.run("scancel", str(first))
    second = site.submit("-N", "4")
    third = ran_as_without_heddle(site)
    assert site.planned() == {first: 2}
    before = len(site.text())
    site.start_agent()
    site.wait_for({second: 4})
    wait_until(lambda: f"slurm-{first}-" in site.text()[before:], site.text)
    assert f"slurm-{third}-" not in site.text()


def test_an_agent_that_is_ended_leaves_its_jobs_and_no_socket(site):
    job = site.submit("-N", "2")
    site.wait_for({job: 2})
    site.agent.terminate()
    assert site.agent.wait(TIMEOUT_S) == 0
    assert not site.socket.exists()
    assert site.planned() == {job: 2}
    site.start_agent()


def test_slurm_started_anew_ends_no_planned_job(site):
    job = site.submit("-N", "3")
    site.wait_for({job: 3})
    generation = site.text().count("planned")
    site.slurm.stop_controller()
    time.sleep(1)  # a few passes without slurmctld
    site.slurm.start_controller()
    site.slurm.run("srun", "-N", "2", "true")
    assert job in site.planned()
    assert f"slurm-{job}" not in "".join(line for line in site.text().splitlines() if "released" in line)
    assert site.text().count(f"slurm-{job}-") == 1, generation


def test_a_hung_agent_delays_a_job_by_its_hook_s_deadline_alone_and_plans_what_runs_when_it_is_back(site):
    site.deadline.write_text("1")
    site.agent.send_signal(signal.SIGSTOP)
    try:
        goes_on = site.submit("-N", "3")
        over = ran_as_without_heddle(site, at_least_s=1)
        wait_until(lambda: site.hooks_of(goes_on) == ["prolog_slurmctld 0"], lambda: f"{site.hooks_of(goes_on)}")
        assert "JobState=RUNNING" in shown(site, goes_on)
        assert site.planned() == {}
    finally:
        site.agent.send_signal(signal.SIGCONT)
    site.wait_for({goes_on: 3})
    assert f"slurm-{over}-" not in site.text()


def test_a_hung_controller_delays_a_job_by_its_hook_s_deadline_alone_and_plans_what_runs_when_it_is_back(site):
    site.deadline.write_text("1")
    before = len(site.text())
    site.controller.process.send_signal(signal.SIGSTOP)
    try:
        goes_on = site.submit("-N", "3")
        ran_as_without_heddle(site, at_least_s=1)
        wait_until(lambda: "no pass: " in site.text()[before:], site.text)
    finally:
        site.controller.process.send_signal(signal.SIGCONT)
    site.wait_for({goes_on: 3})


def test_an_agent_that_starts_repairs_a_topology_file_that_somebody_broke(site):
    site.agent.kill()
    site.agent.wait(TIMEOUT_S)
    site.slurm.topology.write_text("SwitchName=leaf[A-B]\n")
    site.start_agent()
    wait_until(lambda: problems_of(site.slurm.topology.read_text(), Format.TREE, site.slurm.nodes) == (), site.text)
    assert site.slurm.topology.with_name("topology.conf.unsound").read_text() == "SwitchName=leaf[A-B]\n"
    assert site.slurm.controller.poll() is None


class _Links:
    """What the controller says of links."""

    def __init__(self, fabric):
        self.known, self.down = fabric, set()

    def fabric(self):
        return self.known

    def down_links(self):
        return self.down


def test_a_node_without_a_nic_that_is_up_gets_no_job_until_it_is_back(site, monkeypatch):
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, site.slurm.environment[name])
    site.slurm.run("scontrol", "update", "NodeName=h9", "State=DRAIN", "Reason=disk")
    lines, links = [], _Links(parse_fabric(FABRIC, "fabric"))
    drainer = Drainer(lines.append)
    links.down = {nic.up_link for nic in links.known.nics if nic.host in ("h3", "h9")}
    for now_s in (0, PERIOD_S):
        drainer.check(links, now_s)
    assert "drain" in site.slurm.run("sinfo", "-h", "-n", "h3", "-o", "%T")
    assert REASON in site.slurm.run("sinfo", "-h", "-n", "h3", "-o", "%E")
    links.down = set()
    drainer.check(links, 2 * PERIOD_S)
    assert site.slurm.run("sinfo", "-h", "-n", "h3", "-o", "%T|%E").strip() in ("idle|none", "idle*|none")
    assert site.slurm.run("sinfo", "-h", "-n", "h9", "-o", "%E").strip() == "disk"
    site.slurm.run("scontrol", "update", "NodeName=h9", "State=RESUME")
    assert lines == [f"h3: State=DRAIN Reason={REASON}", "h3: State=RESUME"]


@pytest.mark.soak
def test_a_slurmctld_that_hangs_releases_no_job_and_is_one_line(site):
    job = site.submit("-N", "3")
    site.wait_for({job: 3})
    before = len(site.text())
    site.slurm.controller.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: "no pass: squeue" in site.text()[before:], site.text)
        time.sleep(2)  # a few passes more
    finally:
        site.slurm.controller.send_signal(signal.SIGCONT)
    wait_until(lambda: "passes go on" in site.text()[before:], site.text)
    assert site.planned() == {job: 3}
    assert site.text()[before:].count("no pass: ") == 1
    assert "released" not in site.text()[before:]
    assert "drain" not in site.slurm.run("sinfo", "-h", "-N", "-o", "%T")


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_of_two_hundred_jobs_beside_kills_and_stops_none_fails_or_is_left(site):
    found = run_disturbed(site, examples(20), seed=7)
    assert (found.failed, found.requeued) == (0, 0)
    assert site.planned() == {}
