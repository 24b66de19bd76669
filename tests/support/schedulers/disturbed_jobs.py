"""Jobs of a real Slurm beside kills and stops of the agent and the controller, drawn from a seed; what became of them.

Two of three are batch jobs, the others tasks of srun, on 2 to 6 of 16 nodes. A disturbance lasts up to a second; one
that was killed is started again then.
"""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.support.schedulers.slurm_site import TIMEOUT_S, SlurmSite, wait_until

SIZES = ("2", "3", "4", "6")


class Outcome(NamedTuple):
    """What became of the jobs: `failed` by their state or srun's status; `left_s` until none is planned any more.

    `planned` are those that the agent planned, `disturbances` the number of each.
    """

    jobs: int
    failed: int
    requeued: int
    planned: int
    left_s: float
    disturbances: Mapping[str, int]


def run_disturbed(site: SlurmSite, jobs: int, seed: int) -> Outcome:
    """Run the jobs to their end; raises AssertionError where one does not end, or stays planned for two minutes."""
    draw, tasks, batch = random.Random(seed), [], []
    counts = dict.fromkeys(DISTURBANCES, 0)
    before = len(site.text())
    for number in range(jobs):
        what = draw.choice(["nothing", "nothing", *DISTURBANCES])
        begin, end = DISTURBANCES.get(what, (_nothing, _nothing))
        counts |= {what: counts[what] + 1} if what in counts else {}
        begin(site)
        nodes, seconds = draw.choice(SIZES), draw.uniform(0.2, 1.5)
        if number % 3:
            batch.append(site.submit("-N", nodes, sleep_s=seconds))
        else:
            command = ["srun", "-Q", "-N", nodes, "sleep", f"{seconds:.2f}"]
            tasks.append(subprocess.Popen(command, env=site.slurm.environment))
        time.sleep(draw.uniform(0.2, 1.0))
        end(site)
    failed = sum(task.wait(TIMEOUT_S) != 0 for task in tasks)
    wait_until(lambda: site.slurm.run("squeue", "-h") == "", lambda: site.slurm.run("squeue"))
    begun_s = time.monotonic()
    site.wait_for({})
    left_s = time.monotonic() - begun_s
    shown = [site.slurm.run("scontrol", "-o", "show", "job", str(job)) for job in batch]
    failed += sum("JobState=COMPLETED" not in text for text in shown)
    requeued = sum("Restarts=0 " not in text for text in shown)
    planned = len({line.partition(":")[0] for line in site.text()[before:].splitlines() if ": planned " in line})
    return Outcome(jobs, failed, requeued, planned, left_s, counts)


def _nothing(site: SlurmSite) -> None:
    """Leave the site as it is."""


def _kill_agent(site: SlurmSite) -> None:
    site.agent.kill()
    site.agent.wait(TIMEOUT_S)


def _kill_controller(site: SlurmSite) -> None:
    site.controller.kill()


Act = Callable[[SlurmSite], None]
DISTURBANCES: Mapping[str, tuple[Act, Act]] = {
    "stop agent": (
        lambda site: site.agent.send_signal(signal.SIGSTOP),
        lambda site: site.agent.send_signal(signal.SIGCONT),
    ),
    "kill agent": (_kill_agent, lambda site: site.start_agent()),
    "stop controller": (
        lambda site: site.controller.process.send_signal(signal.SIGSTOP),
        lambda site: site.controller.process.send_signal(signal.SIGCONT),
    ),
    "kill controller": (_kill_controller, lambda site: site.start_controller()),
}
"""How each begins and ends."""
