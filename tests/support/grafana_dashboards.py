"""Generate docs/grafana/*.json from tables of panels: `python -m tests.support.grafana_dashboards`.

They have Grafana's classic format, which its importer and its provisioning read. The data source is a variable.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "docs" / "grafana"
SCHEMA_VERSION = 39
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
PORT = 'switch=~"$switch"'


class Panel(NamedTuple):
    """A panel: its title, what an operator reads off it, the unit, and expressions with their legends.

    `kind` is stat for one present value, else timeseries. Above `red` a value is drawn red.
    """

    title: str
    description: str
    unit: str
    expressions: dict[str, str]
    kind: str = "timeseries"
    red: float | None = None


class Board(NamedTuple):
    """A dashboard: file and uid, title, panels; `switches` for a choice of switches."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    switches: bool = False


def _per_second(metric: str, labels: str = "") -> str:
    return f"rate({metric}{{{labels}}}[$__rate_interval])" if labels else f"rate({metric}[$__rate_interval])"


BOARDS = (
    Board(
        "heddle-fabric",
        "Heddle: fabric",
        (
            Panel(
                "Fullest links", "Measured share of capacity. Full for long is normal for a planned collective.",
                "percentunit", {f"topk(10, fabric_link_utilization_ratio{{{PORT}}})": "{{switch}}:{{port}}"}, red=0.95,
            ),
            Panel(
                "Marked packets (ECN)", "Share of the packets that a queue sent marked: congestion.", "percentunit",
                {
                    f"topk(10, {_per_second('fabric_queue_ecn_marked_packets_total', PORT)}"
                    f" / ({_per_second('fabric_queue_transmit_packets_total', PORT)} > 0))":
                    "{{switch}}:{{port}} priority {{priority}}"
                }, red=0.05,
            ),
            Panel(
                "Time paused by PFC", "Share of time that a queue may not send. Long near 1: a storm.", "percentunit",
                {f"topk(10, {_per_second('fabric_port_pfc_paused_seconds_total', PORT)})":
                 "{{switch}}:{{port}} priority {{priority}}"}, red=0.8,
            ),
            Panel(
                "PFC frames received", "Pauses that the device behind a port asks for.", "pps",
                {f"topk(10, {_per_second('fabric_port_pfc_rx_packets_total', PORT)})": "{{switch}}:{{port}}"},
            ),
            Panel(
                "PFC frames sent", "Pauses that a switch asks of the device behind a port.", "pps",
                {f"topk(10, {_per_second('fabric_port_pfc_tx_packets_total', PORT)})": "{{switch}}:{{port}}"},
            ),
            Panel(
                "Dropped packets", "Zero in a lossless fabric.", "pps",
                {f"topk(10, {_per_second('fabric_port_dropped_packets_total', PORT)})": "{{switch}}:{{port}}"},
                red=0.001,
            ),
            Panel(
                "Deepest queues", "Bytes that wait in a queue now.", "bytes",
                {f"topk(10, fabric_queue_depth_bytes{{{PORT}}})": "{{switch}}:{{port}} priority {{priority}}"},
            ),
            Panel(
                "Imbalance of uplinks", "The fullest link of a switch over the mean of its links: 1 is even.", "none",
                {f"max by (switch) (fabric_link_utilization_ratio{{{PORT}}})"
                 f" / (avg by (switch) (fabric_link_utilization_ratio{{{PORT}}}) > 0.01)": "{{switch}}"},
            ),
            Panel(
                "Ports without fresh samples", "Their agent, their device or the broker is down.", "short",
                {f"sum by (switch) (fabric_port_stale{{{PORT}}})": "{{switch}}"}, red=1,
            ),
            Panel(
                "NICs: bytes sent", "The ten NICs that send most.", "Bps",
                {f"topk(10, {_per_second('rdma_optional_tx_bytes_total')})": "{{host}} {{device}}"},
            ),
            Panel(
                "NICs: CNPs sent", "Congestion notifications by receivers.", "pps",
                {f"topk(10, {_per_second('rdma_np_cnp_sent_total')})": "{{host}} {{device}}"},
            ),
            Panel(
                "NICs: loss as receivers and senders see it", "Out of sequence, NAKs and ACK timeouts.", "pps",
                {
                    f"topk(5, {_per_second('rdma_out_of_sequence_total')})": "{{device}} out of sequence",
                    f"topk(5, {_per_second('rdma_packet_seq_err_total')})": "{{device}} NAKs",
                    f"topk(5, {_per_second('rdma_local_ack_timeout_err_total')})": "{{device}} ACK timeouts",
                }, red=0.001,
            ),
        ),
        switches=True,
    ),
    Board(
        "heddle-controller",
        "Heddle: controller",
        (
            Panel("Switches without a session", "`heddle topology` names them.", "short",
                  {"heddle_switches - heddle_switches_connected": "missing"}, "stat", 1),
            Panel("Cables down", "`heddle topology` names them.", "short", {"heddle_links_down": "down"}, "stat", 1),
            Panel("Conditions raised", "What the detector sees now.", "short",
                  {"heddle_conditions": "{{kind}}"}, "stat", 1),
            Panel("Jobs", "By state; degraded ones miss a link.", "short", {"heddle_jobs": "{{state}}"}),
            Panel("Planned load of the fullest link", "1 is full; above it, flows share.", "percentunit",
                  {"heddle_max_link_utilisation": "fullest link"}, red=1.000001),
            Panel("Flows below their rate", "Flows slowed, and links planned above their capacity.", "short",
                  {"heddle_flows_slowed": "flows slowed", "heddle_links_over_capacity": "links over capacity"}),
            Panel("Requests", "That wait for the planner, and that were refused.", "short",
                  {"heddle_requests_waiting": "waiting",
                   "increase(heddle_events_refused_total[$__rate_interval])": "refused",
                   "increase(heddle_previews_refused_total[$__rate_interval])": "previews refused"}),
            Panel("Rules of switches", "Against the budget of the fabric file.", "short",
                  {"heddle_switch_rules": "{{switch}}"}),
            Panel("Topology changes", "Each cable or switch that fails or returns.", "short",
                  {"changes(heddle_topology_generation[$__rate_interval])": "changes"}),
            Panel("Telemetry", "Samples accepted, messages dropped because the collector was behind.", "cps",
                  {_per_second("heddle_telemetry_samples_total"): "samples",
                   _per_second("heddle_telemetry_overflowed_messages_total"): "overflowed",
                   _per_second("heddle_telemetry_late_looks_total"): "late periods"}),
            Panel("Unusual input of the bus", "By kind; docs/telemetry.md explains them.", "cps",
                  {_per_second("heddle_telemetry_odd_inputs_total"): "{{kind}}"}),
            Panel("History file", "Its size; the oldest seconds go first.", "bytes",
                  {"heddle_history_used_bytes": "used"}),
            Panel("Journal", "While it cannot be written, new work is refused and what runs goes on.", "short",
                  {"heddle_journal_failing": "{{instance}} failing"}, "stat", 1),
            Panel("Journal: writes", "Transactions, the values in them, and attempts that failed.", "cps",
                  {_per_second("heddle_journal_transactions_total"): "transactions",
                   _per_second("heddle_journal_values_total"): "values",
                   _per_second("heddle_journal_failed_writes_total"): "failed"}),
            Panel("Left out", "Log lines past the limit of their kind or peer, and history that was not kept.", "cps",
                  {_per_second("heddle_log_suppressed_lines_total"): "log lines",
                   _per_second("heddle_history_skipped_snapshots_total"): "snapshots",
                   _per_second("heddle_history_dropped_events_total"): "events",
                   _per_second("heddle_recording_lost_turns_total"): "recorded turns"}, red=0.001),
            Panel("Queue pairs that hosts report", "For jobs that the controller makes of large flows.", "cps",
                  {_per_second("heddle_flow_reports_queue_pairs_total"): "reported",
                   _per_second("heddle_flow_reports_foreign_total"): "of another host's NIC",
                   _per_second("heddle_flow_reports_surplus_total"): "past the limit",
                   _per_second("heddle_flow_reports_path_errors_total"): "path errors",
                   _per_second("heddle_flow_reports_denied_paths_total"): "denied paths",
                   _per_second("heddle_flow_reports_unknown_paths_total"): "unknown paths"}),
        ),
    ),
    Board(
        "heddle-gateways",
        "Heddle: gateways",
        (
            Panel("Received", "Bits per second by port.", "bps",
                  {f"8 * {_per_second('heddle_gateway_received_bytes_total')}": "{{instance}} {{port}}"}),
            Panel("Sent", "Bits per second by port.", "bps",
                  {f"8 * {_per_second('heddle_gateway_sent_bytes_total')}": "{{instance}} {{port}}"}),
            Panel("Dropped", "By reason; docs/vpc.md names those to act on.", "pps",
                  {f"topk(10, {_per_second('heddle_gateway_dropped_packets_total')})": "{{instance}} {{reason}}"}),
            Panel("Missed and unsent", "The kernel's ring was full, or a port could not send.", "pps",
                  {_per_second("heddle_gateway_missed_packets_total"): "{{instance}} {{port}} missed",
                   _per_second("heddle_gateway_unsent_packets_total"): "{{instance}} {{port}} unsent"}, red=0.001),
            Panel("Tables", "Rows in use, of those there are.", "percentunit",
                  {"heddle_gateway_table_rows / heddle_gateway_table_size_rows": "{{instance}} {{table}}"}, red=0.9),
            Panel("Slow path", "Frames for the control process, by reason.", "pps",
                  {_per_second("heddle_gateway_punted_packets_total"): "{{instance}} {{reason}}"}),
            Panel("Roles of pairs", "1 where a gateway serves a role.", "short",
                  {"heddle_gateway_pair_serves": "{{instance}} {{share}}"}),
            Panel("Partners", "1 while heartbeats arrive, and while copies are complete.", "short",
                  {"heddle_gateway_pair_hears_partner": "{{instance}} hears",
                   "heddle_gateway_pair_partner_has_copy": "{{instance}} is copied"}),
            Panel("Busy", "Share of time in which the data process had packets.", "percentunit",
                  {_per_second("heddle_gateway_busy_seconds_total"): "{{instance}}"}, red=0.9),
        ),
    ),
    Board(
        "heddle-balancers",
        "Heddle: balancers",
        (
            Panel("Back ends that are down", "By load balancer; the newest alert names them.", "short",
                  {"count by (load_balancer) (heddle_balancer_back_end_up == 0)": "{{load_balancer}}"}, "stat", 1),
            Panel("Back ends", "1 while one gets packets.", "short",
                  {"heddle_balancer_back_end_up": "{{load_balancer}} {{back_end}}"}),
            Panel("Connections", "New, refused, displaced, moved, expired.", "cps",
                  {_per_second("heddle_balancer_connections_total"): "{{instance}} {{event}}"}),
            Panel("Received", "Bits per second by port.", "bps",
                  {f"8 * {_per_second('heddle_balancer_received_bytes_total')}": "{{instance}} {{port}}"}),
            Panel("Dropped", "By reason; docs/balancer.md explains refusals.", "pps",
                  {f"topk(10, {_per_second('heddle_balancer_dropped_packets_total')})": "{{instance}} {{reason}}"}),
            Panel("Tables", "Rows in use, of those there are.", "percentunit",
                  {"heddle_balancer_table_rows / heddle_balancer_table_size_rows": "{{instance}} {{table}}"}, red=0.9),
            Panel("Slots that changes wrote", "Maglev slots: a change of back ends writes those that differ.", "cps",
                  {_per_second("heddle_balancer_slots_written_total"): "{{instance}}"}),
            Panel("Roles of pairs", "1 where a balancer serves a role.", "short",
                  {"heddle_balancer_pair_serves": "{{instance}} {{share}}"}),
            Panel("Busy", "Share of time in which the data process had packets.", "percentunit",
                  {_per_second("heddle_balancer_busy_seconds_total"): "{{instance}}"}, red=0.9),
        ),
    ),
)  # fmt: skip


def dashboard(board: Board) -> dict[str, Any]:
    """Return a dashboard as Grafana's classic JSON."""
    choices: list[dict[str, Any]] = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    ]
    if board.switches:
        query = {"query": "label_values(fabric_port_stale, switch)", "refId": "switch"}
        choices.append(
            {
                "name": "switch", "label": "Switch", "type": "query", "datasource": SOURCE, "query": query,
                "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            }
        )  # fmt: skip
    return {
        "uid": board.uid,
        "title": board.title,
        "description": "Metrics of heddle run, heddle gateway and heddle balancer; docs/metrics.md explains each.",
        "tags": ["heddle"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": choices},
        "panels": [_panel(number, panel) for number, panel in enumerate(board.panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, COLUMNS)
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red is not None:
        steps.append({"color": "red", "value": panel.red})
    defaults = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expr, "legendFormat": legend, "range": True}
            for at, (expr, legend) in enumerate(panel.expressions.items())
        ],
    }


def files() -> dict[Path, str]:
    """Return the text of every dashboard's file."""
    return {FOLDER / f"{board.uid}.json": json.dumps(dashboard(board), indent=2) + "\n" for board in BOARDS}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
