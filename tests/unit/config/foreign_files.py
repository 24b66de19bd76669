"""Small files of the formats that can be imported, and the results of importing them."""

import json
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
HPCC = """\
10 6 12
4 5 6 7 8 9
0 4 25Gbps 1000ns 0.000000
1 4 25Gbps 1000ns 0.000000
2 5 25Gbps 1000ns 0.000000
6 4 100Gbps 1000ns 0.000000
7 4 100Gbps 1000ns 0.000000
5 6 100Gbps 1000ns 0.000000
5 7 100Gbps 1000ns 0.000000
3 8 50Gbps 1000ns 0.000000
3 5 25Gbps 1000ns 0.000000
8 6 40Gbps 1000ns 0.000000
8 7 40Gbps 1000ns 0.000000
9 7 40Gbps 1000ns 0.000000
"""
BATFISH = """\
{"edges": [
  {"node1": {"hostname": "tor-a", "interfaceName": "swp31"}, "node2": {"hostname": "up-a", "interfaceName": "swp4"}},
  {"node1": {"hostname": "up-a", "interfaceName": "swp4"}, "node2": {"hostname": "tor-a", "interfaceName": "swp31"}},
  {"node1": {"hostname": "TOR-B", "interfaceName": "swp31"}, "node2": {"hostname": "up-a", "interfaceName": "swp7"}},
  {"node1": {"hostname": "node-1", "interfaceName": "ens3"}, "node2": {"hostname": "tor-a", "interfaceName": "swp2"}},
  {"node1": {"hostname": "tor-b", "interfaceName": "swp9"}, "node2": {"hostname": "node-2", "interfaceName": "ens3"}}
]}
"""
HEDGEHOG = """\
apiVersion: wiring.githedgehog.com/v1beta1
kind: VLANNamespace
metadata: {name: default}
spec: {ranges: [{from: 1000, to: 2000}]}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Switch
metadata: {name: l-1}
spec: {role: server-leaf}
--- # the second leaf
apiVersion: wiring.githedgehog.com/v1beta1
kind: Switch
metadata: {name: l-2}
spec: {role: server-leaf}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Switch
metadata: {name: s-1}
spec: {role: spine}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Server
metadata: {name: box-1}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Server
metadata: {name: box-2}
spec: {description: two ports}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Connection
metadata: {name: s-1--fabric--l-1}
spec:
  fabric:
    links:
      - {leaf: {port: l-1/E1/30}, spine: {port: s-1/E1/11}}
      - {leaf: {port: l-1/E1/31}, spine: {port: s-1/E1/12}}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Connection
metadata: {name: s-1--fabric--l-2}
spec: {fabric: {links: [{leaf: {port: l-2/E1/30}, spine: {port: s-1/E1/21}}]}}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Connection
metadata: {name: box-1--unbundled--l-1}
spec: {unbundled: {link: {server: {port: box-1/enp2s1}, switch: {port: l-1/E1/5}}}}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Connection
metadata: {name: box-2--mclag--l-1--l-2}
spec:
  mclag:
    links:
      - {server: {port: box-2/enp2s1}, switch: {port: l-1/E1/6}}
      - {server: {port: box-2/enp2s2}, switch: {port: l-2/E1/6}}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Connection
metadata: {name: l-1--mclag-domain--l-2}
spec:
  mclagDomain:
    peerLinks: [{switch1: {port: l-1/E1/1}, switch2: {port: l-2/E1/1}}]
    sessionLinks: [{switch1: {port: l-1/E1/2}, switch2: {port: l-2/E1/2}}]
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Connection
metadata: {name: l-1--vpc-loopback}
spec: {vpcLoopback: {links: [{switch1: {port: l-1/E1/8}, switch2: {port: l-1/E1/9}}]}}
---
apiVersion: wiring.githedgehog.com/v1beta1
kind: Connection
metadata: {name: l-2--external}
spec: {external: {link: {switch: {port: l-2/E1/10}}}}
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


def lab(kinds: dict[str, str], links: str, **nodes: dict[str, object]) -> str:
    """Return a containerlab topology: nodes by kind, links as `a:eth1-b:eth2` words; `nodes` add to single nodes."""
    named = {node: {"kind": kind} | nodes.get(node, {}) for kind, names in kinds.items() for node in names.split()}
    return json.dumps(
        {"name": "lab", "topology": {"nodes": named, "links": [{"endpoints": one.split("-")} for one in links.split()]}}
    )


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
