"""Two gateways of a pair on veth: the standby takes over addresses and connections of one that is killed."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from tests.support.free_ports import free_ports
from tests.support.packets.veth_ports import Wires
from tests.support.pair.gateways import MANY_MISSED
from tests.support.processes.gateway_process import PATIENCE_S, Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
MAX_GAP_S = 10.0
"""Ten times the promised value: the test is about correctness, not speed."""


@pytest.fixture
def wires() -> Iterator[Wires]:
    wires = Wires(count=4)
    wires.near.run("ip", "link", "set", "lo", "up")
    yield wires
    wires.close()


@pytest.fixture
def pair(wires: Wires, tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    here, there = (f"127.0.0.1:{port}" for port in free_ports(2))
    running: list[Running] = []
    try:
        for number, (listen, partner) in enumerate(((here, there), (there, here)), start=1):
            other = 3 - number
            names = [wires.names[2 * number - 2], wires.names[2 * number - 1]]
            pair_config = {
                "partner_id": f"gw{other}-{os.getpid()}-auto",
                "paths": [{"listen": listen, "partner": partner}],
                "takes_over": [
                    {"interface": names[0], "address": f"192.0.2.{other}"},
                    {"interface": names[1], "address": f"198.51.100.{other}"},
                ],
                "missed": MANY_MISSED,
            }
            running.append(Running(wires, tmp_path, "auto", number=number, more={"partner": pair_config}))
        yield running[0], running[1]
    finally:
        for one in running:
            one.close()


def test_the_standby_takes_over_address_and_connections_of_one_that_is_killed(pair: tuple[Running, Running]) -> None:
    first, second = pair
    first.forwards()
    seen: list[Packet] = []
    first.send(1)

    def left() -> bool:
        seen.extend(first.outside())
        return bool(seen)

    def copied() -> bool:
        second.poll()
        return second.status()["tables"]["connections"]["used"] == 1

    first.until(left)
    first.until(copied)
    assert not second.outside()

    data = first.status()["pid"]
    os.kill(first.process.pid, signal.SIGKILL)
    os.kill(data, signal.SIGKILL)
    since = time.monotonic()
    after = first_through(second, first.vtep)
    assert time.monotonic() - since < MAX_GAP_S
    assert (after[IP].src, after[UDP].sport) == ("198.51.100.10", seen[0][UDP].sport)

    def announced() -> bool:
        second.poll()
        arps = [packet[ARP] for packet in map(Ether, second.held[0]) if ARP in packet]
        return any(arp.psrc == arp.pdst == first.vtep for arp in arps)

    second.until(announced)
    assert second.stop() == 0


def first_through(gateway: Running, vtep: str) -> Packet:
    """Send packets to a VTEP address at a gateway until one is forwarded; return it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (left := gateway.outside()):
        gateway.send(2, vtep=vtep)
        time.sleep(0.02)
        assert time.monotonic() < deadline, gateway.log_text()
    return left[0]


def test_the_status_shows_the_pair_and_one_that_is_stopped_hands_over(pair: tuple[Running, Running]) -> None:
    first, second = pair
    first.forwards()
    second.until(lambda: second.status()["pair"]["has_copy"] and first.status()["pair"]["has_copy"])
    status = second.status()["pair"]
    assert (status["serves"], status["partner_serves"], status["hears_partner"]) == ([], [first.id], True)
    first.until(lambda: first.status()["pair"]["partner_has_copy"])
    said = first.show()
    assert f"active-standby with {second.id}: serves {first.id}; the partner is heard and serves nothing" in said
    assert "copies of connections: complete here, complete there" in said
    assert first.stop() == 0
    second.until(lambda: "serves gw1" in second.log_text())
    second.until(lambda: not second.status()["pair"]["hears_partner"])
    assert f"serves {first.id}; the partner is not heard" in second.show()
    assert second.status()["pair"]["takeovers"] == 1
    assert first_through(second, first.vtep)[IP].src == "198.51.100.10"
    assert second.stop() == 0
