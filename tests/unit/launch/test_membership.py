"""Jobs as launchers describe them: from their documentation, and as Open MPI 4.1.4 and MPICH 4.0.2 set variables."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.model.error import InputError
from heddle.controller.schedulers.host_list import MAX_HOSTS, hosts_of, tasks_of_nodes
from heddle.programs.console.launch.command import share_of
from heddle.programs.console.launch.membership import Membership, membership_of
from tests.support.examples import examples

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NODELIST": "node[001-003]",
    "SLURM_NNODES": "3",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "3",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_TASKS_PER_NODE": "1(x3)",
}
EIGHT_TASKS = {
    **SLURM,
    "SLURM_NTASKS": "20",
    "SLURM_PROCID": "17",
    "SLURM_NODEID": "2",
    "SLURM_LOCALID": "1",
    "SLURM_TASKS_PER_NODE": "8(x2),4",
}
TORCHRUN = {
    "RANK": "9",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node001",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "run-7",
}
DEEPSPEED = {
    "RANK": "21",
    "WORLD_SIZE": "24",
    "LOCAL_RANK": "5",
    "LOCAL_SIZE": "8",
    "CROSS_RANK": "2",
    "CROSS_SIZE": "3",
    "MASTER_ADDR": "node001",
    "MASTER_PORT": "29500",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "6",
    "OMPI_COMM_WORLD_SIZE": "12",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_COMM_WORLD_NODE_RANK": "2",
    "OMPI_MCA_ess_base_jobid": "1617821697",
    "PMIX_NAMESPACE": "1617821697",
    "PMIX_RANK": "6",
}
HYDRA = {
    "PMI_RANK": "3",
    "PMI_SIZE": "6",
    "PMI_FD": "8",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
    "HYDI_CONTROL_FD": "7",
}
STEP_OF_A_JOB = {  # `srun --preserve-env -N2 -n3` in a job of 3 nodes and 20 tasks
    **EIGHT_TASKS,
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_STEP_NODELIST": "node[002-003]",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "0",
}
BY_SRUN = {  # a script that takes torch's variables from its task's
    **EIGHT_TASKS,
    "RANK": "17",
    "WORLD_SIZE": "20",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "node001",
    "MASTER_PORT": "29500",
}


def without(environment, *names):
    return {name: value for name, value in environment.items() if name not in names}


CASES = {
    "slurm, a task per node": (SLURM, Membership("slurm-4711.0", 1, 3, 0, 1, "node002")),
    "slurm, tasks per node": (EIGHT_TASKS, Membership("slurm-4711.0", 17, 20, 1, 4, "node003")),
    "slurm names the host": ({**SLURM, "SLURMD_NODENAME": "n2"}, Membership("slurm-4711.0", 1, 3, 0, 1, "n2")),
    "slurm's step has fewer nodes": (
        {**SLURM, "SLURM_STEP_NODELIST": "node[7,9,11]", "SLURM_STEP_TASKS_PER_NODE": "2,1,1"},
        Membership("slurm-4711.0", 1, 3, 0, 1, "node9"),
    ),
    "sbatch without srun": ({"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "a"}, Membership("slurm-5", 0, 1, 0, 1, "a")),
    "torchrun": (TORCHRUN, Membership("torchrun-run-7", 9, 16, 1, 8)),
    "torchrun without a run id": (
        {**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"},
        Membership("torchrun-node001-29500", 9, 16, 1, 8),
    ),
    "torch's env://": (
        {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "fe80::1", "MASTER_PORT": "1"},
        Membership("torchrun-fe80__1-1", 0, 2),
    ),
    "torchrun inside slurm": ({**SLURM, **TORCHRUN}, Membership("torchrun-run-7", 9, 16, 1, 8)),
    "deepspeed": (DEEPSPEED, Membership("torchrun-node001-29500", 21, 24, 5, 8)),
    "torch's variables from slurm's": (BY_SRUN, Membership("torchrun-node001-29500", 17, 20, 1, 4)),
    "torch's variables from open mpi's": (
        {**OPEN_MPI, "RANK": "6", "WORLD_SIZE": "12", "LOCAL_RANK": "2", "TORCHELASTIC_RUN_ID": "a"},
        Membership("torchrun-a", 6, 12, 2, 4),
    ),
    "torch, one process without a name": ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, None),
    "open mpi": (OPEN_MPI, Membership("openmpi-1617821697", 6, 12, 2, 4)),
    "open mpi 5": (
        {**without(OPEN_MPI, "OMPI_MCA_ess_base_jobid"), "PMIX_NAMESPACE": "prterun-n1-77@1"},
        Membership("openmpi-prterun-n1-77_1", 6, 12, 2, 4),
    ),
    "open mpi in a batch job": (
        {**without(OPEN_MPI, "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"), "PBS_JOBID": "81.head"},
        Membership("openmpi-81.head", 6, 12, 2, 4),
    ),
    "open mpi, its daemons as tasks of slurm": (
        {**EIGHT_TASKS, **OPEN_MPI},
        Membership("openmpi-1617821697", 6, 12, 2, 4),
    ),
    "hydra in slurm": ({**SLURM, **HYDRA}, Membership("mpi-slurm-4711.0", 3, 6, 1, 2)),
    "hydra, one process without a name": (
        {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"},
        None,
    ),
    "slurm's own pmi": (
        {**SLURM, "PMI_RANK": "1", "PMI_SIZE": "3"},
        Membership("slurm-4711.0", 1, 3, 0, 1, "node002"),
    ),
    "slurm without a number of tasks": (
        without(EIGHT_TASKS, "SLURM_NTASKS"),
        Membership("slurm-4711.0", 17, 20, 1, 4, "node003"),
    ),
    "slurm without a number of nodes": (
        without(EIGHT_TASKS, "SLURM_NNODES"),
        Membership("slurm-4711.0", 17, 20, 1, 4, "node003"),
    ),
    "slurm's step is smaller than its job": (STEP_OF_A_JOB, Membership("slurm-4711.0", 1, 3, 1, 2, "node002")),
    "slurm's list has blanks": (
        {**SLURM, "SLURM_JOB_NODELIST": "node[001-002], gpu9"},
        Membership("slurm-4711.0", 1, 3, 0, 1, "node002"),
    ),
    "neither": ({"HOME": "/root"}, None),
}


@pytest.mark.parametrize(("environment", "wanted"), CASES.values(), ids=CASES)
def test_an_environment_describes_the_job(environment, wanted):
    assert membership_of(environment) == wanted


SALLOC = without(EIGHT_TASKS, "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
SBATCH = {**SALLOC, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "ENVIRONMENT": "BATCH"}


@pytest.mark.parametrize("environment", [SALLOC, SBATCH])
def test_a_process_outside_of_the_steps_of_a_job_waits_for_no_tasks(environment):
    with pytest.raises(InputError, match=r"^SLURM_STEP_ID: not set, .* the 20 tasks of the job .* by srun"):
        membership_of(environment)
    alone = {**environment, "SLURM_NNODES": "1", "SLURM_NTASKS": "1", "SLURM_TASKS_PER_NODE": "1"}
    assert membership_of({**alone, "SLURM_JOB_NODELIST": "a"}) == Membership("slurm-4711", 0, 1, 0, 1, "a")


def test_a_task_of_a_batch_script_s_step_waits_for_the_others():
    for task in ({**EIGHT_TASKS, "ENVIRONMENT": "BATCH"}, {**SBATCH, "SLURM_STEP_ID": "0"}):
        found = membership_of(task)
        assert found is not None
        assert (found.job_id, found.node_count) == ("slurm-4711.0", 20)
    interactive = membership_of({**SALLOC, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"})
    assert interactive is not None
    assert interactive.node_count == 1


@pytest.mark.parametrize("environment", [HYDRA, DEEPSPEED, OPEN_MPI, SLURM, without(TORCHRUN, "TORCHELASTIC_RUN_ID")])
def test_a_named_job_needs_no_name_of_its_launcher(environment):
    named = membership_of(without(environment, "MASTER_ADDR", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"), "mine")
    assert named is not None
    assert named.job_id == "mine"
    assert named.node_count > 1


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (HYDRA, "PMI_RANK: .*--job"),
        (
            without(OPEN_MPI, "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
            "OMPI_COMM_WORLD_RANK: .*PMIX_NAMESPACE.*--job",
        ),
        (without(DEEPSPEED, "LOCAL_SIZE"), "LOCAL_WORLD_SIZE: not set"),
        ({**without(DEEPSPEED, "LOCAL_SIZE"), "LOCAL_RANK": "0"}, "LOCAL_WORLD_SIZE: not set"),
        ({**BY_SRUN, "RANK": "16"}, "LOCAL_WORLD_SIZE: not set"),
        (without(DEEPSPEED, "MASTER_ADDR"), "TORCHELASTIC_RUN_ID: .*MASTER_ADDR.*--job"),
        ({"PMI_RANK": "1", "PMI_SIZE": "3"}, "MPI_LOCALNRANKS: not set"),
    ],
    ids=["hydra", "open mpi", "local rank 5", "local rank 0", "another's rank", "no address", "unknown pmi"],
)
def test_what_a_launcher_does_not_set_is_named_and_never_guessed(environment, named):
    with pytest.raises(InputError, match=named):
        membership_of(environment)


@pytest.mark.parametrize(
    ("good", "name", "value"),
    [
        *(
            (SLURM, "SLURM_JOB_NODELIST", text)
            for text in ("node[1-", "node]1[", "a[[1]]", "a[3-1]", "a b", "a[x]", "a[],b")
        ),
        *(
            (SLURM, "SLURM_JOB_NODELIST", text)
            for text in ("node[1-1000000]", "a[1-9999][1-9999]", "a," * 600_000, "a," * 500_000, "a[1-2]")
        ),
        *((SLURM, "SLURM_TASKS_PER_NODE", text) for text in ("1(x", "1(x2)", "1(x999999999)", "-1", "1;2")),
        *(
            (SLURM, name, text)
            for name in ("SLURM_NTASKS", "SLURM_NNODES")
            for text in ("0", "-1", "9" * 5_000, "x", "٣")
        ),
        (SLURM, "SLURM_PROCID", "3"),
        (SLURM, "SLURM_JOB_ID", "7" * 300),
        (TORCHRUN, "RANK", "16"),
        (TORCHRUN, "LOCAL_RANK", "8"),
        (TORCHRUN, "LOCAL_WORLD_SIZE", "17"),
        (TORCHRUN, "WORLD_SIZE", "1e3"),
        (TORCHRUN, "TORCHELASTIC_RUN_ID", "x" * 300),
        (DEEPSPEED, "LOCAL_SIZE", "4"),
        (OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_RANK", "4"),
        (OPEN_MPI, "OMPI_COMM_WORLD_SIZE", "six"),
        (STEP_OF_A_JOB, "SLURM_STEP_NUM_TASKS", "1"),
        (STEP_OF_A_JOB, "SLURM_STEP_NUM_NODES", "3"),
    ],
    ids=lambda each: each[:20] if isinstance(each, str) else "",
)
def test_what_is_malformed_is_one_short_line_that_names_the_variable(good, name, value):
    with pytest.raises(InputError) as caught:
        membership_of({**good, name: value})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_host_list_of_a_million_names_takes_little_memory():
    listed = ",".join(f"node{n}" for n in range(1_000_000))
    for text in ("node[000000-999999]", "a[1-999999999999999999][1-999999999999999999]", listed, "a," * 500_000):
        tracemalloc.start()
        with pytest.raises(InputError):
            hosts_of(text, "SLURM_JOB_NODELIST")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 32 << 20


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node[001-003,200]", ["node001", "node002", "node003", "node200"]),
        ("a,b[9-11]", ["a", "b9", "b10", "b11"]),
        ("rack[1-2]n[01-02]", ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]),
        ("gpu[1-2]-ib0.example", ["gpu1-ib0.example", "gpu2-ib0.example"]),
        (" a[1-2], b\t\nc,,d ", ["a1", "a2", "b", "c", "d"]),
    ],
)
def test_a_host_list_is_read_as_slurm_writes_it(text, hosts):
    assert hosts_of(text, "X") == hosts


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9_990), st.integers(0, 9)), min_size=1, max_size=9), st.integers(4, 6))
def test_every_host_of_a_list_of_ranges_is_read_in_order(ranges, width):
    text = ",".join(
        f"{first:0{width}}-{first + more:0{width}}" if more else f"{first:0{width}}" for first, more in ranges
    )
    wanted = [f"n{number:0{width}}" for first, more in ranges for number in range(first, first + more + 1)]
    assert hosts_of(f"n[{text}]", "X") == wanted


@hypothesis_settings(max_examples=examples(100), deadline=None)
@given(st.text(alphabet="an1-9[],(x). \n", max_size=30))
def test_any_text_is_a_list_or_one_line(text):
    for read in (hosts_of, tasks_of_nodes):
        try:
            assert len(read(text, "X")) <= MAX_HOSTS
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 - a list is as well


@pytest.mark.parametrize("nics", range(1, 10))
@pytest.mark.parametrize("processes", range(1, 10))
def test_processes_share_the_nics_of_a_host_evenly(nics, processes):
    names = [f"n{i}" for i in range(nics)]
    shares = [share_of(Membership("j", 0, 1, rank, processes), names) for rank in range(processes)]
    assert all(shares)
    if nics >= processes:
        assert [nic for share in shares for nic in share] == names
    uses = [sum(nic in share for share in shares) for nic in names]
    assert max(uses) - min(uses) <= 1
