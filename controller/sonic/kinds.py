"""Define the kinds of values of SONiC's YANG models: numbers, names, patterns, and references to rows of a table."""

import re
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, IPv6Network
from typing import NamedTuple

MAX_DIGITS = 20
"""Of a uint64."""


class ValueKind(NamedTuple):
    """Values that a leaf accepts: those that `allows` does, and where `table` is set, the keys of its rows."""

    wanted: str
    allows: Callable[[str], bool]
    table: str = ""


def integer(text: str) -> int | None:
    """Return the value of decimal digits with an optional minus sign; None for any other text."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS else None


def number(low: int, high: int) -> ValueKind:
    """Return the kind of integers from `low` to `high`, both included."""

    def allows(text: str) -> bool:
        value = integer(text)
        return value is not None and low <= value <= high

    return ValueKind(f"{low}..{high}", allows)


def pattern(expression: str, wanted: str = "") -> ValueKind:
    """Return the kind of texts that a regular expression matches as a whole."""
    compiled = re.compile(expression, re.ASCII)
    return ValueKind(wanted or expression, lambda text: compiled.fullmatch(text) is not None)


def length(low: int, high: int) -> ValueKind:
    """Return the kind of texts of `low` to `high` characters."""
    return ValueKind(f"{low} to {high} characters", lambda text: low <= len(text) <= high)


def one_of(*names: str) -> ValueKind:
    """Return the kind of an enumeration."""
    return ValueKind("|".join(names), frozenset(names).__contains__)


def row_of(table: str, *names: str) -> ValueKind:
    """Return the kind of references to rows of `table`; `names` are accepted as well."""
    return ValueKind("|".join([f"a row of {table}", *names]), frozenset(names).__contains__, table)


def either(first: ValueKind, second: ValueKind) -> ValueKind:
    """Return the union of two kinds without references."""
    return ValueKind(f"{first.wanted}|{second.wanted}", lambda text: first.allows(text) or second.allows(text))


ANY = ValueKind("a text", lambda text: True)


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def allows(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return allows


IPV6_ADDRESS = ValueKind("an IPv6 address", _reads(IPv6Address))
IPV6_PREFIX = ValueKind(
    "an IPv6 prefix such as fcbb:0:1::/48",
    lambda text: "/" in text and _reads(partial(IPv6Network, strict=False))(text),
)
