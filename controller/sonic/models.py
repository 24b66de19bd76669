"""State what SONiC's YANG models accept in the tables of RoCE settings: keys, fields, values, mandatory fields.

Facts of sonic-net/sonic-buildimage, `src/sonic-yang-models`, at a commit of master; fields of branches that are not
merged are refused. tests/data/sonic/facts.yaml has them once more, with what was read. The conditions between fields
are in `refusals`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from heddle.controller.sonic.kinds import (
    ANY,
    IPV6_ADDRESS,
    IPV6_PREFIX,
    ValueKind,
    either,
    length,
    number,
    one_of,
    pattern,
    row_of,
)

MAX_SPEED_MBPS = 1_600_000
COLOURS = ("green", "yellow", "red")


class Model(NamedTuple):
    """A table: its YANG file, the parts of its key, and its fields.

    A map has `entries` instead: the kinds of its fields' names and of their values. `lists` are fields that hold a
    list, `texts` those of them that may hold a text of items between commas.
    """

    file: str
    keys: tuple[ValueKind, ...]
    fields: Mapping[str, ValueKind] = {}
    required: tuple[str, ...] = ()
    entries: tuple[ValueKind, ValueKind] | None = None
    lists: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


_NAME = pattern("[a-zA-Z0-9][-a-zA-Z0-9_]{0,31}", "a name of at most 32 letters, digits, - and _")
_UINT8, _UINT16, _UINT32, _UINT64 = (number(0, 2**bits - 1) for bits in (8, 16, 32, 64))
_PERCENT, _SPEED = number(0, 100), number(1, MAX_SPEED_MBPS)
_SWITCH, _TRUTH = one_of("on", "off"), one_of("true", "false")
_CLASS, _GROUP = number(0, 15), pattern("[0-7]?", "0..7")
_PRIORITIES = pattern("([0-7](,[0-7])*)?", "priorities 0 to 7 with commas between")
_ALL = one_of("all")
_INTERFACE_TYPE = pattern(
    "[CSLK]R[48]?|[CSK]R2|CAUI4?|GMII|SFI|XLAUI|XAUI|XFI|XGMII|none", "an interface type such as CR4"
)
_HASH_FIELD = one_of(
    *(f"{inner}{name}" for inner in ("", "INNER_") for name in
      ["DST_MAC", "SRC_MAC", "ETHERTYPE", "IP_PROTOCOL", "DST_IP", "SRC_IP", "L4_DST_PORT", "L4_SRC_PORT"]),
    *["IN_PORT", "VLAN_ID", "IPV6_FLOW_LABEL"],
)  # fmt: skip
_HASH_ALGORITHM = one_of("CRC", "XOR", "RANDOM", "CRC_32LO", "CRC_32HI", "CRC_CCITT", "CRC_XOR")
_HASHES = dict.fromkeys(("ecmp_hash", "lag_hash"), _HASH_FIELD)
_PORT = Model(
    "sonic-port.yang",
    (length(1, 128),),
    {
        **dict.fromkeys(("core_id", "core_port_id", "num_voq"), length(1, 16)),
        **dict.fromkeys(("alias", "lanes"), length(1, 128)),
        **dict.fromkeys(("link_training", "autoneg", "pfc_asym"), _SWITCH),
        **dict.fromkeys(("mux_cable", "fast_linkup"), _TRUTH),
        "asic_port_name": ANY,
        "mode": one_of("routed", "access", "trunk"),
        "description": length(0, 255),
        "speed": _SPEED,
        "dhcp_rate_limit": _UINT32,
        "adv_speeds": either(_SPEED, _ALL),
        "interface_type": _INTERFACE_TYPE,
        "adv_interface_types": either(_INTERFACE_TYPE, _ALL),
        "mtu": number(68, 9_216),
        "subport": number(0, 8),
        "index": _UINT16,
        "role": one_of("Ext", "Int", "Inb", "Rec", "Dpc"),
        "admin_status": one_of("up", "down"),
        "fec": one_of("rs", "fc", "none", "auto"),
        "dom_polling": one_of("enabled", "disabled"),
        "tpid": one_of("0x8100", "0x9100", "0x9200", "0x88a8", "0x88A8"),
        "macsec": row_of("MACSEC_PROFILE"),
        "tx_power": pattern(r"-?\d{1,17}(\.\d)?", "dBm with at most one decimal"),
        "laser_freq": number(-(2**31), 2**31 - 1),
    },
    required=("lanes", "speed"),
    lists=frozenset({"adv_speeds", "adv_interface_types"}),
    texts=frozenset({"adv_speeds", "adv_interface_types"}),
)
_QUEUES = {"scheduler": row_of("SCHEDULER"), "wred_profile": row_of("WRED_PROFILE")}
MODELS: Mapping[str, Model] = {
    "PORT": _PORT,
    "CABLE_LENGTH": Model(
        "sonic-cable-length.yang", (_NAME,), entries=(row_of("PORT"), pattern("[0-9]+m", "metres such as 40m"))
    ),
    "DSCP_TO_TC_MAP": Model(
        "sonic-dscp-tc-map.yang", (_NAME,), entries=(pattern("6[0-3]|[1-5][0-9]?|[0-9]?", "0..63"), _CLASS)
    ),
    "TC_TO_QUEUE_MAP": Model("sonic-tc-queue-map.yang", (_NAME,), entries=(_CLASS, pattern("[0-9]?", "0..9"))),
    "TC_TO_PRIORITY_GROUP_MAP": Model("sonic-tc-priority-group-map.yang", (_NAME,), entries=(_CLASS, _GROUP)),
    "MAP_PFC_PRIORITY_TO_QUEUE": Model("sonic-pfc-priority-queue-map.yang", (_NAME,), entries=(_GROUP, _GROUP)),
    "PORT_QOS_MAP": Model(
        "sonic-port-qos-map.yang",
        (row_of("PORT", "global"),),
        {
            "tc_to_pg_map": row_of("TC_TO_PRIORITY_GROUP_MAP"),
            "tc_to_queue_map": row_of("TC_TO_QUEUE_MAP"),
            "pfc_enable": _PRIORITIES,
            "pfcwd_sw_enable": _PRIORITIES,
            "pfc_to_queue_map": row_of("MAP_PFC_PRIORITY_TO_QUEUE"),
            "pfc_to_pg_map": row_of("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"),
            "dscp_to_tc_map": row_of("DSCP_TO_TC_MAP"),
            "tc_to_dscp_map": row_of("TC_TO_DSCP_MAP"),
            "dot1p_to_tc_map": row_of("DOT1P_TO_TC_MAP"),
            "tc_to_dot1p_map": row_of("TC_TO_DOT1P_MAP"),
            "scheduler": row_of("SCHEDULER"),
        },
    ),
    "SCHEDULER": Model(
        "sonic-scheduler.yang",
        (ANY,),
        {
            "type": one_of("DWRR", "WRR", "STRICT"),
            "weight": number(1, 100),
            "priority": number(0, 9),
            "meter_type": one_of("packets", "bytes"),
            **dict.fromkeys(("cir", "pir"), _UINT64),
            **dict.fromkeys(("cbs", "pbs"), _UINT32),
        },
    ),
    "WRED_PROFILE": Model(
        "sonic-wred-profile.yang",
        (_NAME,),
        {
            "ecn": one_of(*(f"ecn_{name}" for name in (
                "none", "green", "yellow", "red", "green_yellow", "green_red", "yellow_red", "all"
            ))),
            **{f"wred_{colour}_enable": _TRUTH for colour in COLOURS},
            **{f"{colour}_{end}_threshold": _UINT64 for colour in COLOURS for end in ("min", "max")},
            **{f"{colour}_drop_probability": _PERCENT for colour in COLOURS},
        },
    ),
    "QUEUE": Model("sonic-queue.yang", (row_of("PORT", "CPU"), ANY), _QUEUES),
    "BUFFER_POOL": Model(
        "sonic-buffer-pool.yang",
        (ANY,),
        {
            "type": one_of("ingress", "egress", "both"),
            "mode": one_of("static", "dynamic"),
            **dict.fromkeys(("size", "xoff"), _UINT64),
            "percentage": _UINT8,
        },
        required=("type", "mode"),
    ),
    "BUFFER_PROFILE": Model(
        "sonic-buffer-profile.yang",
        (ANY,),
        {
            "pool": row_of("BUFFER_POOL"),
            "dynamic_th": number(-8, 7),
            **dict.fromkeys(("size", "static_th", "xon", "xoff", "xon_offset"), _UINT64),
            "headroom_type": one_of("static", "dynamic"),
            "packet_discard_action": one_of("drop", "trim"),
        },
        required=("pool", "size"),
    ),
    "BUFFER_PG": Model(
        "sonic-buffer-pg.yang",
        (row_of("PORT"), pattern("[0-7](-[0-7])?", "a group 0..7, or two with - between")),
        {"profile": row_of("BUFFER_PROFILE", "NULL")},
    ),
    "BUFFER_QUEUE": Model(
        "sonic-buffer-queue.yang",
        (row_of("PORT"), pattern("(1[0-5]|[0-9])(-(1[0-5]|[0-9]))?", "a queue 0..15, or two with - between")),
        {"profile": row_of("BUFFER_PROFILE")},
    ),
    "PFC_WD": Model(
        "sonic-pfcwd.yang",
        (row_of("PORT", "GLOBAL"),),
        {
            "action": one_of("drop", "forward", "alert"),
            "detection_time": number(100, 5_000),
            "restoration_time": number(100, 60_000),
            "pfc_stat_history": one_of("enable", "disable"),
            "POLL_INTERVAL": number(100, 1_000),
        },
    ),
    "SWITCH_HASH": Model(
        "sonic-hash.yang",
        (one_of("GLOBAL"),),
        {**_HASHES, **dict.fromkeys(("ecmp_hash_algorithm", "lag_hash_algorithm"), _HASH_ALGORITHM)},
        lists=frozenset(_HASHES),
    ),
    "SRV6_MY_LOCATORS": Model(
        "sonic-srv6.yang",
        (ANY,),
        {
            "prefix": IPV6_ADDRESS,
            **dict.fromkeys(("block_len", "node_len"), number(1, 128)),
            **dict.fromkeys(("func_len", "arg_len"), number(0, 128)),
            "vrf": row_of("VRF", "default"),
        },
        required=("prefix",),
    ),
    "SRV6_MY_SIDS": Model(
        "sonic-srv6.yang",
        (row_of("SRV6_MY_LOCATORS"), IPV6_PREFIX),
        {
            "action": one_of("uN", "uA", "uDT46"),
            "decap_vrf": row_of("VRF", "default"),
            "decap_dscp_mode": one_of("uniform", "pipe"),
            "interface": row_of("PORT"),
            "adj": IPV6_ADDRESS,
        },
    ),
    "SWITCH_TRIMMING": Model(
        "sonic-trimming.yang",
        (one_of("GLOBAL"),),
        {
            "size": _UINT32,
            "dscp_value": either(number(0, 63), one_of("from-tc")),
            "tc_value": _UINT8,
            "queue_index": either(_UINT8, one_of("dynamic")),
        },
    ),
}  # fmt: skip
