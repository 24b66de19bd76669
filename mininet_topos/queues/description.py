"""The configuration of the queue daemon: a lab's switch ports, the NICs at their far ends, and the settings."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heddle.foundation.traffic_class import TrafficClass
from heddle.mininet_topos.queues.settings import QueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPort:
    """A switch port; its index in `LabPorts.ports` is its slot. `peer` is the slot at the far end, None for a NIC."""

    name: str
    interface: str
    switch: int
    peer: int | None
    rate_bps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NicEnd:
    """A NIC at the far end of switch port `slot`: its device in the network namespace of process `pid`."""

    pid: int
    device: str
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPorts:
    """All switch ports of a lab, and the NICs at their far ends."""

    ports: tuple[SwitchPort, ...]
    nics: tuple[NicEnd, ...]


def to_wire(ports: LabPorts, settings: QueueSettings) -> dict[str, Any]:
    """Return the configuration as JSON values."""
    return {
        "ports": [dataclasses.asdict(port) for port in ports.ports],
        "nics": [dataclasses.asdict(nic) for nic in ports.nics],
        "settings": dataclasses.asdict(settings),
    }


def from_wire(message: Mapping[str, Any]) -> tuple[LabPorts, QueueSettings]:
    """Parse the JSON values that `to_wire` returns."""
    ports = LabPorts(
        ports=tuple(SwitchPort(**port) for port in message["ports"]),
        nics=tuple(NicEnd(**nic) for nic in message["nics"]),
    )
    classes = tuple(TrafficClass(*each) for each in message["settings"]["classes"])
    return ports, QueueSettings(**{**message["settings"], "classes": classes})
