"""Name the keys of one fabric's controllers in etcd, and build the parts of transactions.

/heddle/FABRIC/leader               the leader, under its lease; its create_revision names the term
/heddle/FABRIC/sequence             the last transaction of the term: LEASE.NUMBER
/heddle/FABRIC/epoch                the upper part of generations
/heddle/FABRIC/cluster              which journal this is, and the etcd that it was written in (`identity/record.py`)
/heddle/FABRIC/value/KIND/ID/PART   the journal's values, in parts of at most PART_BYTES
/heddle/FABRIC/redo/NUMBER          the transactions of a change too large for one, and `redo/committed`
"""

from urllib.parse import quote, unquote

from heddle.controller.store.etcd.proto import etcd_pb2 as pb

PART_BYTES = 512 << 10
FIRST_EPOCH = 1


class Keys:
    """The keys of one fabric."""

    def __init__(self, fabric: str) -> None:
        root = f"/heddle/{quote(fabric, safe='')}/"
        self.fabric = fabric
        self.leader, self.sequence, self.epoch = (f"{root}{name}".encode() for name in ("leader", "sequence", "epoch"))
        self.cluster = f"{root}cluster".encode()
        self.values, self.redo = f"{root}value/".encode(), f"{root}redo/".encode()
        self.committed = self.redo + b"committed"
        self.root = root.encode()

    def redo_of(self, number: int) -> bytes:
        """Return the key of one transaction of a large change."""
        return self.redo + b"%06d" % number

    def part(self, kind: str, name: str, number: int) -> bytes:
        """Return the key of a part of a value."""
        return self.values + f"{kind}/{quote(name, safe='')}/{number:06d}".encode()

    def value_of(self, key: bytes) -> tuple[str, str]:
        """Return the kind and id of the value that a key holds a part of; raises ValueError."""
        kind, name, _ = key.removeprefix(self.values).decode().split("/")
        return kind, unquote(name)


def put(key: bytes, value: bytes, lease: int = 0) -> pb.RequestOp:
    """Build the operation that writes a key."""
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))


def get(key: bytes) -> pb.RequestOp:
    """Build the operation that reads a key."""
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def delete(key: bytes, end: bytes = b"") -> pb.RequestOp:
    """Build the operation that deletes a key, or all from it up to `end`."""
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key, range_end=end))


def created_at(key: bytes, revision: int) -> pb.Compare:
    """Build the condition that a key was created at a revision; 0: that it is absent."""
    return pb.Compare(key=key, target=pb.Compare.CREATE, result=pb.Compare.EQUAL, create_revision=revision)


def holds(key: bytes, value: bytes) -> pb.Compare:
    """Build the condition that a key has a value."""
    return pb.Compare(key=key, target=pb.Compare.VALUE, result=pb.Compare.EQUAL, value=value)
