"""How long processes have waited for a processor."""

import os
import subprocess
import sys

from heddle.mininet_topos.host.priorities import Waited, waited, waited_ns


def test_a_process_that_has_ended_has_not_waited():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert waited_ns(process.pid) == 0


def test_what_a_process_has_waited_is_the_second_figure_of_the_kernel_and_never_falls():
    before = waited_ns(os.getpid())
    with open(f"/proc/{os.getpid()}/schedstat") as file:
        kernels = int(file.read().split()[1])
    assert before <= kernels <= waited_ns(os.getpid())


def test_nics_count_with_their_mean_and_an_earlier_value_is_subtracted():
    pid = os.getpid()
    before = waited((), (pid, pid))
    assert before.switches_s == 0
    assert before.nics_s > 0
    assert Waited(3.0, 2.0).since(Waited(1.0, 0.5)) == Waited(2.0, 1.5)
    assert waited((pid,), ()).nics_s == 0
