"""Metrics of a gateway."""

import subprocess
from dataclasses import replace

import pytest

from heddle.dataplane.control.process.shared import Word, make_shared, shared_of
from heddle.dataplane.control.status import Occupancy, PairStatus, Status, counted
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.programs.gateway.gateway_metrics import FAMILIES, gateway_text
from tests.fakes.gateway.gateway_site import LOCAL
from tests.unit.dashboard.test_metrics import promtool, samples

PAIR = PairStatus(
    partner_id="gw-2", mode="active-active", shares=("gw-1", "gw-2"), serves=("gw-1",), partner_serves=("gw-2",),
    hears_partner=True, has_copy=True, partner_has_copy=False, takeovers=3, conflicts=1, heartbeats_ignored=4,
    heartbeats_refused=5, records_sent=60, records_received=70, records_refused=8, copies_begun=2, copies_anew=1,
    stalls=9, faults=6,
)  # fmt: skip


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
        gateway_id="gw-1", pid=1, backend="af-xdp", notices=(), configured=4, generation_offered=9, restarts=2, hangs=1,
        tables={"connections": Occupancy(used=3, room=64)}, refused={"to_slow_path": 1},
        slow_path={"answered_arp": 7}, pair=PAIR, **counted(LOCAL, shared),
    )  # fmt: skip
    made.close()
    return found


def test_packets_are_counted_by_port_and_by_reason(status: Status) -> None:
    found = samples(gateway_text(status.as_json()))
    assert found["heddle_gateway_received_packets_total", 'port="x0"'] == 20
    assert found["heddle_gateway_dropped_packets_total", 'reason="unknown_vni"'] == 9
    assert found["heddle_gateway_punted_packets_total", 'reason="arp"'] == 7
    assert found["heddle_gateway_table_rows", 'table="connections"'] == 3
    assert found["heddle_gateway_busy_seconds_total", ""] == 1.5


def test_received_and_finished_packets_are_summed(status: Status) -> None:
    assert (status.received, status.ended) == (30, 30)


def test_the_state_of_a_pair_has_metrics_only_with_a_partner(status: Status) -> None:
    found = samples(gateway_text(status.as_json()))
    assert found["heddle_gateway_pair_serves", 'share="gw-1"'] == 1
    assert found["heddle_gateway_pair_serves", 'share="gw-2"'] == 0
    assert found["heddle_gateway_pair_partner_has_copy", ""] == 0
    assert found["heddle_gateway_pair_takeovers_total", ""] == 3
    assert found["heddle_gateway_pair_records_total", 'what="refused"'] == 8
    assert found["heddle_gateway_pair_bad_heartbeats_total", 'why="ignored"'] == 4
    alone = gateway_text(replace(status, pair=None).as_json())
    assert "_pair_" not in alone


def test_every_family_is_in_the_catalogue_and_has_its_prefix(status: Status) -> None:
    names = {line.split()[2] for line in gateway_text(status.as_json()).splitlines() if line.startswith("# HELP")}
    assert names == {family.name for family in FAMILIES}
    assert all(name.startswith("heddle_gateway_") for name in names)


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
