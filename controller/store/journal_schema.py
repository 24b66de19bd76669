"""Define the journal's tables, and the steps from each version to the next.

value      what survives a restart, by kind and id; `crc` is the CRC-32 of kind, id and content
counter    epoch and revision: the generation of an OpenFlow role is epoch << 44 | revision
"""

import zlib

APPLICATION_ID = 0x48444C4A
"""The ASCII letters HDLJ, at byte 68 of the file: a SQLite file with another number is not ours."""
MIGRATIONS = (
    """
    CREATE TABLE value (kind TEXT NOT NULL, id TEXT NOT NULL, crc INTEGER NOT NULL, content BLOB NOT NULL,
      PRIMARY KEY (kind, id)) WITHOUT ROWID;
    CREATE TABLE counter (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO counter VALUES ('epoch', 1), ('revision', 0);
    """,
)
"""The script at index n makes version n + 1 of version n; append, never change one that was released."""
PUT = "INSERT OR REPLACE INTO value (kind, id, crc, content) VALUES (?, ?, ?, ?)"
DELETE = "DELETE FROM value WHERE kind = ? AND id = ?"
ALL = "SELECT kind, id, crc, content FROM value"
COUNTER = "SELECT number FROM counter WHERE name = ?"
SET_COUNTER = "UPDATE counter SET number = ? WHERE name = ?"


def crc_of(kind: str, name: str, content: bytes) -> int:
    """Return the checksum of a row."""
    return zlib.crc32(content, zlib.crc32(f"{kind}\0{name}\0".encode()))
