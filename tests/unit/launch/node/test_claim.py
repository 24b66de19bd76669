"""Which job a process belongs to, by its cgroup and its environment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.programs.console.launch.node.claim import MAX_BYTES, Claim, claim_of

SLURM_7 = Claim("slurm-7-", is_start=True)
V2 = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
V1 = "9:name=systemd:/\n4:memory:/slurm/uid_1000/job_7/step_batch\n0::/\n"
CASES = {
    "a task of Slurm": ("0::/\n", b"A=1\0SLURM_JOB_ID=7\0", SLURM_7),
    "a later component of a heterogeneous job": ("", b"SLURM_JOB_ID=8\0SLURM_HET_JOB_ID=7", SLURM_7),
    "the same, in its cgroup": (V2.replace("_7", "_8"), b"SLURM_JOB_ID=8\0SLURM_HET_JOB_ID=7", SLURM_7),
    "a cgroup of version 2": (V2, b"", SLURM_7),
    "a cgroup of version 1": (V1, b"", SLURM_7),
    "an environment that names another job": (V2, b"SLURM_JOB_ID=9\0SLURM_HET_JOB_ID=9", SLURM_7),
    "a container": ("0::/kubepods/pod1\n", b"HEDDLE_JOB_ID=train", Claim("train", is_start=False)),
    "below heddle exec": (V2, b"HEDDLE_JOB_ID=slurm-7.0", Claim("slurm-7.0", is_start=False)),
    "in a cgroup, another job of Slurm by its whole id": (V2, b"HEDDLE_JOB_ID=slurm-77-0123456789ab", SLURM_7),
    "in a cgroup, a job of no Slurm": (V2, b"HEDDLE_JOB_ID=train", Claim("train", is_start=False)),
    "a variable twice": ("", b"SLURM_JOB_ID=7\0SLURM_JOB_ID=8", SLURM_7),
    "a name that ends alike": ("", b"XSLURM_JOB_ID=8\0SLURM_JOB_ID\0SLURM_JOB_ID=7", SLURM_7),
    "a value that is too long": ("", b"HEDDLE_JOB_ID=" + b"a" * 9_999 + b"\0SLURM_JOB_ID=" + b"7" * 9_999, None),
    "no job": ("0::/user.slice/job_7\n", b"PATH=/bin", None),
    "an id that is none": ("", b"HEDDLE_JOB_ID=../x\0SLURM_JOB_ID=-7", None),
    "an empty id": ("", b"HEDDLE_JOB_ID=\0SLURM_JOB_ID=", None),
}


@pytest.mark.parametrize(("cgroup", "environment", "wanted"), CASES.values(), ids=CASES)
def test_the_job_is_that_of_slurm_s_cgroup_else_of_the_environment(cgroup, environment, wanted):
    assert claim_of(cgroup, environment) == wanted


@given(st.text(), st.binary())
def test_whatever_is_read_names_a_job_or_none(cgroup, environment):
    claim = claim_of(cgroup, environment)
    assert claim is None or 0 < len(claim.text) <= 128


def test_a_start_fits_jobs_of_that_number_alone():
    assert [SLURM_7.fits(job) for job in ("slurm-7-0123456789ab", "slurm-77-0123456789ab", "slurm-7.0")] == [
        True,
        False,
        False,
    ]


def test_many_variables_are_not_split():
    """A user sets the environment: its entries are no work for the agent of all users."""

    class Environment(bytes):
        def split(self, *unused):
            raise AssertionError

        def __radd__(self, before):
            return Environment(before + bytes(self))

    assert claim_of("", Environment(b"\0" * MAX_BYTES + b"SLURM_JOB_ID=7")) == SLURM_7
    assert MAX_BYTES == 256 << 10
