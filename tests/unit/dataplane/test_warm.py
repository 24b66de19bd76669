"""What set-up compiles for data processes."""

import subprocess
import sys

import pytest

UNREACHED = """
from heddle.dataplane import warm
from heddle.dataplane.control.process.programs import program_named

warm.{warm}()
program = program_named("{program}")
print(*(kernel.__name__ for kernel in (program.run, program.exchange) if not kernel.signatures))
"""


@pytest.mark.parametrize(("program", "warm"), [("gateway", "warm"), ("balancer", "warm_balancer")])
def test_what_a_data_process_calls_is_compiled_ahead_of_time(program, warm):
    code = UNREACHED.format(program=program, warm=warm)
    found = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
