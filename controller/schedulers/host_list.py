"""Read and write Slurm's lists: `node[001-128,200],gpu7` (hosts) and `8(x3),4` (tasks of each node).

Syntax: scontrol(1), "hostlist expression", where blanks separate hosts as commas do (hostlist_create() of Slurm
22.05); srun(1), SLURM_TASKS_PER_NODE. Hosts are counted before any is expanded.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product

from heddle.controller.model.error import InputError

MAX_HOSTS = 65_536
MAX_TEXT_LENGTH = 1 << 20
MAX_SHOWN_LENGTH = 60
MAX_DIGITS = 7
"""Longer numbers stay out of brackets: Slurm reads numbers up to 2^25 there (MAX_HOST_SUFFIX of its hostlist.c)."""
SEPARATORS = ", \t\n"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NUMBERED = re.compile(rf"(.*?)([0-9]{{1,{MAX_DIGITS}}})", re.DOTALL)
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_REPEATED = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?")
Part = str | list[tuple[int, int, int]]
"""Literal text, or the ranges of a bracket: first number, last number, digits."""


def hosts_of(text: str, name: str) -> list[str]:
    """Return the hosts of a list in its order; raises InputError that names the variable."""
    if len(text) > MAX_TEXT_LENGTH:
        raise InputError(f"{name}: a host list of {len(text):,} characters; at most {MAX_TEXT_LENGTH:,} are read")
    entries, count = [], 0
    for entry in _entries(text, name):
        entries.append(_parts(entry, name))
        count += _count(entries[-1])
        if count > MAX_HOSTS:
            raise InputError(f"{name}: {count:,} hosts or more; at most {MAX_HOSTS:,} are possible")
    return [host for entry in entries for host in _expanded(entry)]


def host_list(hosts: Iterable[str]) -> str:
    """Return the list of these hosts, each once, as Slurm compresses it: the last number of a name is in brackets.

    Numbers with leading zeros share a bracket with those of as many digits alone.
    """
    groups: dict[tuple[str, int], set[int]] = {}
    plain: dict[str, None] = {}
    for host in hosts:
        match = _NUMBERED.fullmatch(host)
        if match is None or not match[1] or match[1][-1].isdigit():
            plain[host] = None
        else:
            groups.setdefault((match[1], len(match[2]) if match[2][0] == "0" else 1), set()).add(int(match[2]))
    return ",".join((*plain, *(_bracket(prefix, width, sorted(found)) for (prefix, width), found in groups.items())))


def tasks_of_nodes(text: str, name: str) -> list[int]:
    """Return the number of tasks of each node; raises InputError that names the variable."""
    found: list[int] = []
    for entry in text[: MAX_TEXT_LENGTH + 1].split(","):
        match = _REPEATED.fullmatch(entry)
        times = int(match[2] or 1) if match else 0
        if match is None or len(text) > MAX_TEXT_LENGTH or len(found) + times > MAX_HOSTS:
            raise InputError(f"{name}: {_shown(text)} is no list such as 8(x3),4 of at most {MAX_HOSTS:,} nodes")
        found += [int(match[1])] * times
    return found


def _entries(text: str, name: str) -> Iterator[str]:
    """Yield the entries between separators outside brackets; raises InputError where there is none."""
    start, inside, found = 0, False, False
    for index, letter in enumerate(f"{text},"):
        if letter in SEPARATORS and not inside:
            if index > start:
                found = True
                yield text[start:index]
            start = index + 1
        elif letter in "[]":
            if inside == (letter == "["):
                raise _no_host_list(text, name)
            inside = letter == "["
    if inside or not found:
        raise _no_host_list(text, name)


def _parts(entry: str, name: str) -> list[Part]:
    parts: list[Part] = []
    for index, piece in enumerate(re.split(r"[][]", entry)):
        if index % 2:
            parts.append([_range(each, entry, name) for each in piece.split(",")])
        elif piece:
            if not _NAME.fullmatch(piece):
                raise _no_host_list(entry, name)
            parts.append(piece)
    if not parts or len(parts) > 8:
        raise _no_host_list(entry, name)
    return parts


def _range(text: str, entry: str, name: str) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise _no_host_list(entry, name)
    return int(match[1]), int(match[2] or match[1]), len(match[1])


def _count(parts: list[Part]) -> int:
    count = 1
    for part in parts:
        if not isinstance(part, str):
            count *= sum(last - first + 1 for first, last, _ in part)
    return count


def _expanded(parts: list[Part]) -> Iterator[str]:
    texts = [
        [part]
        if isinstance(part, str)
        else [f"{n:0{width}}" for first, last, width in part for n in range(first, last + 1)]
        for part in parts
    ]
    return map("".join, product(*texts))


def _no_host_list(text: str, name: str) -> InputError:
    return InputError(f"{name}: {_shown(text)} is no host list such as node[001-128,200]")


def _bracket(prefix: str, width: int, numbers: list[int]) -> str:
    """Return `prefix[001-128,200]`, or one name without brackets."""
    starts = [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1] + 1]
    ranges = [
        f"{numbers[start]:0{width}}" + (f"-{numbers[end - 1]:0{width}}" if end - start > 1 else "")
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True)
    ]
    return prefix + (ranges[0] if len(numbers) == 1 else f"[{','.join(ranges)}]")


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "...")
