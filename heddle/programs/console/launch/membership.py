"""Read from an environment which part of which job this process is.

The variables are those of torchrun and other launchers of torch, of MPI's launchers (`_LAUNCHERS`), of Flux and of
Slurm. Sources: torch.distributed.run, "Environment Variables"; `deepspeed.launcher.launch`; mpirun(1) of Open MPI 4.1,
"Exported Environment Variables"; what mpiexec of MPICH 4.0 sets; MVAPICH2's user guide, "MPIRUN_RSH Parameters";
flux-environment(7), "Job environment"; srun(1), "OUTPUT ENVIRONMENT VARIABLES"; of a batch script, Slurm's
src/common/env.c, `env_array_for_batch_job`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from heddle.controller.config.text.complaint import shown
from heddle.controller.model.admission import is_job_id
from heddle.controller.model.error import InputError
from heddle.controller.schedulers.host_list import hosts_of, tasks_of_nodes

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


class _Place(NamedTuple):
    """A process among those of its job, and among those of its host."""

    rank: int
    size: int
    local_rank: int
    local_size: int


class _Launcher(NamedTuple):
    """The variables of an MPI launcher; each of `names` are some that together name a job."""

    prefix: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    names: tuple[tuple[str, ...], ...] = ()


_JSM = _Launcher(
    prefix="jsrun", rank="JSM_NAMESPACE_RANK", size="JSM_NAMESPACE_SIZE",
    local_rank="JSM_NAMESPACE_LOCAL_RANK", local_size="JSM_NAMESPACE_LOCAL_SIZE",
    names=(("LSB_JOBID", "JSM_NAMESPACE_ID"),),
)  # fmt: skip
_OPEN_MPI = _Launcher(
    prefix="openmpi", rank="OMPI_COMM_WORLD_RANK", size="OMPI_COMM_WORLD_SIZE",
    local_rank="OMPI_COMM_WORLD_LOCAL_RANK", local_size="OMPI_COMM_WORLD_LOCAL_SIZE",
    names=(("PMIX_NAMESPACE",), ("OMPI_MCA_ess_base_jobid",)),
)  # fmt: skip
_MVAPICH = _Launcher(
    prefix="mvapich", rank="MV2_COMM_WORLD_RANK", size="MV2_COMM_WORLD_SIZE",
    local_rank="MV2_COMM_WORLD_LOCAL_RANK", local_size="MV2_COMM_WORLD_LOCAL_SIZE",
)  # fmt: skip
_HOROVOD = _Launcher(
    prefix="horovod", rank="HOROVOD_RANK", size="HOROVOD_SIZE",
    local_rank="HOROVOD_LOCAL_RANK", local_size="HOROVOD_LOCAL_SIZE",
    names=(("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"),),
)  # fmt: skip
_HYDRA = _Launcher(
    prefix="mpi", rank="PMI_RANK", size="PMI_SIZE", local_rank="MPI_LOCALRANKID", local_size="MPI_LOCALNRANKS",
)  # fmt: skip
_PALS = _Launcher(
    prefix="pals", rank="PMI_RANK", size="PMI_SIZE", local_rank="PMI_LOCAL_RANK", local_size="PMI_LOCAL_SIZE",
    names=(("PALS_APID",),),
)  # fmt: skip
_LAUNCHERS = (_JSM, _OPEN_MPI, _MVAPICH, _HOROVOD, _HYDRA, _PALS)
"""jsrun sets Open MPI's variables too, and a PMIX_NAMESPACE that other jobs may have."""
_BATCH_JOBS = ("PALS_APID", "PBS_JOBID", "LSB_JOBID", "PJM_JOBID")
_RANKS_ALONE = ("PMIX_RANK", "ALPS_APP_PE", "LSF_PM_TASKID")
"""Ranks of launchers that do not say how many processes a job and a host have."""


_NO_TORCH_JOB = "TORCHELASTIC_RUN_ID: not set, and no MASTER_ADDR and MASTER_PORT to name the job by; use --job"


def membership_of(environment: Mapping[str, str], job_id: str = "") -> Membership | None:
    """Return the membership that a launcher's variables describe, None without any; `job_id` is used before theirs.

    torch's are nearest to the command where several are set, then those of MPI: their processes may be tasks of Slurm.
    A variable that is set to nothing is not set. Raises InputError, one line that names the variable.
    """
    environment = {name: value for name, value in environment.items() if value}
    if _is_torchrun_agent(environment):
        return _torchrun_agent(environment, job_id)
    if "TORCHELASTIC_RUN_ID" in environment or (environment.get("RANK") and environment.get("WORLD_SIZE")):
        return _named(_torch(environment), job_id or _torch_job(environment), _NO_TORCH_JOB)
    launcher = _mpi_launcher(environment)
    if launcher is not None:
        return _named(_mpi(environment, launcher), job_id or _mpi_job(environment, launcher), _no_mpi_job(launcher))
    if "FLUX_TASK_RANK" in environment:
        name = job_id or _named_by(environment, "flux", (("FLUX_JOB_ID",),))
        return _named(_flux(environment), name, "FLUX_JOB_ID: not set, so that the job has no name; use --job")
    if "SLURM_JOB_ID" in environment:
        place = _slurm(environment)
        if place.size > 1 and _is_outside_of_steps(environment):
            raise InputError(
                f"SLURM_STEP_ID: not set, since srun did not start this process; the {place.size} tasks of the job are "
                "not there: start it by srun, or use --job, --node-rank and --node-count"
            )
        return Membership(job_id or _slurm_job(environment), *place, _slurm_host(environment))
    if rank := _first(environment, *_RANKS_ALONE):
        raise InputError(f"{rank}: set, but not how many processes there are; use --job, --node-rank and --node-count")
    return None


def _named(place: _Place, job_id: str, lack: str) -> Membership | None:
    """Return the membership; None for the only process of a job without a name, which needs none."""
    if not job_id and place.size > 1:
        raise InputError(lack)
    return Membership(job_id, *place) if job_id else None


def _torch(environment: Mapping[str, str]) -> _Place:
    """Return the place by torch's variables. Where they lack the number of local processes, a launcher below has it."""
    count = _number(environment, "WORLD_SIZE", 1, MAX_NODES)
    rank = _number(environment, "RANK", 0, count - 1)
    size = _first(environment, "LOCAL_WORLD_SIZE", "LOCAL_SIZE")
    if size:
        local_count = _number(environment, size, 1, count)
        return _Place(rank, count, _number(environment, "LOCAL_RANK", 0, local_count - 1, default=0), local_count)
    if count == 1 or not environment.get("LOCAL_RANK"):
        return _Place(rank, count, 0, 1)
    launcher = _mpi_launcher(environment)  # or Slurm's: a script may take torch's variables from theirs
    below = _mpi(environment, launcher) if launcher else None
    if below is None and "SLURM_JOB_ID" in environment:
        below = _slurm(environment)
    if below is None or below[:2] != (rank, count):
        raise InputError("LOCAL_WORLD_SIZE: not set, but LOCAL_RANK is: set it to the number of this host's processes")
    return below


def _torch_job(environment: Mapping[str, str]) -> str:
    run_id = environment.get("TORCHELASTIC_RUN_ID", "none")
    if run_id == "none":  # torchrun's default, the same for every job
        host, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
        if not host or not port:
            return ""
        run_id = f"{host}-{port}"
    return _job_id(f"torchrun-{run_id}")


def _is_torchrun_agent(environment: Mapping[str, str]) -> bool:
    """Return whether torchrun's options say which node this is: its rank does, or no launcher of MPI's kind can."""
    if "PET_NNODES" not in environment or environment.keys() & {"LOCAL_RANK", "TORCHELASTIC_RUN_ID"}:
        return False
    others = environment.keys() & {"SLURM_JOB_ID", "FLUX_TASK_RANK"} or _mpi_launcher(environment)
    return "PET_NODE_RANK" in environment or not others


def _torchrun_agent(environment: Mapping[str, str], job_id: str) -> Membership | None:
    """Return the node of a command that is to be torchrun, whose options are variables (Kubeflow's PyTorch jobs)."""
    count = _number(environment, "PET_NNODES", 1, MAX_NODES)
    rank = _number(environment, "PET_NODE_RANK", 0, count - 1, default=0 if count == 1 else None)
    places = ("PET_MASTER_ADDR", "PET_MASTER_PORT"), ("MASTER_ADDR", "MASTER_PORT"), ("PET_RDZV_ENDPOINT",)
    job_id = job_id or _named_by(environment, "torchrun", places)
    lack = "PET_NNODES: set, but no PET_MASTER_ADDR and PET_MASTER_PORT to name the job by; use --job"
    return _named(_Place(rank, count, 0, 1), job_id, lack)


def _flux(environment: Mapping[str, str]) -> _Place:
    """Return the place of a task of Flux, which says how many tasks a node has only where that is clear."""
    size = _number(environment, "FLUX_JOB_SIZE", 1, MAX_NODES)
    nodes = _number(environment, "FLUX_JOB_NNODES", 1, size)
    if nodes not in (1, size):
        why = f"{size} tasks on {nodes} nodes, and Flux does not say how many are on this one"
        raise InputError(f"FLUX_JOB_SIZE: {why}; start one for each node, or use --job, --node-rank and --node-count")
    local_size = size // nodes
    return _Place(
        rank=_number(environment, "FLUX_TASK_RANK", 0, size - 1),
        size=size,
        local_rank=_number(environment, "FLUX_TASK_LOCAL_ID", 0, local_size - 1, default=0),
        local_size=local_size,
    )


def _mpi_launcher(environment: Mapping[str, str]) -> _Launcher | None:
    for launcher in _LAUNCHERS:
        if {launcher.rank, launcher.local_rank} <= environment.keys():
            return launcher
    if _OPEN_MPI.rank in environment:
        return _OPEN_MPI
    # The PMI of Slurm and of Flux sets rank and size too, but not those of the host.
    others = environment.keys() & {"SLURM_STEP_ID", "FLUX_TASK_RANK"}
    return _HYDRA if _HYDRA.rank in environment and not others else None


def _mpi(environment: Mapping[str, str], launcher: _Launcher) -> _Place:
    count = _number(environment, launcher.size, 1, MAX_NODES)
    default = 1 if count == 1 else None
    local_count = _number(environment, launcher.local_size, 1, count, default=default)
    return _Place(
        rank=_number(environment, launcher.rank, 0, count - 1),
        size=count,
        local_rank=_number(environment, launcher.local_rank, 0, local_count - 1, default=0 if default else None),
        local_size=local_count,
    )


def _mpi_job(environment: Mapping[str, str], launcher: _Launcher) -> str:
    """Return the job's name by its launcher, else by the batch job that it runs in; empty without either."""
    if name := _named_by(environment, launcher.prefix, launcher.names):
        return name
    if "SLURM_JOB_ID" in environment:
        return _job_id(f"{launcher.prefix}-{_slurm_job(environment)}")
    return _named_by(environment, launcher.prefix, [(name,) for name in _BATCH_JOBS])


def _named_by(environment: Mapping[str, str], prefix: str, choices: Iterable[tuple[str, ...]]) -> str:
    """Return a job's name by the first choice of variables that are all set, empty without one."""
    for names in choices:
        values = [environment.get(name, "") for name in names]
        if all(values):
            return _job_id("-".join((prefix, *values)))
    return ""


def _no_mpi_job(launcher: _Launcher) -> str:
    wanted = " or ".join((*(" and ".join(names) for names in launcher.names), "batch job"))
    return f"{launcher.rank}: set, but no {wanted} to name the job by; use --job"


def _slurm(environment: Mapping[str, str]) -> _Place:
    """Return the place of a task. A step's own variables come first: the others may be those of the whole job."""
    tasks, nodes = _tasks_of_nodes(environment), _nodes(environment)
    node = _number(environment, "SLURM_NODEID", 0, nodes - 1, default=0)
    local_count = max(1, tasks[node]) if tasks else 1
    name = _first(environment, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    count = _number(environment, name, 1, MAX_NODES) if name else max(1, sum(tasks))
    return _Place(
        rank=_number(environment, "SLURM_PROCID", 0, count - 1, default=0),
        size=count,
        local_rank=_number(environment, "SLURM_LOCALID", 0, local_count - 1, default=0),
        local_size=local_count,
    )


def _is_outside_of_steps(environment: Mapping[str, str]) -> bool:
    """Return whether it is certain that a process is a batch script or a shell of salloc, or started from it.

    A batch script has the rank 0 and `ENVIRONMENT=BATCH`, such a shell no rank. Each task of srun has a step.
    """
    rank = environment.get("SLURM_PROCID", "")
    is_batch = rank == "0" and environment.get("ENVIRONMENT") == "BATCH"
    return not environment.keys() & {"SLURM_STEP_ID", "SLURM_STEPID"} and (is_batch or not rank)


def _slurm_job(environment: Mapping[str, str]) -> str:
    job, step = environment["SLURM_JOB_ID"], environment.get("SLURM_STEP_ID", "")
    return _job_id(f"slurm-{job}.{step}" if step else f"slurm-{job}")


def _nodes(environment: Mapping[str, str]) -> int:
    name = _first(environment, "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    return _number(environment, name, 1, MAX_NODES) if name else len(_listed_tasks(environment)[1]) or 1


def _listed_tasks(environment: Mapping[str, str]) -> tuple[str, list[int]]:
    """Return the variable that lists the tasks of each node, and the list; empty ones without such a variable."""
    names = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    name = next((each for each in names if each in environment), "")
    return name, tasks_of_nodes(environment[name], name) if name else []


def _tasks_of_nodes(environment: Mapping[str, str]) -> list[int]:
    name, tasks = _listed_tasks(environment)
    nodes = _nodes(environment)
    if tasks and len(tasks) != nodes:
        raise InputError(f"{name}: {len(tasks)} nodes, but Slurm counts {nodes} in other variables")
    return tasks


def _slurm_host(environment: Mapping[str, str]) -> str:
    name = _first(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    hosts = hosts_of(environment[name], name) if name else []
    nodes = _nodes(environment)
    if hosts and len(hosts) != nodes:
        raise InputError(f"{name}: {len(hosts)} hosts, but Slurm counts {nodes} in other variables")
    node = _number(environment, "SLURM_NODEID", 0, nodes - 1, default=0)
    return environment.get("SLURMD_NODENAME", "") or (hosts[node] if hosts else "")


def _first(environment: Mapping[str, str], *names: str) -> str:
    """Return the first of the variables that is set to something, else an empty text."""
    return next((name for name in names if environment.get(name)), "")


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
