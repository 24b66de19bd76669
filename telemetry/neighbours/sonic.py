"""Read rows of SONiC's APPL_DB: LLDP_ENTRY_TABLE as lldp_syncd fills it, and the carrier from PORT_TABLE.

    LLDP_ENTRY_TABLE:Ethernet0   lldp_rem_sys_name, lldp_rem_chassis_id, lldp_rem_port_id, lldp_rem_port_desc, ...
    PORT_TABLE:Ethernet0         oper_status -> up or down

The same rows are in a dump by `sonic-db-dump -n APPL_DB -y`, there below the key `value`.
"""

from collections.abc import Mapping

from heddle.telemetry.neighbours.advertised import MAX_NEIGHBOURS, Advertised, Collected, NeighboursError

ENTRY, PORT = "LLDP_ENTRY_TABLE:", "PORT_TABLE:"
_CARRIER = {"up": True, "down": False}


def neighbours(node: str, rows: Mapping[str, object]) -> Collected:
    """Return the frames and carriers of a switch's rows; rows of other tables are skipped. Raises NeighboursError."""
    found = Collected()
    if len(rows) > MAX_NEIGHBOURS:
        raise NeighboursError(f"{node}: more than {MAX_NEIGHBOURS:,} rows")
    for key, row in rows.items():
        table, _, interface = key.partition(":")
        fields = row.get("value", row) if isinstance(row, Mapping) else None
        if table + ":" not in (ENTRY, PORT):
            continue
        if not isinstance(fields, Mapping):
            raise NeighboursError(f"{node}: {key}: must be an object of fields")
        if table + ":" == PORT:
            carrier = _CARRIER.get(_text(fields, "oper_status"))
            if carrier is not None:
                found.carrier[node, interface] = carrier
            continue
        ports = (_text(fields, "lldp_rem_port_id"), _text(fields, "lldp_rem_port_desc"))
        found.advertised.append(
            Advertised(
                node=node,
                interface=interface,
                system=_text(fields, "lldp_rem_sys_name"),
                chassis=_text(fields, "lldp_rem_chassis_id"),
                ports=tuple(filter(None, ports)),
            )
        )
    return found


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
