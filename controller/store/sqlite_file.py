"""Recognise by its first bytes, without opening it, whether a file is a SQLite file, and of which program.

SQLite would write into a file of another program, and take a text file for damaged.
"""

import struct
from pathlib import Path
from typing import NamedTuple

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
_VERSION_AT, _APPLICATION_AT = 60, 68
_NUMBER = struct.Struct(">I")


class Header(NamedTuple):
    """What the first page of a SQLite file says of its owner (sqlite.org/fileformat.html, 1.3)."""

    application_id: int
    user_version: int


def header_of(path: Path) -> Header | None:
    """Return the header of a SQLite file, None for an absent or empty file; raises ValueError for anything else.

    Raises OSError where the file cannot be read.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    try:
        with path.open("rb") as file:
            head = file.read(HEADER_BYTES)
    except FileNotFoundError:
        return None
    if not head:
        return None
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise ValueError("it is no SQLite file")
    return Header(_NUMBER.unpack_from(head, _APPLICATION_AT)[0], _NUMBER.unpack_from(head, _VERSION_AT)[0])


class Identity(NamedTuple):
    """Which file a name means: it changes where the file is deleted or replaced."""

    device: int
    inode: int


def identity_of(path: Path) -> Identity | None:
    """Return which file a name means now; None for none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino)
