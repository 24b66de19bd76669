import signal
import sys

import pytest

from heddle.programs.console.main import main

LAB = """\
version: 1
name: lab
generate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 100}
"""
RING = """\
version: 1
jobs:
  - job_id: ring
    ranks: {all: true}
    collectives: [{kind: RING_ALL_REDUCE, bytes: 1000000}]
"""


@pytest.fixture
def heddle(capsys, monkeypatch):
    """Run the command line in this process; gives (exit status, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["heddle", *map(str, arguments)])
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            main()
        signal.signal(signal.SIGTERM, before)
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


@pytest.fixture
def files(tmp_path):
    """Write a fabric and a jobs file; gives a function that writes others."""

    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    write("fabric.yaml", LAB)
    write("jobs.yaml", RING)
    return write
