"""Group differences by their cause: one line for each, with ports, queues and DSCPs as ranges, the worst first."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from heddle.controller.sonic.config_db import Place
from heddle.controller.sonic.wording import Difference, Effect

_OF_PORTS = ("PORT", "PORT_QOS_MAP", "PFC_WD")
_OF_SPANS = ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE")
_OF_PORT_FIELDS = ("CABLE_LENGTH",)
_ALL_PORTS = "global"
_MAX_RUNS = 6
_NO_FIELD = "no field of this name"
_ANY_PORT = "PORT"
"""Stands for each of a line's ports in what was found and why."""


class Cause(NamedTuple):
    """Differences that have one line: one setting with one value and one reason, at several rows or fields."""

    line: str
    differences: tuple[Difference, ...]

    @property
    def effect(self) -> Effect:
        """Return what the differences do to planned flows."""
        return min(each.effect for each in self.differences)

    @property
    def refused(self) -> bool:
        """Return whether SONiC's models refuse it."""
        return any(each.refused for each in self.differences)

    @property
    def ports(self) -> tuple[str, ...]:
        """Return the interfaces that it was found at, in the order of their numbers."""
        return tuple(sorted({port for each in self.differences for port in _ports(each)}, key=_natural))


class _Split(NamedTuple):
    """A place in its parts: what varies within a cause (port, queues or groups, field), and what does not."""

    fixed: tuple[str, ...]
    port: str = ""
    span: str = ""
    field: str = ""


def causes(differences: Iterable[Difference], ports: Sequence[str]) -> list[Cause]:
    """Return the causes of differences, refusals first, then the worst; `ports` are all of the switch."""
    order = {port: number for number, port in enumerate(sorted(ports, key=_natural))}
    groups: dict[object, dict[Difference, _Split]] = {}
    for each in differences:
        split = _split(each)
        text = (_without(each.found, split.port), each.wanted, _without(each.reason, split.port))
        if split.field:
            text = ("", each.wanted, each.reason)
        groups.setdefault((split.fixed, each.refused, each.effect, *text), {})[each] = split
    found = [cause for group in groups.values() for cause in _worded(group, order)]
    return sorted(_joined(found, order), key=lambda cause: (not cause.refused, cause.effect))


def _split(each: Difference) -> _Split:
    table, key, field = each.place
    if table in _OF_PORTS and key and key.lower() != _ALL_PORTS:
        return _Split((table, field), port=key)
    if table in _OF_SPANS and key:
        head, _, span = key.rpartition("|")
        chassis, _, port = head.rpartition("|")
        return _Split((table, chassis, field), port, span)
    if table in _OF_PORT_FIELDS and field:
        return _Split((table, key), port=field)
    if field.isdigit() or each.wanted == _NO_FIELD:
        return _Split((table, key), field=field)
    return _Split((table, key, field))


def _ports(each: Difference) -> tuple[str, ...]:
    own = _split(each).port
    return (own,) if own else each.ports


def _worded(group: Mapping[Difference, _Split], order: Mapping[str, int]) -> Iterator[Cause]:
    """Yield a cause for each set of queues or groups that ports share; one for all other kinds of rows."""
    spans: dict[str, list[str]] = {}
    for split in group.values():
        spans.setdefault(split.port, []).append(split.span)
    same: dict[tuple[str, ...], list[Difference]] = {}
    for each, split in group.items():
        same.setdefault(tuple(spans[split.port]), []).append(each)
    for key, members in same.items():
        fields = list(dict.fromkeys(group[each].field for each in members))
        ports = sorted({group[each].port for each in members} - {""}, key=_natural)
        yield Cause(_line(members, ports, key, fields, order), tuple(members))


def _line(
    members: Sequence[Difference],
    ports: Sequence[str],
    spans: Sequence[str],
    fields: Sequence[str],
    order: Mapping[str, int],
) -> str:
    first, note = members[0], "note: " if members[0].is_note else ""
    if len(members) == 1 and not (first.ports and not ports):
        return f"{note}{first}"
    if len(fields) > 1:
        first = first._replace(found=_found(members))
    at = "" if ports else _at(members, order)
    if len(ports) > 1:
        first = first._replace(found=_without(first.found, ports[0]), reason=_without(first.reason, ports[0]))
    count = f" ({_counted(ports)})" if len(ports) > 1 else ""
    return f"{note}{_where(members[0].place, ports, spans, fields, order)}{count}: {first.text()}{at}"


def _at(members: Sequence[Difference], order: Mapping[str, int]) -> str:
    """Return the ports that refer to a row which is not one of a port."""
    shared = sorted({port for each in members for port in each.ports}, key=_natural)
    return f" ({_counted(shared)}: {_port_ranges(shared, order)})" if shared else ""


def _found(members: Sequence[Difference]) -> str:
    """Return what several fields of a row hold: `1`, or `1 (0-2,5), 7 (48)`."""
    if members[0].wanted == _NO_FIELD:
        return "set"
    by_value: dict[str, list[str]] = {}
    for each in members:
        by_value.setdefault(each.found, []).append(each.place.field)
    if len(by_value) == 1:
        return members[0].found
    return ", ".join(f"{found or 'not set'} ({ranges(fields)})" for found, fields in by_value.items())


def _where(
    place: Place, ports: Sequence[str], spans: Sequence[str], fields: Sequence[str], order: Mapping[str, int]
) -> str:
    table, key, field = place
    if table in _OF_PORT_FIELDS and ports:
        return str(Place(table, key, _port_ranges(ports, order)))
    if ports and table in _OF_SPANS:
        chassis = key.rpartition("|")[0].rpartition("|")[0]
        key = "|".join(filter(None, [chassis, _port_ranges(ports, order), ranges(spans)]))
    elif ports:
        key = _port_ranges(ports, order)
    elif fields != [""]:
        field = ranges(fields)
    return str(Place(table, key, field))


def _joined(found: Sequence[Cause], order: Mapping[str, int]) -> Iterator[Cause]:
    """Yield causes; a refusal and a difference at the very same places are one."""
    plans: dict[frozenset[Place], Cause] = {}
    for cause in found:
        if not cause.refused and cause.differences[0].place.field:
            plans.setdefault(_places(cause), cause)
    joined = {id(plan) for cause in found if cause.refused and (plan := plans.get(_places(cause)))}
    for cause in found:
        plan = plans.get(_places(cause)) if cause.refused else None
        if plan is not None:
            first = plan.differences[0]
            own = _split(first).port
            at = "" if own else _at(plan.differences, order)
            line = f"{cause.line}, the plan assumes {first.wanted}: {_without(first.reason, own)}{at}"
            yield Cause(line, (*cause.differences, *plan.differences))
        elif id(cause) not in joined:
            yield cause


def _places(cause: Cause) -> frozenset[Place]:
    return frozenset(each.place for each in cause.differences)


def _without(text: str, port: str) -> str:
    """Return a text with a port's name replaced by one that stands for any port."""
    return re.sub(rf"(?<![\w]){re.escape(port)}(?![\w])", _ANY_PORT, text) if port else text


def _counted(ports: Sequence[str]) -> str:
    return f"{len(ports)} port{'s' if len(ports) != 1 else ''}"


def _port_ranges(ports: Sequence[str], order: Mapping[str, int]) -> str:
    """Return sorted ports as runs of neighbours: `Ethernet0..Ethernet12, Ethernet20`."""
    return _runs(ports, [order.get(port, -2 * number - 2) for number, port in enumerate(ports)], "..")


def ranges(texts: Sequence[str]) -> str:
    """Return numbers as ranges, `0-2,4`; other texts as they are, with commas."""
    if not all(text.isdigit() for text in texts):
        return ", ".join(dict.fromkeys(texts))
    numbers = sorted({int(text) for text in texts})
    return _runs([str(number) for number in numbers], numbers, "-", separator=",", most=64)


def _runs(names: Sequence[str], numbers: Sequence[int], dash: str, separator: str = ", ", most: int = _MAX_RUNS) -> str:
    runs: list[list[int]] = []
    for position, number in enumerate(numbers):
        if runs and number == numbers[runs[-1][-1]] + 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    shown = [names[run[0]] if len(run) == 1 else f"{names[run[0]]}{dash}{names[run[-1]]}" for run in runs[:most]]
    rest = sum(len(run) for run in runs[most:])
    return separator.join(shown) + (f" and {rest} more" if rest else "")


def _natural(port: str) -> tuple[tuple[str, int], ...]:
    """Return a key that orders Ethernet8 before Ethernet12."""
    return tuple((text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", port[:128]))
