"""Scapy does not read the machine that it runs on."""

import subprocess
import sys

from scapy.layers.inet6 import conf

IN_A_PROGRAM = "import tests.fuzz, scapy.layers.inet6 as layer; print(*layer.conf.ifaces, layer.conf.route.routes)"


def test_scapy_knows_loopback_alone_and_no_route_in_tests():
    assert (list(conf.ifaces), conf.route.routes, conf.route6.routes) == (["lo"], [], [])


def test_and_in_the_programs_of_fuzz_tests():
    done = subprocess.run([sys.executable, "-c", IN_A_PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "lo []\n"
