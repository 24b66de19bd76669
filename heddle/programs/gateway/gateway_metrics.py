"""Prometheus metrics of `heddle gateway`: packets by port and reason, tables, generations, pair."""

from collections.abc import Iterator, Mapping
from typing import Any

from heddle.controller.dashboard.exposition import Family, label_text, lines

PORT = {
    "rx_packets": Family("heddle_gateway_received_packets_total", "counter", "Frames taken from a port.", ("port",)),
    "rx_bytes": Family("heddle_gateway_received_bytes_total", "counter", "Bytes of those frames.", ("port",)),
    "rx_missed": Family(
        "heddle_gateway_missed_packets_total",
        "counter",
        "Frames dropped by the kernel because the receive ring was full.",
        ("port",),
    ),
    "rx_injected": Family(
        "heddle_gateway_injected_packets_total", "counter", "Frames of the slow path for a port.", ("port",)
    ),
    "rx_fragments": Family(
        "heddle_gateway_fragments_total",
        "counter",
        "Later fragments that the gateway made of a port's frames.",
        ("port",),
    ),
    "tx_packets": Family("heddle_gateway_sent_packets_total", "counter", "Frames sent by a port.", ("port",)),
    "tx_bytes": Family("heddle_gateway_sent_bytes_total", "counter", "Bytes of those frames.", ("port",)),
    "tx_failed": Family(
        "heddle_gateway_unsent_packets_total", "counter", "Frames that a port could not send, dropped.", ("port",)
    ),
}
"""By field of PORT_COUNTERS."""
DROPPED = Family("heddle_gateway_dropped_packets_total", "counter", "Frames dropped, by reason.", ("reason",))
PUNTED = Family("heddle_gateway_punted_packets_total", "counter", "Frames for the slow path, by reason.", ("reason",))
ANSWERED = Family("heddle_gateway_slow_path_packets_total", "counter", "Punted frames by outcome.", ("outcome",))
REFUSED = Family(
    "heddle_gateway_full_total",
    "counter",
    "Frames and neighbours refused because a ring or table of the slow path was full.",
    ("where",),
)
ROWS = Family("heddle_gateway_table_rows", "gauge", "Rows in use of a table that traffic fills.", ("table",))
ROOM = Family("heddle_gateway_table_size_rows", "gauge", "Capacity of the table, rows.", ("table",))
GAVE_WAY = Family(
    "heddle_gateway_gave_way_connections_total",
    "counter",
    "Closed and half-open connections that ended early, for lack of room for new ones.",
)
CONFIGURED = Family(
    "heddle_gateway_configured_generation",
    "gauge",
    "Generation of the network configuration, as the controller counts.",
)
KEPT = Family(
    "heddle_gateway_kept_vpcs", "gauge", "VPCs that are not served as the controller wants: an earlier state goes on."
)
UNKNOWN = Family(
    "heddle_gateway_unknown_vpcs", "gauge", "VPCs that stay in force although the controller does not know them."
)
OFFERED = Family("heddle_gateway_offered_generation", "gauge", "Generation of the tables published last.")
IN_USE = Family("heddle_gateway_used_generation", "gauge", "Generation of the tables in use.")
RESTARTS = Family("heddle_gateway_restarts_total", "counter", "Starts of the data process after the first.")
HANGS = Family(
    "heddle_gateway_hangs_total", "counter", "Times that the data process made no progress for a third of a second."
)
BUSY = Family("heddle_gateway_busy_seconds_total", "counter", "Time in which the data process had packets.")
SERVES = Family("heddle_gateway_pair_serves", "gauge", "1 if the gateway serves this role of the pair.", ("share",))
PAIR = {
    "hears_partner": Family("heddle_gateway_pair_hears_partner", "gauge", "1 while the partner's heartbeats arrive."),
    "has_copy": Family(
        "heddle_gateway_pair_has_copy", "gauge", "1 while a complete copy of the partner's connections is kept here."
    ),
    "partner_has_copy": Family(
        "heddle_gateway_pair_partner_has_copy", "gauge", "1 while the partner keeps a complete copy of the connections."
    ),
    "takeovers": Family("heddle_gateway_pair_takeovers_total", "counter", "Roles taken, the first included."),
    "conflicts": Family(
        "heddle_gateway_pair_conflicts_total", "counter", "Roles that both served and this gateway released."
    ),
    "copies_begun": Family(
        "heddle_gateway_pair_copies_begun_total", "counter", "Complete copies begun over a new TCP connection."
    ),
    "copies_anew": Family(
        "heddle_gateway_pair_copies_anew_total", "counter", "Complete copies begun again because records were lost."
    ),
    "stalls": Family(
        "heddle_gateway_pair_stalls_total", "counter", "Times that sending stopped until the partner acknowledged."
    ),
    "faults": Family(
        "heddle_gateway_pair_faults_total", "counter", "TCP connections closed because of a protocol error or timeout."
    ),
}
"""By field of `PairStatus`."""
BEATS = Family(
    "heddle_gateway_pair_bad_heartbeats_total", "counter", "Heartbeats that were old, or not the partner's.", ("why",)
)
RECORDS = Family(
    "heddle_gateway_pair_records_total", "counter", "Records of connections, by what was done with them.", ("what",)
)
PAIRED = (SERVES, *PAIR.values(), BEATS, RECORDS)
"""Families that only gateways with a partner export."""
FAMILIES = (
    *PORT.values(), DROPPED, PUNTED, ANSWERED, REFUSED, ROWS, ROOM, GAVE_WAY, CONFIGURED, KEPT, UNKNOWN, OFFERED,
    IN_USE, RESTARTS, HANGS, BUSY, *PAIRED,
)  # fmt: skip


def gateway_text(status: Mapping[str, Any]) -> str:
    """Render the status of a gateway (`Status.as_json`) in the Prometheus text format."""
    return "".join(_lines(status))


def _lines(status: Mapping[str, Any]) -> Iterator[str]:
    for field, family in PORT.items():
        yield from _by(family, {name: row[field] for name, row in status["ports"].items()})
    for family, field in ((DROPPED, "drops"), (PUNTED, "punts"), (ANSWERED, "slow_path"), (REFUSED, "refused")):
        yield from _by(family, status[field])
    yield from _by(ROWS, {name: table["used"] for name, table in status["tables"].items()})
    yield from _by(ROOM, {name: table["room"] for name, table in status["tables"].items()})
    for family, field in (
        (GAVE_WAY, "gave_way"), (CONFIGURED, "configured"), (OFFERED, "generation_offered"),
        (IN_USE, "generation_in_use"), (RESTARTS, "restarts"), (HANGS, "hangs"),
    ):  # fmt: skip
        yield from lines(family, [("", status[field])])
    yield from lines(KEPT, [("", len(status["kept_vpcs"]))])
    yield from lines(UNKNOWN, [("", len(status["unknown_vpcs"]))])
    yield from lines(BUSY, [("", status["busy_ns"] / 1e9)])
    if status["pair"] is not None:
        yield from _paired(status["pair"])


def _paired(pair: Mapping[str, Any]) -> Iterator[str]:
    yield from _by(SERVES, {share: int(share in pair["serves"]) for share in pair["shares"]})
    for field, family in PAIR.items():
        yield from lines(family, [("", int(pair[field]))])
    yield from _by(BEATS, {why: pair[f"heartbeats_{why}"] for why in ("ignored", "refused")})
    yield from _by(RECORDS, {what: pair[f"records_{what}"] for what in ("sent", "received", "refused")})


def _by(family: Family, values: Mapping[str, int]) -> Iterator[str]:
    return lines(family, [(label_text((family.labels[0], name)), value) for name, value in values.items()])
