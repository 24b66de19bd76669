"""Read from an environment which part of which job this process is: Slurm's, torchrun's, or options.

Sources: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; torch.distributed.run, "Environment Variables".
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from heddle.controller.config.text.complaint import shown
from heddle.controller.model.admission import is_job_id
from heddle.controller.model.error import InputError
from heddle.programs.console.launch.host_list import hosts_of, tasks_of_nodes

MAX_NODES = 65_536


class Membership(NamedTuple):
    """A node of a job: a host, or one of `local_count` processes of it, each with its share of the host's NICs."""

    job_id: str
    node_rank: int
    node_count: int
    local_rank: int = 0
    local_count: int = 1
    host: str = ""
    """The host's name in the fabric; empty: the machine's."""


def membership_of(environment: Mapping[str, str]) -> Membership | None:
    """Return the membership that torchrun's or Slurm's variables describe, None without any; raises InputError.

    torchrun's are nearer to the command where both are set: it may run as a task of Slurm.
    """
    if "TORCHELASTIC_RUN_ID" in environment or {"RANK", "WORLD_SIZE"} <= environment.keys():
        return _torchrun(environment)
    return _slurm(environment) if "SLURM_JOB_ID" in environment else None


def _torchrun(environment: Mapping[str, str]) -> Membership:
    count = _number(environment, "WORLD_SIZE", 1, MAX_NODES)
    local_count = _number(environment, "LOCAL_WORLD_SIZE", 1, count, default=1)
    run_id = environment.get("TORCHELASTIC_RUN_ID", "none")
    if run_id == "none":  # torchrun's default, the same for every job
        host, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
        if not host or not port:
            raise InputError(
                "TORCHELASTIC_RUN_ID: not set, and no MASTER_ADDR and MASTER_PORT to name the job by; use --job"
            )
        run_id = f"{host}-{port}"
    return Membership(
        job_id=_job_id(f"torchrun-{run_id}"),
        node_rank=_number(environment, "RANK", 0, count - 1),
        node_count=count,
        local_rank=_number(environment, "LOCAL_RANK", 0, local_count - 1, default=0),
        local_count=local_count,
    )


def _slurm(environment: Mapping[str, str]) -> Membership:
    job, step = environment["SLURM_JOB_ID"], environment.get("SLURM_STEP_ID", "")
    count = _number(environment, "SLURM_NTASKS", 1, MAX_NODES, default=1)
    nodes = _number(environment, "SLURM_NNODES", 1, MAX_NODES, default=1)
    node = _number(environment, "SLURM_NODEID", 0, nodes - 1, default=0)
    local_count = _tasks_here(environment, nodes, node)
    return Membership(
        job_id=_job_id(f"slurm-{job}.{step}" if step else f"slurm-{job}"),
        node_rank=_number(environment, "SLURM_PROCID", 0, count - 1, default=0),
        node_count=count,
        local_rank=_number(environment, "SLURM_LOCALID", 0, local_count - 1, default=0),
        local_count=local_count,
        host=_slurm_host(environment, nodes, node),
    )


def _tasks_here(environment: Mapping[str, str], nodes: int, node: int) -> int:
    name = next((each for each in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE") if each in environment), "")
    if not name:
        return 1
    tasks = tasks_of_nodes(environment[name], name)
    if len(tasks) != nodes:
        raise InputError(f"{name}: {len(tasks)} nodes, but SLURM_NNODES is {nodes}")
    return max(1, tasks[node])


def _slurm_host(environment: Mapping[str, str], nodes: int, node: int) -> str:
    name = next((each for each in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST") if each in environment), "")
    hosts = hosts_of(environment[name], name) if name else []
    if hosts and len(hosts) != nodes:
        raise InputError(f"{name}: {len(hosts)} hosts, but SLURM_NNODES is {nodes}")
    return environment.get("SLURMD_NODENAME", "") or (hosts[node] if hosts else "")


def _number(environment: Mapping[str, str], name: str, low: int, high: int, default: int | None = None) -> int:
    text = environment.get(name, "")
    if not text and default is not None:
        return default
    if not text:
        raise InputError(f"{name}: not set; {low} to {high} is expected")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
        raise InputError(f"{name}: {shown(text)} must be a number from {low} to {high}")
    return int(text)


def _job_id(text: str) -> str:
    """Return a text as a job id: other characters become underscores, and what is too long is refused."""
    job_id = re.sub(r"[^A-Za-z0-9._-]", "_", text[:200])
    if not is_job_id(job_id):
        raise InputError(f"{shown(text)} makes no job id of at most 128 characters; use --job")
    return job_id
