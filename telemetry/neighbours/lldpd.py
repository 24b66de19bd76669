"""Read what `lldpcli -f json0 show neighbors` prints (lldpd 1.0)."""

import re
from collections.abc import Iterator

from heddle.telemetry.neighbours.advertised import MAX_NEIGHBOURS, Advertised, Collected, NeighboursError

KEY = "lldp"
"""The only key of a document."""
_AGE = re.compile(r"([0-9]{1,6}) days?, ([0-9]{2}):([0-9]{2}):([0-9]{2})\Z")


def neighbours(node: str, document: object) -> Collected:
    """Return the frames that a node's daemon has; raises NeighboursError for another document."""
    found = Collected()
    for interface in _interfaces(node, document):
        chassis, port = _first(interface.get("chassis")), _first(interface.get("port"))
        if len(found.advertised) >= MAX_NEIGHBOURS:
            raise NeighboursError(f"{node}: more than {MAX_NEIGHBOURS:,} neighbours")
        found.advertised.append(
            Advertised(
                node=node,
                interface=_text(interface.get("name")),
                system=_value(chassis, "name"),
                chassis=_value(chassis, "id"),
                ports=tuple(filter(None, (_value(port, "id"), _value(port, "descr")))),
                age_s=_age_s(interface.get("age")),
            )
        )
    return found


def _interfaces(node: str, document: object) -> Iterator[dict[str, object]]:
    blocks = document.get(KEY) if isinstance(document, dict) else None
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise NeighboursError(
            f"{node}: must be what `lldpcli -f json0 show neighbors` prints: an object with a list `{KEY}`"
        )
    for block in blocks:
        interfaces = block.get("interface", [])
        if not isinstance(interfaces, list) or not all(isinstance(each, dict) for each in interfaces):
            raise NeighboursError(f"{node}: {KEY}.interface: must be a list of objects, as json0 has it")
        yield from interfaces


def _age_s(value: object) -> int | None:
    """Read an age such as `0 day, 00:00:02`."""
    age = _AGE.match(value) if isinstance(value, str) else None
    if age is None:
        return None
    days, hours, minutes, seconds = map(int, age.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _first(value: object) -> dict[str, object]:
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, dict) else {}


def _value(of: dict[str, object], key: str) -> str:
    return _text(_first(of.get(key)).get("value"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
