"""Small files of the formats that can be imported, and the results of importing them."""

from pathlib import Path

import pytest

from heddle.controller.config import parse_fabric
from heddle.controller.config.foreign import Imported, Options
from heddle.controller.config.foreign.read import import_text
from heddle.controller.config.write import fabric_text
from heddle.controller.model.error import InputError

TOPOLOGIES = Path(__file__).parents[2] / "data" / "topologies"

LINGJUN = "ip,DSW,PSW,ASW\nhost-a,G1,P1,S1\nhost-b,G1,P1,S2\nhost-c,G1,P2,S1\nhost-d,G1,P2,S10\n"
RAILS = """\
11 2 2 5 14 H100
4 5 6 7 8 9 10
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 7 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 7 400Gbps 0.0005ms 0
6 8 200Gbps 0.0005ms 0
6 9 200Gbps 0.0005ms 0
7 8 200Gbps 0.0005ms 0
7 9 200Gbps 0.0005ms 0
6 10 1Tbps 0.0005ms 0
7 10 1Tbps 0.0005ms 0
"""
HTSIM = """\
# a comment
Nodes 16
Tiers 2
Podsize 16

Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 4
Downlink_Latency_ns 1000

Tier 1
Downlink_speed_Gbps 200
Radix_Down 8
Bundle 2
"""
LAB = """\
name: lab
topology:
  defaults: {kind: nokia_srlinux}
  kinds: {linux: {image: multitool}}
  nodes:
    leaf1: {}
    leaf2:
    leaf3: {}
    spine1: {type: ixr6}
    spine2: {type: ixr6}
    client1: {kind: linux}
    client2: {kind: linux}
    idle1: {kind: linux}
  links:
    - endpoints: ["leaf1:e1-1", "spine1:e1-1"]
    - endpoints: ["leaf1:e1-2", "spine2:e1-1"]
    - endpoints: ["spine1:e1-2", "leaf2:e1-1"]
    - endpoints: ["leaf2:e1-2", "spine2:e1-2"]
    - endpoints: ["leaf3:e1-1", "spine2:e1-3"]
    - endpoints: ["client1:eth1", "leaf1:e1-3"]
    - endpoints: ["client1:eth2", "leaf2:e1-4"]
    - type: veth
      endpoints: [{node: client2, interface: eth1}, {node: leaf2, interface: e1-3}]
    - endpoints: ["leaf1:e1-9", "leaf2:e1-9"]
    - endpoints: ["leaf1:e1-10", "mgmt-net:leaf1-10"]
    - type: host
      endpoint: {node: leaf2, interface: e1-11}
"""


def imported(text: str, format_name: str | None = None, **options) -> Imported:
    """Import a text, and hold its fabric file to what `heddle check` reads."""
    found = import_text(text, "source", "source", Options(**options), format_name)
    written = "\n".join(fabric_text(found.fabric, found.assumed, found.generate))
    assert parse_fabric(written, "written") == found.fabric
    return found


def refused(text: str, format_name: str | None = None, **options) -> str:
    """Return the one line that a text is refused with."""
    with pytest.raises(InputError) as caught:
        import_text(text, "source", "source", Options(**options), format_name)
    (line,) = caught.value.problems
    assert line.isprintable()
    return line


def roles(found: Imported) -> dict[str, str]:
    return {switch.id: switch.role.value for switch in found.fabric.switches}


def joined(found: Imported) -> set[tuple[str, str]]:
    """Return the pairs of linked switches, the lower first."""
    return {(cable.lower.switch, cable.upper.switch) for cable in found.fabric.cables}


def published(*parts: str) -> Path:
    """Return the path of a published topology."""
    return TOPOLOGIES.joinpath(*parts)
