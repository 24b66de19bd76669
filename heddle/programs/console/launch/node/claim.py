"""Find the job of a process: by the cgroup that Slurm put it in, else by the environment that it was started with.

A user can set an environment, not a cgroup of Slurm: where both name a job of Slurm, the cgroup's is meant.
"""

import re
from typing import NamedTuple

from heddle.controller.model.admission import is_job_id

MAX_BYTES = 4 << 20
"""Of an environment: Linux starts programs with up to 6 MiB of arguments and environment, hardly any has 0.1."""
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
    variables = _variables(environment)
    job_id = variables.get("HEDDLE_JOB_ID", "")
    found, named = _SLURM_CGROUP.search(cgroup), _SLURM_JOB.match(job_id)
    if is_job_id(job_id) and (found is None or named is None or named[1] == found[1]):
        return Claim(job_id, is_start=False)
    number, leader = variables.get("SLURM_JOB_ID", ""), variables.get("SLURM_HET_JOB_ID", "")
    if found is not None and found[1] != number:
        number, leader = found[1], ""
    number = leader or number  # the components of a heterogeneous job are planned together, under the first one's id
    return Claim(f"slurm-{number}-", is_start=True) if _NUMBER.fullmatch(number) else None


def _variables(environment: bytes) -> dict[str, str]:
    """Return the variables that are read; of one that is set twice the first counts, as for getenv(3)."""
    wanted = (b"HEDDLE_JOB_ID", b"SLURM_JOB_ID", b"SLURM_HET_JOB_ID")
    found: dict[str, str] = {}
    for entry in environment.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in wanted:
            found.setdefault(name.decode(), value.decode(errors="replace"))
    return found
