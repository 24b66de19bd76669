"""A lab of two planes with its controller: a port that fails under traffic, its flows in the other plane, and back."""

import json
import threading
import urllib.request
from typing import Any

import pytest

from heddle.mininet_topos.playground.fabric import lab_fabric
from heddle.mininet_topos.playground.result import TrafficResult
from heddle.mininet_topos.playground.routed import RoutedPlayground
from heddle.mininet_topos.playground.traffic import traffic_request

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.alone]

NIC, PORT = "h1-n0", "h1-n0/p0"
SECONDS, CUT_S = 8, 3.0
PORT_BPS = 10_000_000


def run(playground: RoutedPlayground, seconds: float, cut: bool = False) -> TrafficResult:
    """Run a permutation whose flows spray over two paths in each plane; cut the port's cable meanwhile."""
    timers: list[threading.Timer] = []

    def on_progress(at_s: float, _rate_bps: float) -> None:
        if cut and not timers and at_s > 0:
            timers.append(threading.Timer(CUT_S - at_s, playground.cut, (PORT,)))
            timers[0].start()

    request = traffic_request("permutation", True, seconds, None, 1, paths=2)
    found = playground.run(request, on_progress)
    for timer in timers:
        timer.join()
    print(f"FIGURES {'cut' if cut else 'whole'}: " + ", ".join(
        f"{row.src_nic}>{row.dst_nic} {row.planned_bps / 1e6:.2f} {row.goodput_bps / 1e6:.2f}" for row in found.flows
    ))  # fmt: skip
    print([(round(moment.at_ns / 1e6), moment.text) for moment in found.moments])
    return found


def document(playground: RoutedPlayground, path: str) -> Any:
    with urllib.request.urlopen(f"http://{playground.addresses['http']}{path}", timeout=10) as reply:
        return json.loads(reply.read())


def planned(found: TrafficResult, of_port: bool) -> set[int]:
    return {row.planned_bps for row in found.flows if (PORT in (row.src_nic, row.dst_nic)) is of_port}


def test_flows_of_a_port_that_fails_stay_in_the_other_plane_until_it_returns(own_registry):
    with RoutedPlayground(lab_fabric(None, 2), srv6=True) as playground:
        found = run(playground, SECONDS, cut=True)
        assert any(f"{PORT} down" in moment.text for moment in found.moments)
        assert planned(found, of_port=True) == {1}
        assert planned(found, of_port=False) == {PORT_BPS}
        assert document(playground, f"/api/nics/{PORT}")["peer"] == "p0-leaf1:3"
        assert (playground.directory / "nic" / "h1-n0%2Fp0.json").exists()
        playground.heal(PORT)
        whole = run(playground, 3)
        assert planned(whole, of_port=True) == planned(whole, of_port=False) == {PORT_BPS}
        assert all(row.goodput_bps > 0 for row in whole.flows)
