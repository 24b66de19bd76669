"""A lab of routers whose routes FRR finds by BGP."""

import subprocess
from pathlib import Path

import pytest

from heddle.controller.model.address import ip_text
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.routed.routes import Routing
from tests.support.fabrics.small_fabrics import spine_leaf

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("own_registry")]


def reaches(lab, source, target):
    words = ["ping", "-n", "-c", "1", "-W", "5", "-I", lab.net.device_of[source.id], ip_text(target.ip)]
    return subprocess.run([*lab.net.host(source.host).entrance, *words], capture_output=True).returncode == 0


def is_running(pid):
    return Path(f"/proc/{pid}/exe").exists()  # also False of a process that has ended and waits for init


def test_routers_route_around_a_cut_cable_and_back_and_their_daemons_end_with_the_lab():
    fabric = spine_leaf(2, 2, 2)
    source, target = fabric.nics
    cut = next(cable for cable in fabric.cables if cable.lower.switch == source.port.switch)
    with RoutedLab(fabric, routing=Routing.BGP) as lab:
        bgp = lab.routers.bgp
        assert bgp is not None
        assert reaches(lab, source, target)
        lab.routers.set_cable(cut.id, up=False)
        bgp.await_routes({cut.id})
        assert reaches(lab, source, target)
        lab.routers.set_cable(cut.id, up=True)
        bgp.await_routes()
        assert reaches(lab, source, target)
        files = [*(entry_of(lab.id).directory / "frr").glob("*/*.pid")]
        pids = [int(file.read_text()) for file in files]
        assert len(pids) == 2 * len(fabric.switches)
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))
