"""Give ports the numbers of their interfaces: `eth2` is port 2, `ethernet-1/49` port 49, `ge-0/0/0` port 1.

An interface is a text around numbers. Of several numbers the one counts that varies; numbers from 0 are raised by one.
`Ethernet0`, `Ethernet4` ... are SONiC's names of lanes: port n is Ethernet(4 (n - 1)), as in `heddle export sonic`. A
switch whose interfaces differ in two numbers (breakouts such as `E1/1/2`) has no such numbers.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from heddle.controller.model.limit import MAX_PORT_NUMBER

_NUMBER = re.compile(r"([0-9]+)")
_MAX_LENGTH = 9
_LANES = 4
Stem = tuple[str, ...]
"""The texts between an interface's numbers."""


class _Interface(NamedTuple):
    """A name taken apart: its texts and its numbers."""

    stem: Stem
    numbers: tuple[int, ...]


def port_numbers(interfaces: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
    """Return the port number of each interface of the switches that can keep theirs; the others are missing."""
    apart = {switch: {name: _apart(name) for name in names} for switch, names in interfaces.items()}
    usual = _varying(one for names in apart.values() for one in names.values() if one)
    chosen: dict[str, dict[str, tuple[Stem, int]]] = {}
    of_stem: dict[Stem, set[int]] = {}
    for switch, names in apart.items():
        columns = _columns(names.values(), usual)
        if columns is not None:
            chosen[switch] = {name: (one.stem, one.numbers[columns[one.stem]]) for name, one in names.items() if one}
            for stem, number in chosen[switch].values():
                of_stem.setdefault(stem, set()).add(number)
    rule_of = {stem: _rule(stem, numbers) for stem, numbers in of_stem.items()}
    found = {}
    for switch, numbered in chosen.items():
        numbers = {}
        for name, (stem, number) in numbered.items():
            first, step = rule_of[stem]
            numbers[name] = number // step + first
        fits = all(1 <= number <= MAX_PORT_NUMBER for number in numbers.values())
        if fits and len(set(numbers.values())) == len(numbers):
            found[switch] = numbers
    return found


def _apart(name: str) -> _Interface | None:
    parts = _NUMBER.split(name)
    digits = parts[1::2]
    if not digits or any(len(part) > _MAX_LENGTH or not part.isascii() for part in digits):
        return None
    return _Interface(tuple(parts[::2]), tuple(map(int, digits)))


def _varying(names: Iterable[_Interface]) -> dict[Stem, list[int]]:
    """Return which numbers of the interfaces differ, by stem."""
    by_stem: dict[Stem, list[tuple[int, ...]]] = {}
    for one in names:
        by_stem.setdefault(one.stem, []).append(one.numbers)
    return {
        stem: [at for at, column in enumerate(zip(*numbers, strict=True)) if len(set(column)) > 1]
        for stem, numbers in by_stem.items()
    }


def _columns(names: Iterable[_Interface | None], usual: Mapping[Stem, list[int]]) -> dict[Stem, int] | None:
    """Return which number of a switch's interfaces counts, by stem; None if there is none, or two vary.

    Where a switch alone does not show it, the number that varies in the whole file counts, else the last.
    """
    known = []
    for one in names:
        if one is None:
            return None
        known.append(one)
    length = {one.stem: len(one.numbers) for one in known}
    found = {}
    for stem, vary in _varying(known).items():
        whole = _of_whole_port(stem, length)
        if len(vary) > 1 or (vary and whole is not None and vary != [whole]):
            return None
        vary = vary or ([whole] if whole is not None else usual[stem])
        found[stem] = vary[0] if len(vary) == 1 else length[stem] - 1
    return found


def _of_whole_port(stem: Stem, length: Mapping[Stem, int]) -> int | None:
    """Return which number of a breakout's name is that of its port: `E1/5/2` beside `E1/7`. None for other names."""
    whole = next((other for other in length if other[:-1] == stem[: len(other) - 1] and len(other) < len(stem)), None)
    return None if whole is None else length[whole] - 1


def _rule(stem: Stem, numbers: set[int]) -> tuple[int, int]:
    """Return the port of number 0, and how many numbers there are to a port."""
    if 0 not in numbers:
        return 0, 1
    is_lanes = stem == ("Ethernet", "") and max(numbers) > 0 and all(number % _LANES == 0 for number in numbers)
    return 1, _LANES if is_lanes else 1
