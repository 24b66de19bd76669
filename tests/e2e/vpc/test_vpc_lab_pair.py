"""A pair of gateways in the lab: hosts with the kernel's VXLAN and with Open vSwitch follow a takeover."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mininet_topos.vpc.description import network
from mininet_topos.vpc.reach import all_probes
from mininet_topos.vpc.served import ServedLab

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
    files = [pair.directory / f"ping{number}" for number in range(len(PATHS))]
    started = [ping(pair, file, *path) for file, path in zip(files, PATHS, strict=True)]
    time.sleep(2)
    pair.processes["gw1"].kill()
    deadline = time.monotonic() + MAX_LOST * 0.05
    # Packets stop at the kill. Replies to echoes sent 2 s after the end of the gap show that they continue.
    while not all(sequence[-1] > 80 + widest(sequence) for sequence in map(sequence_of, files)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    gaps = {}
    for process, file, path in zip(started, files, PATHS, strict=True):
        process.send_signal(signal.SIGINT)
        process.communicate()
        sequence = sequence_of(file)
        gaps[path] = (widest(sequence), sequence[-1])
    print({path: f"{0.05 * gap:.2f} s" for path, (gap, _) in gaps.items()})
    assert all(gap < MAX_LOST and last > 2 / 0.05 + gap for gap, last in gaps.values()), gaps
    probes = all_probes(("red1", "red2", "blue2", "green1", "site", "internet"))
    assert [row for row in pair.reach(probes, gateway="gw2") if not row.agrees] == []


def ping(lab: ServedLab, file: Path, source: str, target: str) -> "subprocess.Popen[bytes]":
    with file.open("wb") as output:
        started: subprocess.Popen[bytes] = lab.lab.net.host(source).popen(["ping", "-i", "0.05", target], stdout=output)
    return started


def sequence_of(file: Path) -> list[int]:
    """Return the numbers of the echoes that got a reply."""
    return [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", file.read_text())]


def widest(sequence: list[int]) -> int:
    """Return the longest gap, in echoes."""
    return max(after - before for before, after in pairwise(sequence))
