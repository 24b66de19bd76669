"""Read the rules and groups of a bridge of Open vSwitch over its management socket, as the controller reads them."""

import socket
from pathlib import Path

from heddle.controller.model.rule import SwitchRules
from heddle.controller.southbound.codec import readback, wire

TIMEOUT_S = 10.0
_MORE = 1
_FLAGS_AT = 10


def read_rules(socket_path: Path) -> SwitchRules:
    """Return what the bridge holds; `socket_path` is its `BRIDGE.mgmt`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(str(socket_path))
        stream = connection.makefile("rb")
        connection.sendall(wire.HELLO)
        rules, groups = [], []
        connection.sendall(wire.with_xid(wire.FLOW_REQUEST, 1))
        for part in _replies(stream, 1):
            rules += [entry.rule for entry in readback.each_flow_entry(part)]
        connection.sendall(wire.with_xid(wire.GROUP_DESC_REQUEST, 2))
        for part in _replies(stream, 2):
            groups += readback.groups(part)
    return SwitchRules(rules=tuple(rules), groups=tuple(groups))


def _replies(stream, xid: int):
    """Yield the messages of one multipart reply."""
    while True:
        header = stream.read(wire.HEADER_BYTES)
        _, kind, length, of = wire.HEADER.unpack(header)
        message = header + stream.read(length - wire.HEADER_BYTES)
        if of != xid or kind != wire.MessageType.MULTIPART_REPLY:
            continue
        yield message
        if not message[_FLAGS_AT + 1] & _MORE:
            return
