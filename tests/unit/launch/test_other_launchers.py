"""Jobs of launchers beside torchrun, Open MPI, Hydra and Slurm: understood, or one line; never a job of one process."""

import pytest

from heddle.controller.model.error import InputError
from heddle.programs.console.launch.membership import Membership, membership_of


def variables(prefix, rank=5, size=8, local_rank=1, local_size=4):
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    return {
        f"{prefix}_{name}": str(value) for name, value in zip(names, (rank, size, local_rank, local_size), strict=True)
    }


LSF = {"LSB_JOBID": "551"}
FLUX = {"FLUX_JOB_ID": "\u0192Ab3", "FLUX_TASK_RANK": "2", "FLUX_TASK_LOCAL_ID": "0", "PMI_RANK": "2", "PMI_SIZE": "4"}
TRAINER = {"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "8"}
MASTER = {"PET_MASTER_ADDR": "t-0.t", "PET_MASTER_PORT": "29400"}
UNDERSTOOD = {
    "jsrun": ({**variables("JSM_NAMESPACE"), **LSF, "JSM_NAMESPACE_ID": "2"}, "jsrun-551-2"),
    "jsrun of Open MPI": (
        {
            **variables("JSM_NAMESPACE"),
            **variables("OMPI_COMM_WORLD"),
            **LSF,
            "JSM_NAMESPACE_ID": "2",
            "PMIX_NAMESPACE": "1",
        },
        "jsrun-551-2",
    ),
    "MVAPICH2": ({**variables("MV2_COMM_WORLD"), "PBS_JOBID": "9.head"}, "mvapich-9.head"),
    "Horovod": (
        {
            **variables("HOROVOD"),
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.9",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": "4242",
        },
        "horovod-10.0.0.9-4242",
    ),
    "Horovod by mpirun": (
        {**variables("HOROVOD"), **variables("OMPI_COMM_WORLD"), "PMIX_NAMESPACE": "77"},
        "openmpi-77",
    ),
    "PALS": ({**variables("PMI"), "PALS_APID": "ab-1", "PBS_JOBID": "9.head"}, "pals-ab-1"),
    "PALS with Hydra's variables": (
        {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4", "PALS_APID": "ab-1", **LSF},
        "mpi-ab-1",
    ),
    "Open MPI in a job of Fujitsu's": ({**variables("OMPI_COMM_WORLD"), "PJM_JOBID": "81"}, "openmpi-81"),
}


@pytest.mark.parametrize(("environment", "job"), UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_a_launcher_that_says_all_is_understood(environment, job):
    assert membership_of(environment) == Membership(job, 5, 8, 1, 4)


def test_tasks_of_flux_are_understood_where_their_number_on_a_node_is_clear():
    one_each = {**FLUX, "FLUX_JOB_SIZE": "4", "FLUX_JOB_NNODES": "4"}
    assert membership_of(one_each) == Membership("flux-_Ab3", 2, 4)
    on_one_node = {**FLUX, "FLUX_JOB_SIZE": "4", "FLUX_JOB_NNODES": "1", "FLUX_TASK_LOCAL_ID": "2"}
    assert membership_of(on_one_node) == Membership("flux-_Ab3", 2, 4, 2, 4)
    below_slurm = membership_of({**one_each, "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"})
    assert below_slurm is not None
    assert below_slurm.job_id == "flux-_Ab3"


def test_a_command_that_is_to_be_torchrun_is_a_node_of_its_job():
    assert membership_of({**TRAINER, **MASTER}) == Membership("torchrun-t-0.t-29400", 2, 4)
    operator = {**TRAINER, "RANK": "2", "WORLD_SIZE": "32", "MASTER_ADDR": "p-0", "MASTER_PORT": "23456"}
    assert membership_of(operator) == Membership("torchrun-p-0-23456", 2, 4)
    started = {
        **operator,
        **MASTER,
        "RANK": "17",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "8",
        "TORCHELASTIC_RUN_ID": "r",
    }
    assert membership_of(started) == Membership("torchrun-r", 17, 32, 1, 8)


UNCLEAR = {
    "Flux, several on each node": ({**FLUX, "FLUX_JOB_SIZE": "4", "FLUX_JOB_NNODES": "2"}, "4 tasks on 2 nodes"),
    "Flux without an id": (
        {"FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "2", "FLUX_JOB_NNODES": "2"},
        "FLUX_JOB_ID: not set",
    ),
    "an elastic job": ({**MASTER, "PET_NNODES": "1:4"}, "PET_NNODES: '1:4' must be a number"),
    "no node rank": ({**MASTER, "PET_NNODES": "4"}, "PET_NODE_RANK: not set"),
    "no master": (TRAINER, "PET_NNODES: set, but no PET_MASTER_ADDR and PET_MASTER_PORT"),
    "MVAPICH2 without a name": (variables("MV2_COMM_WORLD"), "MV2_COMM_WORLD_RANK: set, but no batch job"),
    "Horovod without a name": (
        variables("HOROVOD"),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR and HOROVOD_GLOO_RENDEZVOUS_PORT or",
    ),
    "PMIx alone": ({"PMIX_RANK": "3", "PMIX_NAMESPACE": "n"}, "PMIX_RANK: set, but not how many processes"),
    "aprun": ({"ALPS_APP_PE": "3"}, "ALPS_APP_PE: set, but not how many"),
    "blaunch": ({"LSF_PM_TASKID": "3", **LSF}, "LSF_PM_TASKID: set, but not how many"),
}


@pytest.mark.parametrize(("environment", "why"), UNCLEAR.values(), ids=UNCLEAR)
def test_a_launcher_that_leaves_something_open_is_one_line(environment, why):
    with pytest.raises(InputError, match=r"^[A-Z0-9_]+: ") as caught:
        membership_of(environment)
    (line,) = caught.value.problems
    assert why in line


def test_options_of_torchrun_do_not_hide_the_launcher_that_starts_it_on_each_node():
    slurm = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
        "SLURM_NNODES": "2",
        "SLURM_NODEID": "1",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": "1",
    }
    flux = {**FLUX, "FLUX_JOB_SIZE": "4", "FLUX_JOB_NNODES": "4"}
    mpi = {**variables("MV2_COMM_WORLD"), "PBS_JOBID": "9.head"}
    for launcher in (slurm, flux, mpi):
        assert membership_of({**launcher, "PET_NNODES": "2", "PET_RDZV_ENDPOINT": "n1:29400"}) == membership_of(
            launcher
        )
        assert membership_of({**launcher, **TRAINER, **MASTER}) == Membership("torchrun-t-0.t-29400", 2, 4)


def test_a_torchrun_of_one_node_needs_no_name():
    assert membership_of({"PET_NNODES": "1"}) is None
    assert membership_of({"PET_NNODES": "1"}, "mine") == Membership("mine", 0, 1)
    assert membership_of({**MASTER, "PET_NNODES": "1"}) == Membership("torchrun-t-0.t-29400", 0, 1)


@pytest.mark.parametrize(
    "name",
    ["PET_NNODES", "MV2_COMM_WORLD_RANK", "FLUX_TASK_RANK", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "RANK", "PMIX_RANK"],
)
def test_variables_that_are_set_to_nothing_are_not_set(name):
    assert membership_of({name: "", "WORLD_SIZE": "", "MV2_COMM_WORLD_LOCAL_RANK": ""}) is None
