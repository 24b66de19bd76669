"""Map the names of a switch's interfaces to the port numbers of the fabric file."""

import re
from collections.abc import Callable
from pathlib import Path

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import InputError
from heddle.foundation.regular_file import read_regular

MAX_BYTES = 1 << 20
MAX_PORT = 65_534
_LAST_NUMBER = re.compile(r"[0-9]{1,6}\Z")
_MANAGEMENT = ("mgmt", "management", "eth0")


def by_lanes(lanes: int) -> Callable[[str], int | None]:
    """Return SONiC's default mapping of port names to numbers: EthernetN starts at lane N, `lanes` per port."""

    def number_of(alias: str) -> int | None:
        digits = alias.removeprefix("Ethernet")
        if digits == alias or not digits.isascii() or not digits.isdigit() or len(digits) > 6 or int(digits) % lanes:
            return None
        return int(digits) // lanes + 1

    return number_of


def by_name(lanes: int) -> Callable[[str], int | None]:
    """Return a mapping for names of any kind: SONiC's EthernetN by lanes; else the last number, `swp7` is port 7."""
    of_lanes = by_lanes(lanes)

    def number_of(name: str) -> int | None:
        if name.lower().startswith(_MANAGEMENT) or ":" in name:  # a MAC address ends with digits as well
            return None
        number = _LAST_NUMBER.search(name)
        return of_lanes(name) or (int(number[0]) if number and 0 < int(number[0]) <= MAX_PORT else None)

    return number_of


def port_numbers(path: Path) -> dict[str, int]:
    """Read a port map: by interface the number of the port, one line `Ethernet0 1` each, # for comments."""
    numbers: dict[str, int] = {}
    for at, line in enumerate(_text(path).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not words[1].isascii() or not words[1].isdigit() or not 0 < int(words[1]) <= MAX_PORT:
            raise InputError(f"{one_line(str(path))}:{at}: must be a SONiC port and its number, such as: Ethernet0 1")
        if words[0] in numbers or int(words[1]) in numbers.values():
            raise InputError(f"{one_line(str(path))}:{at}: port or number is given twice")
        numbers[words[0]] = int(words[1])
    return numbers


def _text(path: Path) -> str:
    try:
        return read_regular(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as fault:
        why = getattr(fault, "strerror", None) or "not UTF-8 text"
        raise InputError(f"--port-map {one_line(str(path))}: {why}") from None
