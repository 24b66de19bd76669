"""The messages between the controller and the compiler's process: the rules that differ, in parts of bounded size.

Rules are encoded against those of a base: slices of the base's rules, and new rules as rows of numbers. The values of
new rules (matches, actions) are sent once per reply: exceptions of all leaves for one destination share their matches.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.rule import FlowRule, GroupRule, SwitchRules
from heddle.controller.rules.diff import same_at_first

MAX_ROWS = 200
"""The rows of one part: building their rules takes the event loop less than a millisecond."""
Row = tuple[int, ...]
"""A slice of the base's rules (start, stop), or a new rule: table, priority, numbers of match and actions, cookie."""
_SLICE = 2


class Begin(NamedTuple):
    """The first message: the fabric of all requests."""

    fabric: Fabric


class CompileMessage(NamedTuple):
    """A request: compile for `health`, and reply with what differs from the rules for `base`."""

    base: Health
    health: Health


class Part(NamedTuple):
    """The next rows of one switch, and the values that they use for the first time, numbered on from the last.

    The last part of a switch has its groups.
    """

    switch: str
    values: tuple[object, ...]
    rows: tuple[Row, ...]
    groups: tuple[GroupRule, ...] | None


class End(NamedTuple):
    """The end of a reply: unnamed switches have the rules of the base."""


class PartWriter:
    """Encodes one reply."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._new: list[object] = []

    def parts(self, base: Mapping[str, SwitchRules], compiled: Mapping[str, SwitchRules]) -> Iterator[Part]:
        """Yield the parts of every switch whose rules differ; `base` and `compiled` outlive the writer."""
        for switch, rules in compiled.items():
            if rules != base[switch]:
                yield from self._parts_of(switch, base[switch], rules)

    def _parts_of(self, switch: str, base: SwitchRules, compiled: SwitchRules) -> Iterator[Part]:
        rows: list[Row] = []
        for row in self._rows(base.rules, compiled.rules):
            if len(rows) == MAX_ROWS:
                yield self._part(switch, rows, None)
                rows = []
            rows.append(row)
        yield self._part(switch, rows, compiled.groups)

    def _part(self, switch: str, rows: list[Row], groups: tuple[GroupRule, ...] | None) -> Part:
        values, self._new = tuple(self._new), []
        return Part(switch, values, tuple(rows), groups)

    def _rows(self, base: tuple[FlowRule, ...], compiled: tuple[FlowRule, ...]) -> Iterator[Row]:
        """Yield runs of rules that are the base's own objects as slices, and every other rule."""
        first = same_at_first(base, compiled)
        last = same_at_first(reversed(base[first:]), reversed(compiled[first:]))
        place = {id(base[at]): at for at in range(first, len(base) - last)}
        start, stop = 0, first
        for rule in compiled[first : len(compiled) - last]:
            at = place.get(id(rule))
            if at is not None and at == stop and stop > start:
                stop += 1
                continue
            if stop > start:
                yield start, stop
            start, stop = (0, 0) if at is None else (at, at + 1)
            if at is None:
                yield rule.table, rule.priority, self._number(rule.match), self._number(rule.actions), rule.cookie
        if stop > start:
            yield start, stop
        if last:
            yield len(base) - last, len(base)

    def _number(self, value: object) -> int:
        """Return the number of a value; a new one is sent with the current part."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._numbers)
            self._new.append(value)
        return number


class PartReader:
    """Decodes one reply into `found`: the rules of the switches that differ from the base."""

    def __init__(self, base: Mapping[str, SwitchRules]) -> None:
        self.found: dict[str, SwitchRules] = {}
        self._base = base
        self._values: list[Any] = []
        self._rules: list[FlowRule] = []

    def add(self, part: Part) -> None:
        """Take the next part."""
        values, base, rules = self._values, self._base[part.switch].rules, self._rules
        values += part.values
        for row in part.rows:
            if len(row) == _SLICE:
                rules += base[row[0] : row[1]]
                continue
            table, priority, m, a, cookie = row
            rules.append(FlowRule(table=table, priority=priority, match=values[m], actions=values[a], cookie=cookie))
        if part.groups is not None:
            same = part.groups == self._base[part.switch].groups
            groups = self._base[part.switch].groups if same else part.groups
            self.found[part.switch] = SwitchRules(rules=tuple(rules), groups=groups)
            self._rules = []
