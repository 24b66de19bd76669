"""The rules of SONiC's YANG models for the tables that `heddle export sonic` writes, as data of our own.

Read from sonic-net/sonic-buildimage, `src/sonic-yang-models/yang-models` (Apache-2.0, revisions up to 2026-06-23):
sonic-port, -cable-length, -dscp-tc-map, -tc-queue-map, -tc-priority-group-map, -pfc-priority-queue-map, -port-qos-map,
-scheduler, -wred-profile, -queue, -buffer-pool, -buffer-profile, -buffer-pg, -buffer-queue, -pfcwd, -hash. Names,
types, ranges, patterns, mandatory leaves, references and the `must` conditions of leaves in use;
other leaves are refused.
"""

import re

NAME = "[a-zA-Z0-9][-a-zA-Z0-9_]{0,31}"
TC = "[0-7]"


def number(low, high):
    return lambda value: value.lstrip("-").isdigit() and low <= int(value) <= high


def text(pattern):
    return lambda value: re.fullmatch(pattern, value) is not None


class Ref(str):
    """A leafref: the table whose row the value names."""


UINT64 = number(0, 2**64 - 1)
PERCENT = number(0, 100)
PORTS_0_TO_7 = text("([0-7](,[0-7])*)?")
COLOURS = ("green", "yellow", "red")
ANY_FIELD = "*"
HASH_FIELD = text(
    "IN_PORT|(INNER_)?(DST_MAC|SRC_MAC|ETHERTYPE|IP_PROTOCOL|DST_IP|SRC_IP|L4_DST_PORT|L4_SRC_PORT)|VLAN_ID|IPV6_FLOW_LABEL"
    "|RDMA_BTH_OPCODE|RDMA_BTH_DEST_QP"
)
# table: (the parts of its key, its leaves, the mandatory leaves)
TABLES = {
    "PORT": (
        (text("[-A-Za-z0-9_]{1,128}"),),
        {"speed": number(1, 1_600_000), "mtu": number(68, 9216), "lanes": text(r"\d+(,\d+)*")},
        ("lanes", "speed"),
    ),
    "CABLE_LENGTH": ((text(NAME),), {ANY_FIELD: (Ref("PORT"), text("[0-9]+m|None"))}, ()),
    "DSCP_TO_TC_MAP": ((text(NAME),), {ANY_FIELD: (text("6[0-3]|[1-5][0-9]?|[0-9]?"), text(TC))}, ()),
    "TC_TO_QUEUE_MAP": ((text(NAME),), {ANY_FIELD: (text(TC), text("[0-9]?"))}, ()),
    "TC_TO_PRIORITY_GROUP_MAP": ((text(NAME),), {ANY_FIELD: (text(TC), text("[0-7]?"))}, ()),
    "MAP_PFC_PRIORITY_TO_QUEUE": ((text(NAME),), {ANY_FIELD: (text("[0-7]?"), text("[0-7]?"))}, ()),
    "PORT_QOS_MAP": (
        ((Ref("PORT"), text("global")),),
        {
            "dscp_to_tc_map": Ref("DSCP_TO_TC_MAP"),
            "tc_to_queue_map": Ref("TC_TO_QUEUE_MAP"),
            "tc_to_pg_map": Ref("TC_TO_PRIORITY_GROUP_MAP"),
            "pfc_to_queue_map": Ref("MAP_PFC_PRIORITY_TO_QUEUE"),
            "pfc_enable": PORTS_0_TO_7,
            "pfcwd_sw_enable": PORTS_0_TO_7,
        },
        (),
    ),
    "SCHEDULER": ((text(".+"),), {"type": text("DWRR|WRR|STRICT"), "weight": number(1, 100)}, ()),
    "WRED_PROFILE": (
        (text(NAME),),
        {
            "ecn": text("ecn_(none|green|yellow|red|green_yellow|green_red|yellow_red|all)"),
            **{f"wred_{colour}_enable": text("true|false") for colour in COLOURS},
            **{f"{colour}_{end}_threshold": UINT64 for colour in COLOURS for end in ("min", "max")},
            **{f"{colour}_drop_probability": PERCENT for colour in COLOURS},
        },
        (),
    ),
    "QUEUE": ((Ref("PORT"), text(".+")), {"scheduler": Ref("SCHEDULER"), "wred_profile": Ref("WRED_PROFILE")}, ()),
    "BUFFER_POOL": (
        (text(".+"),),
        {"type": text("ingress|egress|both"), "mode": text("static|dynamic"), "size": UINT64, "xoff": UINT64},
        ("type", "mode"),
    ),
    "BUFFER_PROFILE": (
        (text(".+"),),
        {
            "pool": Ref("BUFFER_POOL"),
            "size": UINT64,
            "static_th": UINT64,
            "dynamic_th": number(-8, 7),
            "xon": UINT64,
            "xoff": UINT64,
            "xon_offset": UINT64,
            "headroom_type": text("static|dynamic"),
            "packet_discard_action": text("drop|trim"),
        },
        ("pool", "size"),
    ),
    "BUFFER_PG": ((Ref("PORT"), text("[0-7]((-)[0-7])?")), {"profile": (Ref("BUFFER_PROFILE"), text("NULL"))}, ()),
    "BUFFER_QUEUE": ((Ref("PORT"), text("(1[0-5]|[0-9])((-)(1[0-5]|[0-9]))?")), {"profile": Ref("BUFFER_PROFILE")}, ()),
    "PFC_WD": (
        ((Ref("PORT"), text("GLOBAL")),),
        {
            "action": text("drop|forward|alert"),
            "detection_time": number(100, 5000),
            "restoration_time": number(100, 60000),
            "POLL_INTERVAL": number(100, 1000),
        },
        (),
    ),
    "SWITCH_HASH": (
        (text("GLOBAL"),),
        {f"{kind}_hash{family}": HASH_FIELD for kind in ("ecmp", "lag") for family in ("", "_ipv4", "_ipv4_rdma")},
        (),
    ),
}


def schema_violations(config):
    """Return a line for every value of a config_db that the models refuse."""
    return [*_rows(config), *_conditions(config)]


def _rows(config):
    for table, rows in config.items():
        if table not in TABLES:
            yield f"{table}: no such table"
            continue
        key_parts, leaves, mandatory = TABLES[table]
        for key, row in rows.items():
            parts = key.split("|")
            if len(parts) != len(key_parts) or not all(map(_fits, key_parts, parts, [config] * len(parts))):
                yield f"{table}|{key}: key"
            yield from (f"{table}|{key}: {leaf} missing" for leaf in mandatory if leaf not in row)
            for field, value in row.items():
                if not _leaf_fits(leaves, field, value, config):
                    yield f"{table}|{key}: {field} = {value}"


def _leaf_fits(leaves, field, value, config):
    if ANY_FIELD in leaves:
        name, kind = leaves[ANY_FIELD]
        return _fits(name, field, config) and _fits(kind, value, config)
    if field not in leaves:
        return False
    values = value if isinstance(value, list) else [value]
    is_list = "_hash" in field
    return is_list == isinstance(value, list) and all(_fits(leaves[field], each, config) for each in values)


def _fits(kind, value, config):
    if isinstance(kind, tuple):  # a union
        return any(_fits(each, value, config) for each in kind)
    return value in config.get(kind, {}) if isinstance(kind, Ref) else isinstance(value, str) and kind(value)


def _conditions(config):
    for key, row in config.get("WRED_PROFILE", {}).items():
        for colour in COLOURS:
            if int(row[f"{colour}_max_threshold"]) < int(row[f"{colour}_min_threshold"]):
                yield f"WRED_PROFILE|{key}: {colour} max below min"
    watchdog = config.get("PFC_WD", {})
    poll = int(watchdog.get("GLOBAL", {}).get("POLL_INTERVAL", 0))
    for key, row in watchdog.items():
        if ("POLL_INTERVAL" in row) != (key == "GLOBAL") or (key == "GLOBAL" and len(row) > 1):
            yield f"PFC_WD|{key}: a leaf of the other kind of row"
        if any(int(row[leaf]) < poll for leaf in ("detection_time", "restoration_time") if leaf in row):
            yield f"PFC_WD|{key}: a time below POLL_INTERVAL"
