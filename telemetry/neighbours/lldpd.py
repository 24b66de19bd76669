"""Read what `lldpcli -f json0 show neighbors` prints (lldpd 1.0), or `-f json`.

json0 has a list at every place. json has what is in it: `interface` and `chassis` are objects by name, and an
`interface` with several entries is a list of such objects.
"""

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
    if isinstance(blocks, dict) and ("interface" in blocks or not blocks):  # empty: a node without neighbours
        yield from _named_interfaces(node, blocks)
        return
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise NeighboursError(f"{node}: must be what `lldpcli -f json0 show neighbors` prints: an object with `{KEY}`")
    for block in blocks:
        interfaces = block.get("interface", [])
        if not isinstance(interfaces, list) or not all(isinstance(each, dict) for each in interfaces):
            raise NeighboursError(f"{node}: {KEY}.interface: must be a list of objects, as json0 has it")
        yield from interfaces


def _named_interfaces(node: str, block: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yield the interfaces of `-f json` as json0 has them."""
    listed = block.get("interface", [])
    for named in listed if isinstance(listed, list) else [listed]:
        if not isinstance(named, dict):
            raise NeighboursError(f"{node}: {KEY}.interface: must be objects by the interface's name")
        for name, found in named.items():
            for each in found if isinstance(found, list) else [found]:
                if not isinstance(each, dict):
                    raise NeighboursError(f"{node}: {KEY}.interface: must be objects by the interface's name")
                yield {**each, "name": name, "chassis": _named_chassis(each.get("chassis"))}


def _named_chassis(value: object) -> dict[str, object]:
    """Return the chassis of `-f json`, which is an object by the system's name if that is known."""
    if not isinstance(value, dict) or "value" in _first(value.get("id")):
        return _first(value)
    name, found = next(iter(value.items()), ("", None))
    return {**_first(found), "name": {"value": name}}


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
    """Return a value of json0, or the bare text that json has in place of an object with nothing else."""
    found = of.get(key)
    return found if isinstance(found, str) else _text(_first(found).get("value"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
