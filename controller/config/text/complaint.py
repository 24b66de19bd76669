"""Format the problems of a file, a line each: `FILE: key.path[3].gpbs: unknown key, did you mean gbps?`

Every problem is one line, whatever the file holds: control characters are escaped, long values are cut. At most
`MAX_LINES` are reported, then the number of the rest.
"""

import re
from collections.abc import Iterable, Sequence

from heddle.controller.model.admission import Problem
from heddle.controller.model.error import InputError

MAX_LINES = 20
MAX_VALUE_LENGTH = 60
MAX_LINE_LENGTH = 1_000
MAX_PATH_LENGTH = 200
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}\Z")

_NUMBER_HINTS = (
    (re.compile(r"[-+]?0[0-9_]+\Z"), "leave out the zeros before it, by which YAML means a number of base 8"),
    (re.compile(r"[-+]?[0-9_]+(:[0-9_.]+)+\Z"), "write one number: with colons YAML means one of base 60"),
    (re.compile(r"[-+]?[0-9.]+[eE][0-9]+\Z"), "write it out, or as 1.0e+9 where fractions are allowed"),
    (re.compile(r"[-+]?[0-9]+\Z"), "leave out the quotes"),
    (re.compile(r"[-+]?[0-9.,_]+ ?[A-Za-z%/]+\Z"), "write the number without a unit"),
)


def one_line(text: str) -> str:
    """Return the text on one line: escape what is not printable, cut what is too long."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:MAX_LINE_LENGTH])
    return text if len(text) <= MAX_LINE_LENGTH else text[:MAX_LINE_LENGTH] + "..."


def place(path: Iterable[object]) -> str:
    """Return a key path: keys joined by dots, list positions in brackets."""
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        else:
            key = str(step)
            key = key if _PLAIN_KEY.match(key) else shown(key)
            written += f".{key}" if written else key
        if len(written) > MAX_PATH_LENGTH:
            return written[:MAX_PATH_LENGTH] + "..."
    return written


def shown(value: object) -> str:
    """Return a short description of a value found in a file."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if abs(value) < 10**20 else _magnitude(value)
        case float():
            return repr(value)
        case str():
            return one_line(repr(value if len(value) <= MAX_VALUE_LENGTH else value[:MAX_VALUE_LENGTH] + "..."))
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return f"a {type(value).__name__}"


def number_hint(value: object) -> str:
    """Return the remedy for a text where a number belongs; empty where none is known."""
    if not isinstance(value, str):
        return ""
    for pattern, remedy in _NUMBER_HINTS:
        if pattern.match(value):
            return f"; {remedy}"
    return ""


def _magnitude(value: int) -> str:
    """Return the magnitude of a long number (Python refuses to write more than 4,300 digits)."""
    power = int((value.bit_length() - 1) * 0.30102)
    return f"over 10^{power}" if value > 0 else f"below -10^{power}"


def refusal(name: str, problems: Sequence[Problem]) -> InputError:
    """Return one error for all problems of the file `name`, with at most MAX_LINES lines."""
    lines = [one_line(f"{name}: {p.path}: {p.text}" if p.path else f"{name}: {p.text}") for p in problems[:MAX_LINES]]
    if len(problems) > MAX_LINES:
        lines.append(one_line(f"{name}: (+{len(problems) - MAX_LINES} more)"))
    return InputError(*lines)
