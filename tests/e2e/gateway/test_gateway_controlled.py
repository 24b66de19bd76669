"""A pair programmed by a controller: restarted gateways get the whole state, a restarted controller removes nothing,
and `heddle verify isolation` compares the installed with the desired state."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heddle.dataplane.control.process import segment
from heddle.mininet_topos.vpc.gateways import network_file
from tests.support.controllers.site_controller import ADDRESS, SiteController
from tests.support.packets.live_streams import assert_streams_continue
from tests.support.pair.gateways import Death, Gateways
from tests.support.pair.site import FIRST_PORT, Site, network
from tests.support.pair.streams import Streams
from tests.support.pair.takeover import kill, routes

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]
CONTENT = network_file(network())


class Controlled:
    """A site whose pair is attached, with connections through it."""

    def __init__(self, folder: Path) -> None:
        self.site = Site()
        self.controller = SiteController(self.site, folder)
        self.controller.apply(CONTENT)
        self.gateways = Gateways(self.site, folder, {"controller": ADDRESS})
        self.streams = Streams()
        self.gateways.until(self.gateways.in_step, "the pair is in step")
        self.attached()
        for route in routes(self.site):
            self.streams.open(route)

    def attached(self) -> None:
        """Wait until both gateways are attached and run the newest generation."""
        self.gateways.until(lambda: self.controller.attached() == {"gw1", "gw2"}, "both are attached")
        self.controller.apply(CONTENT)

    def unharmed(self) -> None:
        time.sleep(1)  # time in which a fault would show
        assert_streams_continue(self.gateways, self.streams)

    def close(self) -> None:
        self.streams.close()
        self.gateways.close()
        self.controller.kill()
        self.site.close()


@pytest.fixture(scope="module")
def controlled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    made = Controlled(tmp_path_factory.mktemp("controlled"))
    yield made
    made.close()


def test_a_killed_gateway_gets_the_whole_state_and_its_connections_continue(controlled: Controlled) -> None:
    for _ in range(2):
        victim = kill(controlled.gateways, controlled.streams, Death.BOTH, calm_s=0.1, watch_s=0.7)["victim"]
        controlled.attached()
        assert controlled.gateways.status(victim)["configured"] > 0
        controlled.unharmed()


def test_a_restarted_controller_removes_nothing(controlled: Controlled) -> None:
    before = {name: controlled.gateways.status(name)["configured"] for name in ("gw1", "gw2")}
    controlled.controller.kill()
    controlled.unharmed()
    controlled.controller.start()
    controlled.gateways.until(lambda: controlled.controller.attached() == {"gw1", "gw2"}, "both are attached")
    controlled.unharmed()
    assert {name: controlled.gateways.status(name)["configured"] for name in ("gw1", "gw2")} == before
    controlled.controller.apply(CONTENT)
    controlled.unharmed()
    assert all(controlled.gateways.status(name)["configured"] > before[name] for name in before)


def test_verify_finds_a_change_of_the_installed_tables(controlled: Controlled) -> None:
    agreed = controlled.controller.heddle("verify", "isolation")
    assert agreed["sound"]
    assert set(agreed["gateways"]) == {"gw1", "gw2"}
    assert all(report["endpoints"] == 4 for report in agreed["gateways"].values())
    with open_to_ssh(controlled.gateways.pid("gw1")):
        said = controlled.controller.run("verify", "isolation")
    assert said.returncode == 1
    found = json.loads(said.stdout)["gateways"]
    assert not found["gw2"]["findings"]
    named = [str(finding) for finding in found["gw1"]["findings"]]
    assert named
    assert all("leak" in finding and "red" in finding for finding in named), named


@contextmanager
def open_to_ssh(control: int) -> Iterator[None]:
    """Change one word of the tables in use meanwhile: red's first rule, of ports 7000 to 7999, begins at port 22."""
    files = Path(f"/proc/{control}/fd").iterdir()
    held = [file for file in files if os.readlink(file).startswith("/memfd:heddle-gw1-tables")]
    assert len({file.stat().st_ino for file in held}) == 1
    tables = segment.attach(os.open(held[0], os.O_RDWR))
    rules = tables.arrays["rules"]
    assert rules["port_min"][0] == FIRST_PORT
    rules["port_min"][0] = 22
    try:
        yield
    finally:
        rules["port_min"][0] = FIRST_PORT
        del rules
        tables.close()
