"""Messages that have hung or crashed OpenFlow controllers, one for each length field that can be wrong.

CVE-2020-35139, CVE-2020-35141, CVE-2024-34483 to -34489 and similar ones, and simple faults: wrong version,
unknown type, invalid size.
"""

import struct

from heddle.testing.switches.openflow_switch import HELLO, MULTIPART_REPLY, message

ONF = 0x4F4E4600


def multipart(kind, body, flags=0):
    """Build a multipart reply."""
    return message(MULTIPART_REPLY, struct.pack("!HH4x", kind, flags) + body)


MATCH_ALL = struct.pack("!HH4x", 1, 4)


def flow_stats(match=MATCH_ALL, instructions=b"", length=None):
    """Build a flow statistics reply of one entry."""
    whole = 48 + len(match) + len(instructions) if length is None else length
    return multipart(1, struct.pack("!HBxIIHHHH4xQQQ", whole, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + match + instructions)


def group_desc(buckets=b"", length=None, kind=3):
    """Build a group description of one group, fast-failover by default."""
    return multipart(7, struct.pack("!HBxI", 8 + len(buckets) if length is None else length, kind, 1) + buckets)


def bucket(actions=b"", length=None):
    """Build a bucket that watches port 1."""
    whole = 16 + len(actions) if length is None else length
    return struct.pack("!HHII4x", whole, 0, 1, 0xFFFFFFFF) + actions


def apply(actions):
    """Build an apply-actions instruction."""
    return struct.pack("!HH4x", 4, 8 + len(actions)) + actions


EMPTY_OXM = struct.pack("!HHHBB", 1, 8, 0x8000, 5 << 1, 0)
SHORT_ETH_TYPE = struct.pack("!HHHBBB7x", 1, 9, 0x8000, 5 << 1, 1, 8)
ZERO_ACTION = struct.pack("!HHI", 0, 0, 1)
FLOW_MOD_ZERO_INSTRUCTION = struct.pack(
    "!QQBBHHHIIIH2xHH4xHH4x", 0, 0, 0, 0, 0, 0, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 1, 4, 4, 0
)
TABLE_FEATURES = struct.pack("!HB5x32sQQII", 64, 0, b"t", 0, 0, 0, 1)

MALFORMED = {
    "hello element of length 0": message(HELLO, struct.pack("!HHI", 1, 0, 1 << 4)),
    "hello element past the end": message(HELLO, struct.pack("!HHI", 1, 64, 1 << 4)),
    "hello bitmap of 6 bytes": message(HELLO, struct.pack("!HHI", 1, 6, 1 << 4)),
    "hello element cut short": message(HELLO, b"\0\1"),
    "flow-mod to the controller, instruction of length 0": message(14, FLOW_MOD_ZERO_INSTRUCTION),
    "flow statistics entry of length 0": flow_stats(length=0),
    "flow statistics entry past the end": flow_stats(length=4096),
    "flow statistics entry of 50 bytes": flow_stats(length=50),
    "flow statistics instruction of length 0": flow_stats(instructions=struct.pack("!HH4x", 4, 0)),
    "flow statistics goto of 16 bytes": flow_stats(instructions=struct.pack("!HHB11x", 1, 16, 3)),
    "flow statistics action of length 0": flow_stats(instructions=apply(ZERO_ACTION)),
    "flow statistics action past its instruction": flow_stats(instructions=apply(struct.pack("!HHI", 0, 16, 1))),
    "set-field action longer than its field": flow_stats(
        instructions=apply(struct.pack("!HHHBBH14x", 25, 24, 0x8000, 5 << 1, 2, 0x0800))
    ),
    "output action of 8 bytes": flow_stats(instructions=apply(struct.pack("!HHI", 0, 8, 1))),
    "OXM experimenter field of 2 bytes": flow_stats(match=struct.pack("!HHHBBH6x", 1, 10, 0xFFFF, 0, 2, 7)),
    "match of length 0": flow_stats(match=struct.pack("!HH4x", 1, 0)),
    "match of an unknown type": flow_stats(match=struct.pack("!HH4x", 2, 4)),
    "match past the end": flow_stats(match=struct.pack("!HH4x", 1, 400)),
    "OXM field of length 0 in flow statistics": flow_stats(match=EMPTY_OXM),
    "OXM eth_type of one byte": flow_stats(match=SHORT_ETH_TYPE),
    "OXM field of length 0 in packet-in": message(10, struct.pack("!IHBBQ", 0, 0, 0, 0, 0) + EMPTY_OXM + b"\0\0"),
    "OXM field of length 0 in flow-removed": message(
        11, struct.pack("!QHBBIIHHQQ", 0, 1, 0, 0, 0, 0, 0, 0, 0, 0) + EMPTY_OXM
    ),
    "packet-in with more data than the packet had": message(
        10, struct.pack("!IHBBQHH4x2x", 0, 1, 0, 0, 0, 1, 4) + bytes(60)
    ),
    "multipart header cut short": message(MULTIPART_REPLY, b"\0\1\0\0"),
    "multipart of half a port": multipart(13, bytes(32)),
    "multipart flags beyond MORE": multipart(13, bytes(64), flags=2),
    "multipart of an unknown body": multipart(0x1234, bytes(16)),
    "group description of length 0": group_desc(length=0),
    "group of an unknown type": group_desc(kind=4),
    "bucket of length 0": group_desc(bucket(length=0)),
    "bucket action of length 0": group_desc(bucket(ZERO_ACTION)),
    "group statistics of length 0": multipart(6, bytes(40)),
    "group statistics of 50 bytes": multipart(6, struct.pack("!H48x", 50)),
    "meter statistics of 50 bytes": multipart(9, struct.pack("!IH44x", 1, 50)),
    "meter statistics of length 0": multipart(9, bytes(40)),
    "meter configuration of length 0": multipart(10, bytes(8)),
    "meter band of length 0": multipart(10, struct.pack("!HHI", 24, 0, 1) + struct.pack("!HH12x", 1, 0)),
    "table features of length 0": multipart(12, b"\0\0" + TABLE_FEATURES[2:]),
    "table feature property of length 0": multipart(12, b"\0\x48" + TABLE_FEATURES[2:] + struct.pack("!HH4x", 0, 0)),
    "queue configuration, queue of length 0": message(23, struct.pack("!I4xIIH6x", 1, 1, 1, 0)),
    "packet queue property of length 0": message(23, struct.pack("!I4xIIH6xHH4x", 1, 1, 1, 24, 1, 0)),
    "bundle control property of length 0": message(4, struct.pack("!IIIHHHH4x", ONF, 2300, 1, 1, 0, 0, 0)),
    "experimenter multipart": multipart(0xFFFF, bytes(16)),
    "error cut short": message(1, b"\0\1"),
    "experimenter error cut short": message(1, b"\xff\xff\0\0"),
    "features reply of 24 bytes": message(6, bytes(16)),
    "message of length 0": struct.pack("!BBHI", 4, 3, 0, 0),
    "message of length 7": struct.pack("!BBHI", 4, 3, 7, 0),
    "version 1": message(3, version=1),
    "version 6": message(21, version=6),
    "unknown type": message(77, bytes(8)),
    "a request that only controllers make": message(5),
    "barrier reply of 65535 bytes": struct.pack("!BBHI", 4, 21, 65535, 0),
    "echo of 4096 bytes": message(3, bytes(4088)),
    "hello of 40000 bytes": message(HELLO, bytes(39992)),
}
