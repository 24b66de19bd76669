"""What squeue prints, for fakes; an end-to-end test compares it with a real Slurm."""

import re

SQUEUE_PRINTS = "4|4+0|h[5-6]\n5|4+1|h8\n9|7_3|h3\n12|12|h[1-2]\n"
"""A heterogeneous job of two components, a task of an array, and a job, as `slurm_jobs.SQUEUE` prints them."""


def form_of(text: str) -> list[str]:
    """Return the lines without the ids of jobs, sorted."""
    return sorted(re.sub(r"[0-9]+(?=[|_+])", "N", line) for line in text.splitlines())
