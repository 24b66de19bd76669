"""Ports of tests: no two test processes reserve the same."""

import subprocess
import sys

from tests.support import free_ports


def test_another_process_does_not_get_a_port_that_is_reserved_and_not_yet_used():
    (port,) = free_ports.free_ports(1)
    program = f"from heddle.mininet_topos.services.loopback import reserve\nprint(reserve({port}))\n"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "None\n"


def test_a_process_does_not_get_a_port_twice():
    assert len(set(free_ports.free_ports(20) + free_ports.free_ports(20))) == 40
