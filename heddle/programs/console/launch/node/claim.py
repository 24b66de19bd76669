"""Find the job of a process: by the cgroup that Slurm put it in, else by the environment that it was started with.

A user can set an environment, not a cgroup of Slurm: where both name a job of Slurm, the cgroup's is meant.
"""

import re
from typing import NamedTuple

from heddle.controller.model.admission import is_job_id

MAX_BYTES = 256 << 10
"""Of an environment, which any user sets: Linux takes 6 MiB, hardly any has 0.1. What is beyond is not read."""
MAX_VALUE_LENGTH = 256
"""Of a variable, which is no id then."""
_SLURM_CGROUP = re.compile(r"slurm[^\n]*?/job_([0-9]{1,10})(?:/|$)", re.MULTILINE)
_SLURM_JOB = re.compile(r"slurm-([0-9]+)(?![0-9])")
_NUMBER = re.compile(r"[0-9]{1,10}")


class Claim(NamedTuple):
    """A job: the one of this id, or with `is_start` the one whose id begins with the text."""

    text: str
    is_start: bool

    def fits(self, job_id: str) -> bool:
        """Return whether a job is meant."""
        return job_id.startswith(self.text) if self.is_start else job_id == self.text


def claim_of(cgroup: str, environment: bytes) -> Claim | None:
    """Return the job that /proc/PID/cgroup and /proc/PID/environ name, None where they name none."""
    environment = b"\0" + environment
    job_id = _variable(environment, b"HEDDLE_JOB_ID")
    found, named = _SLURM_CGROUP.search(cgroup), _SLURM_JOB.match(job_id)
    if is_job_id(job_id) and (found is None or named is None or named[1] == found[1]):
        return Claim(job_id, is_start=False)
    number, leader = _variable(environment, b"SLURM_JOB_ID"), _variable(environment, b"SLURM_HET_JOB_ID")
    if found is not None and found[1] != number:
        number, leader = found[1], ""
    number = leader or number  # the components of a heterogeneous job are planned together, under the first one's id
    return Claim(f"slurm-{number}-", is_start=True) if _NUMBER.fullmatch(number) else None


def sends_of(environment: bytes) -> str:
    """Return what a process says that its job sends, HEDDLE_SENDS; empty where it says nothing, or what is no text."""
    found = _variable(b"\0" + environment, b"HEDDLE_SENDS")
    return found if len(found) <= MAX_VALUE_LENGTH and found.isprintable() else ""


def _variable(environment: bytes, name: bytes) -> str:
    """Return a variable, empty without one; of one that is set twice the first counts, as for getenv(3)."""
    _, found, after = environment.partition(b"\0" + name + b"=")
    return after[: MAX_VALUE_LENGTH + 1].partition(b"\0")[0].decode(errors="replace") if found else ""
