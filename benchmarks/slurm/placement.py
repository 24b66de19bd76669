"""Placement by a real Slurm: leaves that jobs use beside the fewest, with the exported tree and without it.

Every topology has the same seeded jobs on a slurmctld and 16 slurmd of its own. Each job writes its nodes, start and
end; the runs are planned afterwards by the planner of the service, so that plans take no time from Slurm.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from heddle.benchmarks.slurm.mix import JOBS, SEEDS, MixedJob, Run, drawn, fewest_leaves, leaves_used, planned
from heddle.controller.config.load import parse_fabric
from heddle.controller.schedulers.host_list import hosts_of
from heddle.controller.schedulers.slurm_files import Format, slurm_text
from heddle.controller.schedulers.tree import tree_of
from tests.support.schedulers.slurm_cluster import SlurmCluster, slurm_cluster
from tests.support.schedulers.slurm_site import FABRIC, wait_until

PER_LEAF, HOSTS = 4, 16
SWITCHES_WAIT_S = 20
FAST = "SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0"
"""Slurm's scheduler runs at each submission, not once a second alone."""
SCRIPT = 'echo "$SLURM_JOB_NODELIST $(date +%s.%N)" >{file}; sleep {seconds:.2f}; date +%s.%N >>{file}'
COLUMNS = {
    "one switch": (False, False),
    "exported tree": (True, False),
    "tree, --switches": (True, True),
}
"""Whether Slurm has the tree, and whether jobs ask for the fewest leaves."""


def run(out: TextIO, jobs: int = JOBS) -> dict[str, dict[str, float]]:
    """Run the mixes with each topology; print and return a row for each."""
    print(
        f"{len(SEEDS)} mixes of {jobs} jobs of 1 to 8 nodes, rings and all-to-alls, on 16 nodes below 4 leaves",
        file=out,
    )
    heads = ("jobs", "more leaves", "leaves", "fewest", "makespan s", "fullest", "at most", "over 1", "share")
    print(f"  {'':18}" + "".join(f"{head:>12}" for head in heads), file=out, flush=True)
    found = {}
    for name, (with_tree, asks) in COLUMNS.items():
        row = found[name] = _measured(jobs, with_tree=with_tree, asks=asks)
        cells = "".join(f"{value:12.2f}" if isinstance(value, float) else f"{value:12}" for value in row.values())
        print(f"  {name:18}{cells}", file=out, flush=True)
    return found


def _measured(jobs: int, *, with_tree: bool, asks: bool) -> dict[str, float]:
    """Return the figures of all mixes with one topology: sums of jobs, leaves and makespans, means of plans."""
    fabric = parse_fabric(FABRIC, "fabric")
    leaf_of = {nic.host: nic.port.switch for nic in fabric.nics}
    text = slurm_text(tree_of(fabric).root, Format.TREE) if with_tree else f"SwitchName=all Nodes=h[1-{HOSTS}]\n"
    used = fewest = many = more = 0
    makespan_s, plans = 0.0, []
    for seed in SEEDS:
        runs, took_s = _ran(drawn(seed, jobs), text, asks=asks)
        makespan_s += took_s
        for each in runs:
            if each.job.nodes > 1:
                leaves, least = leaves_used(each.nodes, leaf_of), fewest_leaves(each.job.nodes, PER_LEAF)
                many, used, fewest, more = many + 1, used + leaves, fewest + least, more + (leaves > least)
        plans.append(asdict(planned(fabric, runs)))
    means = {key: sum(plan[key] for plan in plans) / len(plans) for key in plans[0]}
    means["max_fullest"] = max(plan["max_fullest"] for plan in plans)
    counts = {"jobs": many, "on_more_leaves": more, "leaves": used, "fewest_leaves": fewest}
    return {**counts, "makespan_s": makespan_s, **means}


def _ran(jobs: Sequence[MixedJob], topology: str, *, asks: bool) -> tuple[list[Run], float]:
    """Run the jobs on a new cluster; return them as they ran, and the s from the first submission to the last end."""
    with tempfile.TemporaryDirectory(prefix="hdmix") as name:
        folder = Path(name)
        (folder / "slurm").mkdir()
        with slurm_cluster(folder / "slurm", topology, slurmds=HOSTS, extra=[FAST]) as cluster:
            begun_s = time.time()
            for number, job in enumerate(jobs):
                _submit(cluster, job, folder / f"{number}", asks=asks)
            wait_until(lambda: cluster.run("squeue", "-h", check=False).strip() == "", lambda: cluster.run("squeue"))
        runs = [_run_of(job, (folder / f"{number}").read_text()) for number, job in enumerate(jobs)]
    return runs, max(each.end_s for each in runs) - begun_s


def _submit(cluster: SlurmCluster, job: MixedJob, file: Path, *, asks: bool) -> None:
    options = [f"--switches={fewest_leaves(job.nodes, PER_LEAF)}@{SWITCHES_WAIT_S}"] if asks else []
    script = SCRIPT.format(file=file, seconds=job.seconds)
    command = ["sbatch", "-N", str(job.nodes), "--exclusive", "-o", "/dev/null", "--comment", job.comment]
    cluster.run(*command, *options, "--wrap", script)


def _run_of(job: MixedJob, text: str) -> Run:
    nodes, start_s, end_s = text.split()
    return Run(job, tuple(hosts_of(nodes, "SLURM_JOB_NODELIST")), float(start_s), float(end_s))
