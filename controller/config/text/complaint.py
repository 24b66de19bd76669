"""Problems of a file as lines of text: `FILE: key.path[3].gpbs: unknown key, did you mean gbps?`

Every problem is one line whatever a file holds: control characters are written as escapes, long values
are cut. At most `MAX_LINES` are told, then how many more there are.
"""

import re
from collections.abc import Iterable, Sequence

from controller.model.admission import Problem
from controller.model.error import InputError

MAX_LINES = 20
LONGEST_VALUE = 60
LONGEST_LINE = 1_000
LONGEST_PATH = 200
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}\Z")


def one_line(text: str) -> str:
    """Return the text with everything that is not printable written as an escape, cut to a line's length."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:LONGEST_LINE])
    return text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "..."


def place(path: Iterable[object]) -> str:
    """Write a key path: keys joined by dots, list positions in brackets."""
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        else:
            key = str(step)
            key = key if _PLAIN_KEY.match(key) else shown(key)
            written += f".{key}" if written else key
        if len(written) > LONGEST_PATH:
            return written[:LONGEST_PATH] + "..."
    return written


def shown(value: object) -> str:
    """Describe a value found in a file, short enough for a line."""
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
            return one_line(repr(value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + "..."))
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return f"a {type(value).__name__}"


def _magnitude(value: int) -> str:
    """Describe a number too long to be written (Python refuses to write more than 4,300 digits)."""
    power = int((value.bit_length() - 1) * 0.30102)
    return f"over 10^{power}" if value > 0 else f"below -10^{power}"


def refusal(name: str, problems: Sequence[Problem]) -> InputError:
    """Make one error of all problems of the file `name`, at most 20 of them word by word."""
    lines = [one_line(f"{name}: {p.path}: {p.text}" if p.path else f"{name}: {p.text}") for p in problems[:MAX_LINES]]
    if len(problems) > MAX_LINES:
        lines.append(one_line(f"{name}: (+{len(problems) - MAX_LINES} more)"))
    return InputError(*lines)
