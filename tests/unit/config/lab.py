"""Texts that the tests of files modify, and functions that return the problems of a text."""

import pytest

from heddle.controller.config import parse_fabric, parse_jobs
from heddle.controller.model.error import InputError

GENERATE = "generate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2}\n"
DRAWN = """
switches:
  - {id: s1, role: spine}
  - {id: l1, role: leaf}
  - {id: l2, role: leaf}
links:
  - {a: "l1:1", b: "s1:1", gbps: 100}
  - {a: "s1:2", b: "l2:1", gbps: 100}
hosts:
  - {id: a, nics: [{id: a0, ip: 10.0.0.1, port: "l1:2", gbps: 100}]}
  - {id: b, nics: [{id: b0, ip: 10.0.0.2, port: "l2:2", gbps: 100}]}
"""


def fabric(text=GENERATE):
    return parse_fabric(text, "fabric.yaml")


def refused(text):
    """Return the lines that a fabric text is refused with."""
    with pytest.raises(InputError) as caught:
        fabric(text)
    assert all(line.isprintable() for line in caught.value.problems)
    return list(caught.value.problems)


def job(text, within=None):
    """Return the one job of `jobs: [{job_id: a, TEXT}]`."""
    (request,) = parse_jobs(f"version: 1\njobs: [{{job_id: a, {text}}}]", "jobs.yaml", within or fabric())
    return request


def job_refused(text, within=None):
    with pytest.raises(InputError) as caught:
        job(text, within)
    return list(caught.value.problems)
