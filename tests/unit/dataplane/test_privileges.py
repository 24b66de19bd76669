"""The packet process keeps no capability once its ports are open."""

import os
import subprocess
import sys

import pytest

SHOWN = """
import numpy, glob, os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from heddle.dataplane.control.process.privileges import drop_capabilities
drop_capabilities()
for path in glob.glob("/proc/self/task/*/status"):
    print(open(path).read())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a process of another user has no capabilities to drop")
def test_no_thread_keeps_a_capability_nor_could_a_program_gain_one():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SHOWN], env=environment, capture_output=True, text=True, check=True)
    rows = [line.split(":") for line in done.stdout.splitlines() if ":" in line]
    found = {(name, value.strip()) for name, value in rows if name.startswith("Cap") or name == "NoNewPrivs"}
    assert found == {(f"Cap{kind}", "0" * 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} | {("NoNewPrivs", "1")}
