"""What Prometheus is told of a gateway."""

import subprocess

import pytest

from controller.dashboard.gateway_metrics import FAMILIES, gateway_text
from dataplane.control.shared import Word, make_shared, shared_of
from dataplane.control.status import Occupancy, Status, counted
from dataplane.engine.reasons import Drop, Punt
from tests.fakes.gateway_site import LOCAL
from tests.unit.dashboard.test_metrics import promtool, samples


@pytest.fixture
def status() -> Status:
    made = make_shared("test", len(LOCAL.interfaces))
    shared = shared_of(made)
    shared.counters.ports["rx_packets"] = [10, 20, 0, 0]
    shared.counters.ports["tx_packets"] = [5, 4, 3, 2]
    shared.counters.drops[Drop.UNKNOWN_VNI] = 9
    shared.counters.punts[Punt.ARP] = 7
    shared.words[Word.BUSY_NS] = 1_500_000_000
    found = Status(
        gateway_id="gw-1", pid=1, backend="af-xdp", notices=(), configured=4, generation_offered=9, restarts=2,
        tables={"connections": Occupancy(used=3, room=64)}, refused={"to_slow_path": 1},
        slow_path={"answered_arp": 7}, **counted(LOCAL, shared),
    )  # fmt: skip
    made.close()
    return found


def test_packets_are_told_by_port_and_by_reason(status: Status) -> None:
    found = samples(gateway_text(status.as_json()))
    assert found["heddle_gateway_received_packets_total", 'port="x0"'] == 20
    assert found["heddle_gateway_dropped_packets_total", 'reason="unknown_vni"'] == 9
    assert found["heddle_gateway_punted_packets_total", 'reason="arp"'] == 7
    assert found["heddle_gateway_table_rows", 'table="connections"'] == 3
    assert found["heddle_gateway_busy_seconds_total", ""] == 1.5


def test_what_came_in_and_what_ended_are_summed(status: Status) -> None:
    assert (status.received, status.ended) == (30, 30)


def test_every_family_that_is_told_is_in_the_catalogue_and_has_its_prefix(status: Status) -> None:
    told = {line.split()[2] for line in gateway_text(status.as_json()).splitlines() if line.startswith("# HELP")}
    assert told == {family.name for family in FAMILIES}
    assert all(name.startswith("heddle_gateway_") for name in told)


@pytest.mark.skipif(promtool() is None, reason="no promtool here: `make setup` takes it out of Debian's prometheus")
def test_promtool_has_no_complaint_about_a_gateway(status: Status) -> None:
    checked = subprocess.run(
        [str(promtool()), "check", "metrics"],
        input=gateway_text(status.as_json()),
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
