"""The alert rules of docs/prometheus, run by promtool: each fires when it should, and none on a healthy fabric."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.metrics_catalogue import catalogued_metrics
from tests.unit.dashboard.test_metrics import promtool

ROOT = Path(__file__).parents[3]
RULES = ROOT / "docs" / "prometheus" / "heddle.rules.yml"
NAME = re.compile(r"\b(?:heddle|fabric|rdma)_[a-z0-9_]+\b")
pytestmark = pytest.mark.skipif(
    promtool() is None, reason="no promtool here: `make setup` takes it out of Debian's prometheus"
)
END = [f'{{load_balancer="web", back_end="10.0.0.{number} port 80"}}' for number in (1, 2)]
STEP_S, STEPS = 10, 34
PORT, QUEUE = '{switch="leaf1", port="1"}', '{switch="leaf1", port="1", priority="3"}'
CONTROLLERS = [f'{{instance="10.0.0.1{number}:8080"}}' for number in (1, 2)]
NIC = '{host="h1", device="h1-n0", port="1"}'

HEALTHY: dict[str, int | float | str] = {
    'up{job="heddle"}': 1,
    'up{job="heddle-gateway"}': 1,
    'up{job="heddle-balancer"}': 1,
    "heddle_switches": 6,
    "heddle_switches_connected": 6,
    "heddle_switches_lacking_rules": 0,
    "heddle_switches_lagging": 0,
    'heddle_cables{cabling="wrong"}': 0,
    "heddle_links_down": 0,
    'heddle_bad_cables{plans="keep"}': 0,
    'heddle_bad_cables{plans="leave_out"}': 0,
    'heddle_jobs{state="running"}': 3,
    'heddle_jobs{state="degraded"}': 0,
    "heddle_links_over_capacity": 0,
    "heddle_events_refused_total": "7+0",
    "heddle_previews_refused_total": "2+0",
    "heddle_journal_failing": 0,
    f"heddle_leader{CONTROLLERS[0]}": 1,
    f"heddle_leader{CONTROLLERS[1]}": 0,
    f"heddle_leader_takeovers_total{CONTROLLERS[0]}": "1+0",
    f"heddle_leader_unfit{CONTROLLERS[1]}": 0,
    "heddle_log_suppressed_lines_total": "50+1",
    "heddle_telemetry_configured": 1,
    "heddle_telemetry_samples_total": "0+300",
    "heddle_history_failed_batches_total": "0+0",
    "heddle_probe_agents": 8,
    "heddle_probe_orders_overdue_total": "3+0",
    'heddle_probe_lies_total{kind="surplus"}': "2+0",
    f"fabric_port_stale{PORT}": 0,
    f"fabric_port_dropped_packets_total{PORT}": "9+0",
    f"fabric_queue_ecn_marked_packets_total{QUEUE}": "0+4",
    f"fabric_queue_transmit_packets_total{QUEUE}": "0+1000",
    f"fabric_port_pfc_paused_seconds_total{QUEUE}": "0+0.1",
    f"fabric_queue_pfc_watchdog_active{QUEUE}": 0,
    f"fabric_link_utilization_ratio{PORT}": 0.9,
    f"rdma_out_of_sequence_total{NIC}": "5+0",
    f"rdma_local_ack_timeout_err_total{NIC}": "5+0",
    "heddle_gateway_pair_hears_partner": 1,
    "heddle_gateway_restarts_total": "1+0",
    'heddle_gateway_table_rows{table="connections"}': 100,
    'heddle_gateway_table_size_rows{table="connections"}': 1000,
    "heddle_gateway_used_generation": 4,
    "heddle_gateway_offered_generation": 4,
    'heddle_isolation_differing_paths{gateway="gw1"}': 0,
    'heddle_gateways_kept_vpcs{gateway="gw1"}': 0,
    'heddle_gateways_unknown_vpcs{gateway="gw1"}': 0,
    f"heddle_balancer_back_end_up{END[0]}": 1,
    f"heddle_balancer_back_end_up{END[1]}": 1,
    'heddle_balancer_table_rows{table="connections"}': 100,
    'heddle_balancer_table_size_rows{table="connections"}': 1000,
}
BROKEN: dict[str, dict] = {
    "HeddleControllerDown": {'up{job="heddle"}': 0},
    "HeddleSwitchDisconnected": {"heddle_switches_connected": 5},
    "HeddleSwitchLacksRules": {"heddle_switches_lacking_rules": 1},
    "HeddleSwitchLags": {"heddle_switches_lagging": 1},
    "HeddleCableWrong": {'heddle_cables{cabling="wrong"}': 2},
    "HeddleLinkDown": {"heddle_links_down": 1},
    "HeddleBadCable": {'heddle_bad_cables{plans="leave_out"}': 1},
    "HeddleJobDegraded": {'heddle_jobs{state="degraded"}': 1},
    "HeddleLinksOverCapacity": {"heddle_links_over_capacity": 2},
    "HeddleRequestsRefused": {"heddle_previews_refused_total": "2+1"},
    "HeddleJournalNotWritten": {"heddle_journal_failing": 1},
    "HeddleNoLeader": {f"heddle_leader{CONTROLLERS[0]}": 0},
    "HeddleControllerUnfit": {f"heddle_leader_unfit{CONTROLLERS[1]}": 1},
    "HeddleLeaderChangesOften": {f"heddle_leader_takeovers_total{CONTROLLERS[0]}": "1+1"},
    "HeddleLogLinesSuppressed": {"heddle_log_suppressed_lines_total": "50+10"},
    "HeddleTelemetryMissing": {"heddle_telemetry_samples_total": "300+0"},
    "HeddleHistoryNotWritten": {"heddle_history_failed_batches_total": "0+1"},
    "HeddleProbeAgentLost": {"heddle_probe_agents": "8x10 7"},
    "HeddleProbeAgentSilent": {"heddle_probe_orders_overdue_total": "3+1"},
    "HeddleProbeAgentLies": {'heddle_probe_lies_total{kind="surplus"}': "2+1"},
    "FabricPortSilent": {f"fabric_port_stale{PORT}": 1},
    "FabricPacketsDropped": {f"fabric_port_dropped_packets_total{PORT}": "9+1"},
    "FabricCongestion": {f"fabric_queue_ecn_marked_packets_total{QUEUE}": "0+60"},
    "FabricPauseStorm": {f"fabric_port_pfc_paused_seconds_total{QUEUE}": "0+9.8"},
    "FabricPfcWatchdogActive": {f"fabric_queue_pfc_watchdog_active{QUEUE}": 1},
    "FabricLinkFull": {f"fabric_link_utilization_ratio{PORT}": 0.99},
    "RdmaOutOfSequence": {f"rdma_out_of_sequence_total{NIC}": "5+20"},
    "RdmaAckTimeouts": {f"rdma_local_ack_timeout_err_total{NIC}": "5+1"},
    "HeddleGatewayDown": {'up{job="heddle-gateway"}': 0},
    "HeddleGatewayPartnerSilent": {"heddle_gateway_pair_hears_partner": 0},
    "HeddleGatewayRestarted": {"heddle_gateway_restarts_total": "1+1"},
    "HeddleGatewayTableFull": {'heddle_gateway_table_rows{table="connections"}': 950},
    "HeddleGatewayOldTables": {"heddle_gateway_used_generation": 3},
    "HeddleVpcKept": {'heddle_gateways_kept_vpcs{gateway="gw1"}': 1},
    "HeddleVpcUnknown": {'heddle_gateways_unknown_vpcs{gateway="gw1"}': 2},
    "HeddleIsolationViolated": {'heddle_isolation_differing_paths{gateway="gw1"}': 1},
    "HeddleBalancerDown": {'up{job="heddle-balancer"}': 0},
    "HeddleBackEndDown": {f"heddle_balancer_back_end_up{END[0]}": 0},
    "HeddleNoBackEnd": {f"heddle_balancer_back_end_up{each}": 0 for each in END},
    "HeddleBalancerTableFull": {'heddle_balancer_table_rows{table="connections"}': 950},
}
"""For each alert, the series that differ from those of a healthy fabric, and in nothing else."""


def rules() -> list[dict]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def case(alert: str | None, changed: dict) -> dict:
    """Return a test of promtool: with these series exactly this alert fires at the end."""
    series = [
        {"series": name, "values": f"{value}x{STEPS}" if "+" in str(value) else f"{value}+0x{STEPS}"}
        for name, value in {**HEALTHY, **changed}.items()
    ]
    fires = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    expr = 'count by (alertname) (ALERTS{alertstate="firing"})'
    check = {"expr": expr, "eval_time": f"{STEP_S * STEPS}s", "exp_samples": fires}
    return {"interval": f"{STEP_S}s", "input_series": series, "promql_expr_test": [check]}


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    in_memory = {"TMPDIR": "/dev/shm"} if Path("/dev/shm").is_dir() else {}  # a database per case, each with its fsyncs
    command, environment = [str(promtool()), *words], {**os.environ, **in_memory}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_prometheus_loads_the_configuration_and_the_rules():
    found = run("check", "config", str(RULES.with_name("prometheus.yml")))
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(rules())} rules found" in found.stdout


def test_every_alert_fires_alone_when_it_should_and_none_on_a_healthy_fabric(tmp_path):
    assert [rule["alert"] for rule in rules()] == list(BROKEN)
    tests = [case(None, {}), *(case(alert, changed) for alert, changed in BROKEN.items())]
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": f"{STEP_S}s", "tests": tests}))
    found = run("test", "rules", str(path))
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_metric_of_a_rule_is_in_the_catalogue():
    named = {name for rule in rules() for name in NAME.findall(rule["expr"])}
    assert named - set(catalogued_metrics()) == set()
    assert len(named) > 20


def test_every_series_of_the_cases_has_the_labels_of_its_metric():
    for series in HEALTHY:
        name, _, labels = series.partition("{")
        if name != "up":
            ours = set(re.findall(r"(\w+)=", labels)) - {"instance"}  # Prometheus adds it
            assert ours == set(catalogued_metrics()[name]), series


def test_every_alert_says_what_happened_and_what_to_do():
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "description"}
