"""A pair of gateways in the lab: hosts with the kernel's VXLAN and with Open vSwitch follow a takeover."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from heddle.mininet_topos.vpc.description import network
from heddle.mininet_topos.vpc.reach import all_probes
from heddle.mininet_topos.vpc.served import ServedLab

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
MAX_LOST = 200
"""Echoes, one each 50 ms: ten times the promised value, since the test is about correctness, not speed."""
PATHS = (("red1", "10.0.1.3"), ("red2", "10.0.1.3"), ("blue2", "172.16.0.10"), ("green1", "198.51.100.10"))
"""Through the gateway: from a host of each kind within a VPC, to the site by VLAN, and to the internet by NAT."""


@pytest.fixture
def pair() -> Iterator[ServedLab]:
    with ServedLab("mixed", 2) as lab:
        lab.apply(network())
        yield lab


def test_a_pair_opens_the_same_paths_as_one_gateway_and_survives_the_loss_of_one(pair):
    assert [row for row in pair.reach() if not row.agrees] == []
    started = [
        pair.lab.net.host(source).popen(["ping", "-i", "0.05", target], stdout=subprocess.PIPE)
        for source, target in PATHS
    ]
    time.sleep(2)
    pair.processes["gw1"].kill()
    time.sleep(MAX_LOST * 0.05)
    gaps = {}
    for ping, path in zip(started, PATHS, strict=True):
        ping.send_signal(signal.SIGINT)
        text = ping.communicate()[0].decode()
        sequence = [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", text)]
        gap = max(after - before for before, after in pairwise(sequence))
        gaps[path] = (gap, sequence[-1])
    print({path: f"{0.05 * gap:.2f} s" for path, (gap, _) in gaps.items()})
    assert all(gap < MAX_LOST and last > 2 / 0.05 + gap for gap, last in gaps.values()), gaps
    probes = all_probes(("red1", "red2", "blue2", "green1", "site", "internet"))
    assert [row for row in pair.reach(probes, gateway="gw2") if not row.agrees] == []
