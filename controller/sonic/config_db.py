"""Read a config_db as SONiC does: fields of rows, references by name, keys that name lists of ports and ranges."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from heddle.controller.sonic.kinds import integer

Tables = Mapping[str, Mapping[str, Mapping[str, object]]]
MAX_INDEX = 64
"""Queue and group indices above this are none of a switch's: a range is cut there."""
_INDEXED = ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE")
_OF_PORTS = ("PORT_QOS_MAP", "PFC_WD")
_GROUPS = ("PORTCHANNEL_MEMBER", "VLAN_MEMBER")
_FABRIC_ROLES = ("", "Ext")
"""Ports of other roles lead to the switch's own parts: backplane, CPU, recirculation."""
_VOQ_PARTS = 4
"""Parts of a key of a VOQ chassis: host, ASIC, port, queue."""


class Place(NamedTuple):
    """A field of a row; `key` is empty where the whole table is meant, `field` where the whole row is."""

    table: str
    key: str = ""
    field: str = ""

    def __str__(self) -> str:
        row = f"{self.table}|{self.key}" if self.key else self.table
        return f"{row} {self.field}" if self.field else row


class ConfigDb:
    """The tables of one switch, with an index of the rows that are keyed by port and queue or priority group."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.overlaps: list[tuple[Place, str]] = []
        """Rows, each with the key of an earlier row of its table that covers one of its queues or groups as well."""
        self._local = self._local_asic()
        self._by_index = {name: self._indexed(name) for name in _INDEXED}
        self._groups = {name: self._members(name) for name in _GROUPS}
        self._by_port = {
            name: {port: key for key in tables.get(name, {}) for port in key.split(",")} for name in _OF_PORTS
        }

    def ports(self) -> list[str]:
        """Return the interfaces of the fabric that are up.

        SONiC takes a port without `admin_status` as down. Where no port is up, the file does not say which ones the
        switch brings up (tables to be loaded on top of its own); then those that are not down are returned.
        """
        state = {name: row.get("admin_status") for name, row in self.tables.get("PORT", {}).items()}
        fabric = [name for name in state if self.value(Place("PORT", name, "role")) in _FABRIC_ROLES]
        if self.says_which_are_up():
            return [name for name in fabric if state[name] == "up"]
        return [name for name in fabric if state[name] != "down"]

    def says_which_are_up(self) -> bool:
        """Return whether a port is administratively up."""
        return any(row.get("admin_status") == "up" for row in self.tables.get("PORT", {}).values())

    def is_whole(self) -> bool:
        """Return whether it is all that a switch has, not tables to be loaded on top of its own: a port has lanes."""
        return any("lanes" in row for row in self.tables.get("PORT", {}).values())

    def has(self, table: str, key: str) -> bool:
        """Return whether a row exists."""
        return key in self.tables.get(table, {})

    def value(self, place: Place) -> str:
        """Return the value of a field as text, empty if it is not set; a list's items are joined by commas."""
        found = self.tables.get(place.table, {}).get(place.key, {}).get(place.field)
        if isinstance(found, list):
            return ",".join(str(item) for item in found)
        return "" if found is None else str(found)

    def metadata(self, field: str) -> str:
        """Return a field of the switch itself: DEVICE_METADATA of localhost."""
        return self.value(Place("DEVICE_METADATA", "localhost", field))

    def number(self, place: Place) -> int | None:
        """Return the value of a field as an integer; None if it is not set or no number."""
        return integer(self.value(place))

    def name(self, place: Place) -> str:
        """Return the row name that a field refers to: `X`, or `[TABLE|X]` as older releases write it."""
        return self.value(place).removeprefix("[").removesuffix("]").rpartition("|")[2]

    def key_at(self, table: str, port: str, index: int) -> str:
        """Return the key of the row that covers `port` and a queue or group index, empty if there is none."""
        return self._by_index[table].get((port, index), "")

    def reference(self, table: str, port: str, index: int, field: str) -> Place:
        """Return the field of the row of a queue or group; without such a row, of the row that it would have."""
        return Place(table, self.key_at(table, port, index) or f"{port}|{index}", field)

    def of_port(self, table: str, port: str, field: str) -> Place:
        """Return a field of a port's row of PORT_QOS_MAP or PFC_WD; older releases name several ports in a key."""
        return Place(table, self._by_port[table].get(port, port), field)

    def groups_of(self, port: str) -> list[tuple[str, str]]:
        """Return the table and name of each port channel and VLAN that a port is in: they have MTUs of their own."""
        channels = [("PORTCHANNEL", name) for name in self._groups["PORTCHANNEL_MEMBER"].get(port, ())]
        members = (port, *(name for _, name in channels))
        vlans = (name for member in members for name in self._groups["VLAN_MEMBER"].get(member, ()))
        return channels + [("VLAN", name) for name in vlans]

    def _members(self, table: str) -> dict[str, list[str]]:
        """Return the groups of each member by the keys of a table, `PortChannel1|Ethernet0`."""
        found: dict[str, list[str]] = {}
        for key in self.tables.get(table, {}):
            group, _, member = key.partition("|")
            found.setdefault(member, []).append(group)
        return found

    def _local_asic(self) -> str:
        """Return `host|ASIC` of this line card in a VOQ chassis, whose keys of queues name those of all line cards.

        Where none has the switch's own name, it is the one with the most rows: only local ports have schedulers.
        """
        keys = (key for table in _INDEXED for key in self.tables.get(table, {}))
        rows = Counter("|".join(parts[:2]) for parts in (key.split("|") for key in keys) if len(parts) == _VOQ_PARTS)
        own = f"{self.metadata('hostname')}|{self.metadata('asic_name')}"
        return own if own in rows or not rows else rows.most_common(1)[0][0]

    def _indexed(self, table: str) -> dict[tuple[str, int], str]:
        """Return the key of each (port, index): `Ethernet0|3`, `Ethernet0|3-4`, `Ethernet0,Ethernet4|3`.

        Keys of a VOQ chassis, `host|asic|port|3`, count where host and ASIC are this line card's.
        """
        found: dict[tuple[str, int], str] = {}
        for key in self.tables.get(table, {}):
            ports, _, span = key.removeprefix(f"{self._local}|").rpartition("|")
            first, _, last = span.partition("-")
            if not _is_index(first) or (last and not _is_index(last)):
                continue
            places = [(port, index) for port in ports.split(",") for index in range(int(first), int(last or first) + 1)]
            earlier = next((found[place] for place in places if place in found), None)
            if earlier is not None:
                self.overlaps.append((Place(table, key), earlier))
            found.update(dict.fromkeys(places, key))
        return found


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 2 and int(text) < MAX_INDEX
