"""Write the settings that a plan assumes of a SONiC switch as config_db tables, for `config load`.

The tables add to the switch's own: they name no lanes, addresses, buffer sizes or other properties of its hardware.
All names begin with `HEDDLE`, so nothing of the platform's defaults is changed.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.queueing import (
    KMAX_BYTES,
    KMIN_BYTES,
    PMAX,
    WATCHDOG_DETECTION_MS,
    WATCHDOG_RESTORATION_MS,
    XON_BYTES,
    at_rate,
)
from heddle.controller.sonic.headroom import headroom_bytes
from heddle.foundation.traffic_class import CLASSES, LOSSLESS, OTHER, PRIORITY_OF_DSCP, TrafficClass

Row = dict[str, str | list[str]]
Tables = dict[str, dict[str, Row]]

MAP_NAME = "HEDDLE"
MTU_BYTES = 9_100
"""SONiC's default."""
HASH_FIELDS = ("SRC_IP", "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT", "L4_DST_PORT")
_PRIORITIES = range(8)
_PAUSED = tuple(each.priority for each in LOSSLESS)
_INGRESS, _EGRESS, _LOSSY = "ingress_lossless_pool", "egress_lossless_pool", "egress_lossy_pool"


class PortNames(NamedTuple):
    """How port numbers of a fabric file become interfaces: port n is Ethernet(first + (n - 1) x step)."""

    first: int = 0
    step: int = 4

    def interface(self, number: int) -> str:
        """Return the interface of a port number."""
        return f"Ethernet{self.first + (number - 1) * self.step}"


def switch_ports(fabric: Fabric) -> dict[str, dict[int, int]]:
    """Return the rate in Mbit/s of every cabled port, by switch and port number."""
    found: dict[str, dict[int, int]] = {switch.id: {} for switch in fabric.switches}

    def put(port: PortRef, rate_bps: int) -> None:
        found[port.switch][port.number] = rate_bps // 10**6

    for cable in fabric.cables:
        put(cable.lower, cable.capacity_bps)
        put(cable.upper, cable.capacity_bps)
    for nic in fabric.nics:
        put(nic.port, nic.capacity_bps)
    return {switch: dict(sorted(ports.items())) for switch, ports in found.items()}


def config_tables(speeds: Mapping[int, int], names: PortNames, cable_metres: int) -> Tables:
    """Return the config_db tables of a switch: `speeds` is the Mbit/s of each port number."""
    ports = {names.interface(number): speed for number, speed in speeds.items()}
    rates = sorted(set(ports.values()))
    cable_metres = max(cable_metres, 1)  # SONiC takes 0m for a port without lossless groups
    return {
        "PORT": {port: {"speed": str(speed), "mtu": str(MTU_BYTES)} for port, speed in ports.items()},
        "CABLE_LENGTH": {MAP_NAME: dict.fromkeys(ports, f"{cable_metres}m")},
        **_maps(),
        "PORT_QOS_MAP": {
            "global": {"dscp_to_tc_map": MAP_NAME},
            **{port: _port_maps() for port in ports},
        },
        "SCHEDULER": {
            "HEDDLE_STRICT": {"type": "STRICT"},
            **{_scheduler(each): {"type": "DWRR", "weight": str(each.weight)} for each in CLASSES if not each.strict},
        },
        "WRED_PROFILE": {_name(rate): _wred(rate) for rate in rates},
        "QUEUE": _queues(ports),
        **_buffers(ports, rates, cable_metres),
        "PFC_WD": _watchdog(ports),
        "SWITCH_HASH": {"GLOBAL": {"ecmp_hash": list(HASH_FIELDS)}},
    }


def _name(speed_mbps: int) -> str:
    return f"HEDDLE_{speed_mbps}M"


def _scheduler(of: TrafficClass) -> str:
    if of.strict:
        return "HEDDLE_STRICT"
    return "HEDDLE_SHARED" if of.weight == OTHER.weight else f"HEDDLE_SHARED_{of.weight}"


def _maps() -> Tables:
    each = {str(priority): str(priority) for priority in _PRIORITIES}
    groups: Row = {str(priority): str(priority if priority in _PAUSED else 0) for priority in _PRIORITIES}
    return {
        "DSCP_TO_TC_MAP": {MAP_NAME: {str(dscp): str(PRIORITY_OF_DSCP.get(dscp, 0)) for dscp in range(64)}},
        "TC_TO_QUEUE_MAP": {MAP_NAME: {**each}},
        "TC_TO_PRIORITY_GROUP_MAP": {MAP_NAME: groups},
        "MAP_PFC_PRIORITY_TO_QUEUE": {MAP_NAME: {**each}},
    }


def _port_maps() -> Row:
    return {
        "dscp_to_tc_map": MAP_NAME,
        "tc_to_queue_map": MAP_NAME,
        "tc_to_pg_map": MAP_NAME,
        "pfc_to_queue_map": MAP_NAME,
        "pfc_enable": ",".join(map(str, _PAUSED)),
        "pfcwd_sw_enable": ",".join(map(str, _PAUSED)),
    }


def _wred(speed_mbps: int) -> Row:
    row: Row = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        row[f"wred_{colour}_enable"] = "true"
        row[f"{colour}_min_threshold"] = str(at_rate(KMIN_BYTES, speed_mbps * 10**6))
        row[f"{colour}_max_threshold"] = str(at_rate(KMAX_BYTES, speed_mbps * 10**6))
        row[f"{colour}_drop_probability"] = str(round(100 * PMAX))
    return row


def _queues(ports: Mapping[str, int]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for port, speed in ports.items():
        for each in CLASSES:
            row: Row = {"scheduler": _scheduler(each)}
            if each.ecn and each is not OTHER:  # how queue 0 marks is the switch's own setting
                row["wred_profile"] = _name(speed)
            rows[f"{port}|{each.priority}"] = row
    return rows


def _buffers(ports: Mapping[str, int], rates: Iterable[int], cable_metres: int) -> Tables:
    pools: dict[str, Row] = {
        _INGRESS: {"type": "ingress", "mode": "dynamic"},
        _EGRESS: {"type": "egress", "mode": "static"},
        _LOSSY: {"type": "egress", "mode": "dynamic"},
    }
    profiles: dict[str, Row] = {
        "HEDDLE_LOSSY_PG": {"pool": _INGRESS, "size": "0", "dynamic_th": "3"},
        "HEDDLE_LOSSY_QUEUE": {"pool": _LOSSY, "size": "1518", "dynamic_th": "3"},
        # As much as the pool has: a lossless packet is bounded where it enters, never where it leaves.
        "HEDDLE_LOSSLESS_QUEUE": {"pool": _EGRESS, "size": "1518", "static_th": "4294967295"},
    }
    for rate in rates:
        xon = at_rate(XON_BYTES, rate * 10**6)
        xoff = headroom_bytes(rate, cable_metres, MTU_BYTES)
        profiles[_name(rate)] = {
            "pool": _INGRESS,
            "size": str(xon + xoff),
            "xon": str(xon),
            "xoff": str(xoff),
            "dynamic_th": "0",
        }
    groups: dict[str, Row] = {}
    queues: dict[str, Row] = {}
    for port, rate in ports.items():
        groups[f"{port}|0"] = {"profile": "HEDDLE_LOSSY_PG"}
        groups |= {f"{port}|{priority}": {"profile": _name(rate)} for priority in _PAUSED}
        for lossless, run in groupby(_PRIORITIES, lambda each: each if each in _PAUSED else None):  # lossless: one each
            first, *rest = run
            span = f"{first}-{rest[-1]}" if rest else f"{first}"
            queues[f"{port}|{span}"] = {"profile": "HEDDLE_LOSSLESS_QUEUE" if lossless else "HEDDLE_LOSSY_QUEUE"}
    return {"BUFFER_POOL": pools, "BUFFER_PROFILE": profiles, "BUFFER_PG": groups, "BUFFER_QUEUE": queues}


def _watchdog(ports: Iterable[str]) -> dict[str, Row]:
    row: Row = {
        "action": "drop",
        "detection_time": str(WATCHDOG_DETECTION_MS),
        "restoration_time": str(WATCHDOG_RESTORATION_MS),
    }
    return {"GLOBAL": {"POLL_INTERVAL": str(WATCHDOG_DETECTION_MS)}, **{port: dict(row) for port in ports}}
