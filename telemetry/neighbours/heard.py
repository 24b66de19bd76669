"""What one port hears of its neighbours, as agents report it and a collector keeps it (LLDP, IEEE 802.1AB).

    HeardAtPort      interface, neighbours                     (heddle/v1/heddle.proto)
    HeardNeighbour   system name, chassis id, id and description of the port

Names are those of the daemons; `controller.cabling.sources.names` matches them with a fabric.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from heddle.telemetry.neighbours.advertised import Advertised
from heddle.v1 import heddle_pb2

MAX_SENDERS = 4
"""Of more neighbours at one port the newest are reported: a cable has one."""


class Sender(NamedTuple):
    """How the device at the other end of a cable names itself, and the port that it sent from."""

    system: str = ""
    chassis: str = ""
    ports: tuple[str, ...] = ()


class Heard(NamedTuple):
    """The port's own name, and who is heard there, the newest first."""

    interface: str
    senders: tuple[Sender, ...] = ()


def heard_at(interface: str, frames: Iterable[Advertised]) -> Heard:
    """Return what a port hears, by the frames that its daemon has; frames without a sensible name are left out."""
    named = sorted(
        (frame for frame in frames if frame.has_names),
        key=lambda frame: math.inf if frame.age_s is None else frame.age_s,
    )
    return Heard(interface, tuple(Sender(each.system, each.chassis, each.ports) for each in named[:MAX_SENDERS]))


def add_heard(message: heddle_pb2.HeardAtPort, heard: Heard) -> None:
    """Write what a port hears into a message, which may have no field to write."""
    message.SetInParent()
    message.interface = heard.interface
    for sender in heard.senders:
        message.neighbours.add(**sender._asdict())


def heard_of(data: bytes) -> Heard | None:
    """Read a HeardAtPort; None where the bytes are none."""
    message: Any = heddle_pb2.HeardAtPort()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    senders = (Sender(each.system, each.chassis, tuple(each.ports)) for each in message.neighbours)
    return Heard(message.interface, tuple(senders))
