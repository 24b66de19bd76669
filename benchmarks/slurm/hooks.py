"""What Heddle's hooks add to the start of Slurm's jobs: with an agent, without one, with a hung agent or controller.

A job is `srun` of a task that prints the time, or a batch script that does (cases `batch, …`). Jobs on one slurmctld
without hooks and on one with them go by turns, so that other load of the machine meets all cases. `srun` polls a job
that has any PrologSlurmctld, first after 0.1 s: the case `empty`, a hook that only ends, shows by how much. Jobs of the
hung cases run `AT_ONCE` at a time, as each waits.
"""

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

from heddle.benchmarks.slurm.placement import FAST
from tests.support.schedulers.slurm_cluster import SlurmCluster, slurm_cluster
from tests.support.schedulers.slurm_site import HEDDLE, TOPOLOGY, SlurmSite, slurm_site, wait_until

JOBS, AT_ONCE, WARM_UP = 100, 4, 3
PASS_S = 1.0
"""slurmctld starts what it did not start at once in passes: batch jobs come at random moments between two of them."""
PERIOD_S = 5.0
"""Of the agent's passes, as it is by default."""
TASK = "[ $SLURM_PROCID != 0 ] || echo $(date +%s%N) $SLURM_JOB_ID"
TIMED = """\
#!/bin/sh
begun=$(/bin/date +%s%N)
{hook}
echo "${{SLURM_SCRIPT_CONTEXT}} $SLURM_JOB_ID $begun $(/bin/date +%s%N)" >>{log}
exit 0
"""
NONE, EMPTY, RUNNING, WITHOUT = "none", "empty", "agent", "no agent"
HUNG_AGENT, HUNG_CONTROLLER = "hung agent", "hung controller"
BATCH = "batch, "
"""Before a case: its jobs are batch jobs."""


class Goal(NamedTuple):
    """The most that a hook may add on an idle machine, by median and p99, beside the jobs of a case."""

    beside: str
    median_ms: float
    p99_ms: float


GOALS = {
    RUNNING: Goal(EMPTY, 100, 300),
    BATCH + RUNNING: Goal(EMPTY, 100, 300),
    WITHOUT: Goal(EMPTY, 50, 50),
    HUNG_AGENT: Goal(NONE, 3_200, 3_200),
    HUNG_CONTROLLER: Goal(NONE, 3_200, 3_200),
}


class Started(NamedTuple):
    """Times of a job in ms: from the submission to its task; of its prolog and of its epilog."""

    start_ms: float
    prolog_ms: float = 0.0
    epilog_ms: float = 0.0


Ran = Callable[[SlurmCluster], tuple[str, float]]
"""Runs a job; returns its id, and the ms until it has begun."""


class Hooked:
    """A site whose hooks note their times; `become` sets what they run."""

    def __init__(self, folder: Path, site: SlurmSite) -> None:
        self.site = site
        self._log = folder / "times"
        self._log.touch()
        self._hooks = {EMPTY: ":"}
        for case, socket in ((RUNNING, site.socket), (WITHOUT, folder / "none.sock")):
            script = folder / f"hook of {case}"
            command = [*HEDDLE, "slurm", "hooks", "--socket", str(socket)]
            script.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            script.chmod(0o755)
            self._hooks[case] = f"'{script}'"

    def become(self, case: str) -> None:
        """Write the script that slurmctld runs, at once: a hook may be running."""
        beside = self.site.hook.with_suffix(".new")
        beside.write_text(TIMED.format(hook=self._hooks[case], log=self._log))
        beside.chmod(0o755)
        beside.replace(self.site.hook)

    def started(self, ran: Ran | None = None) -> Started:
        """Run a job, of srun if not said, and wait until its epilog has ended."""
        job, start_ms = (ran or _srun)(self.site.slurm)
        wait_until(lambda: len(self._times(job)) == 2, lambda: f"job {job}: {self._log.read_text()}")
        times = self._times(job)
        return Started(start_ms, times["prolog_slurmctld"], times["epilog_slurmctld"])

    def _times(self, job: str) -> dict[str, float]:
        lines = (line.split() for line in self._log.read_text().splitlines())
        return {which: (int(end) - int(begun)) / 1e6 for which, found, begun, end in lines if found == job}


def run(out: TextIO, jobs: int = JOBS) -> dict[str, dict[str, float]]:
    """Measure all cases; print and return a row for each."""
    with tempfile.TemporaryDirectory(prefix="hdhook") as name, _clusters(Path(name)) as (plain, hooked):
        found = _by_turns(plain, hooked, jobs)
        hooked.become(RUNNING)
        agent, controller = hooked.site.agent, hooked.site.controller.process
        for case, process in ((HUNG_AGENT, agent), (HUNG_CONTROLLER, controller)):
            found[case] = _while_hung(hooked, process, jobs)
    return report(out, found)


def report(out: TextIO, found: Mapping[str, Sequence[Started]]) -> dict[str, dict[str, float]]:
    """Print and return a row for each case: times, and what the start takes beside jobs without hooks."""
    rows = {case: _row(times) for case, times in found.items()}
    print(f"{len(found[NONE])} jobs each of 2 nodes, ms: median, p99; added to the median of none, of empty", file=out)
    heads = ("start", "p99", "prolog", "p99", "epilog", "p99", "to none", "p99", "to empty", "p99")
    print(f"  {'':16}" + "".join(f"{head:>9}" for head in heads) + "  goal", file=out)
    for case, row in rows.items():
        of = BATCH if case.startswith(BATCH) else ""
        for beside in (NONE, EMPTY):
            for key in ("start_ms", "start_p99_ms"):
                row[f"{key[6:-2]}beside_{beside}_ms"] = row[key] - rows[of + beside]["start_ms"]
        cells = "".join(f"{value:9.0f}" for value in row.values())
        print(f"  {case:16}{cells}{_verdict(case, row)}", file=out, flush=True)
    return rows


@contextmanager
def _clusters(folder: Path) -> Iterator[tuple[SlurmCluster, Hooked]]:
    """Run a cluster without hooks beside a site with them."""
    (folder / "plain").mkdir()
    (folder / "site").mkdir()
    with (
        slurm_cluster(folder / "plain", TOPOLOGY, slurmds=16, extra=[FAST]) as plain,
        slurm_site(folder / "site", period_s=PERIOD_S, extra=[FAST]) as site,
    ):
        yield plain, Hooked(folder, site)


def _by_turns(plain: SlurmCluster, hooked: Hooked, jobs: int) -> dict[str, list[Started]]:
    """Run a job of each case in each round, in an order that rotates; the first rounds are not counted."""

    def with_hook(case: str, ran: Ran) -> Started:
        hooked.become(case)
        return hooked.started(ran)

    cases: dict[str, Callable[[], Started]] = {}
    for of, ran in (("", _srun), (BATCH, _sbatch)):
        cases[of + NONE] = partial(lambda ran: Started(ran(plain)[1]), ran)
        cases |= {of + case: partial(with_hook, case, ran) for case in (EMPTY, RUNNING, WITHOUT)}
    found: dict[str, list[Started]] = {case: [] for case in cases}
    names = list(cases)
    for turn in range(WARM_UP + jobs):
        for case in (*names[turn % len(names) :], *names[: turn % len(names)]):
            started = cases[case]()
            if turn >= WARM_UP:
                found[case].append(started)
    return found


def _while_hung(hooked: Hooked, process: subprocess.Popen[bytes] | subprocess.Popen[str], jobs: int) -> list[Started]:
    """Run jobs while a process is stopped, and wait until the agent has released what it planned afterwards."""
    process.send_signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda _: hooked.started(), range(jobs)))
    finally:
        process.send_signal(signal.SIGCONT)
    hooked.site.wait_for({})
    return found


def _srun(cluster: SlurmCluster) -> tuple[str, float]:
    """Run a job; return its id, and the ms until its task has begun."""
    begun_ns = time.time_ns()
    task_ns, job = cluster.run("srun", "-N2", "-n2", "sh", "-c", TASK).split()
    return job, (int(task_ns) - begun_ns) / 1e6


def _sbatch(cluster: SlurmCluster) -> tuple[str, float]:
    """Run a batch job, after a pause; return its id, and the ms until its script has begun."""
    time.sleep(random.uniform(0, PASS_S))
    with tempfile.NamedTemporaryFile("r", prefix="hdbatch") as file:
        command = ("sbatch", "--parsable", "-N2", "-o", file.name, "--wrap", "date +%s%N")
        begun_ns = time.time_ns()
        job = cluster.run(*command).strip()
        wait_until(lambda: Path(file.name).read_text().endswith("\n"), lambda: cluster.run("squeue"))
        return job, (int(Path(file.name).read_text()) - begun_ns) / 1e6


def _row(times: Sequence[Started]) -> dict[str, float]:
    """Return the median and p99 of each time."""
    row = {}
    for key in Started._fields:
        values = [getattr(each, key) for each in times]
        row[key] = statistics.median(values)
        row[f"{key[:-3]}_p99_ms"] = statistics.quantiles(values, n=100)[98]
    return row


def _verdict(case: str, row: dict[str, float]) -> str:
    """Return the goal and whether it is met; nothing for a case without one."""
    goal = GOALS.get(case)
    if goal is None:
        return ""
    met = row[f"beside_{goal.beside}_ms"] <= goal.median_ms and row[f"p99_beside_{goal.beside}_ms"] <= goal.p99_ms
    return f"  {goal.median_ms:,.0f}, {goal.p99_ms:,.0f} beside {goal.beside}: {'met' if met else 'MISSED'}"


if __name__ == "__main__":
    run(sys.stdout, int(sys.argv[1]))
