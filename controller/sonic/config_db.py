"""Read a config_db as SONiC does: fields of rows, references by name, keys that name lists of ports and ranges."""

from collections.abc import Mapping
from typing import NamedTuple

from heddle.controller.sonic.kinds import integer

Tables = Mapping[str, Mapping[str, Mapping[str, object]]]
MAX_INDEX = 64
"""Queue and group indices above this are none of a switch's: a range is cut there."""


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
        self._by_index = {name: self._indexed(name) for name in ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE")}

    def ports(self) -> list[str]:
        """Return the interfaces in use: rows of PORT that are not administratively down."""
        return [name for name, row in self.tables.get("PORT", {}).items() if row.get("admin_status") != "down"]

    def has(self, table: str, key: str) -> bool:
        """Return whether a row exists."""
        return key in self.tables.get(table, {})

    def value(self, place: Place) -> str:
        """Return the value of a field as text, empty if it is not set; a list's items are joined by commas."""
        found = self.tables.get(place.table, {}).get(place.key, {}).get(place.field)
        if isinstance(found, list):
            return ",".join(str(item) for item in found)
        return "" if found is None else str(found)

    def number(self, place: Place) -> int | None:
        """Return the value of a field as an integer; None if it is not set or no number."""
        return integer(self.value(place))

    def name(self, place: Place) -> str:
        """Return the row name that a field refers to: `X`, or `[TABLE|X]` as older releases write it."""
        return self.value(place).removeprefix("[").removesuffix("]").rpartition("|")[2]

    def key_at(self, table: str, port: str, index: int) -> str:
        """Return the key of the row that covers `port` and a queue or group index, empty if there is none."""
        return self._by_index[table].get((port, index), "")

    def _indexed(self, table: str) -> dict[tuple[str, int], str]:
        """Return the key of each (port, index): `Ethernet0|3`, `Ethernet0|3-4`, `Ethernet0,Ethernet4|3`."""
        found: dict[tuple[str, int], str] = {}
        for key in self.tables.get(table, {}):
            ports, _, span = key.rpartition("|")
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
