"""Files that cannot be imported are named: what they are, and what to give instead."""

import pytest

from heddle.controller.config.foreign import Options, import_fabric
from heddle.controller.config.foreign.uncabled import known_as
from heddle.controller.model.error import InputError
from tests.unit.config.foreign_files import BATFISH, HEDGEHOG, HPCC, HTSIM, LAB, LINGJUN, RAILS, refused

FILES = {
    "a Go template": "name: t\ntopology:\n  nodes:\n{{- range $i := until 3 }}\n    n{{ $i }}: {}\n{{- end }}\n",
    "a Jinja template": "topology:\n  nodes:\n{% for n in nodes %}\n    {{ n }}: {}\n{% endfor %}\n",
    "Slurm's topology.conf": "# tree\nSwitchName=leaf1 Nodes=n[1-4]\nSwitchName=top Switches=leaf[1-2]\n",
    "Slurm's topology.yaml": "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      - switch: sw\n",
    "a model of Topograph": "# a tree\nswitches:\n  top:\n    switches: [a, b]\nblocks:\n- switch: a\n  nodes: [n1]\n",
    "a topology graph of NetQ": '[{"links": [{"compounded_links": [{"id": "a-*-b"}]}]}]',
    "a topology or graph of NCCL (XML)": '<?xml version="1.0"?>\n<system version="1">\n<cpu numaid="0"/></system>\n',
    "a Chakra trace": '{"schema": "1.0.1-chakra.0.0.4", "pid": 1, "nodes": []}',
    "an export of NetBox": '[{"model": "dcim.site", "pk": 1, "fields": {}}]',
    "an export of NetBox (CSV)": "label,side_a_device,side_a_type,side_a_name,side_b_device\n,x,dcim.interface,e1,y\n",
    "the topology table of Arista AVD": "Node Type,Node,Node Interface,Peer Type,Peer Node\nl3leaf,a,E1,s,b\n",
    "variables of Arista AVD": "fabric_name: F\nl3leaf:\n  defaults: {platform: x}\n  node_groups:\n    - group: A\n",
    "a network of ASTRA-sim's analytical backend": "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\n",
    "a topology of netlab": "provider: clab\nmodule: [ospf]\nnodes: [a, b]\nlinks: [a-b]\n",
    "a script of Mininet": "from mininet.topo import Topo\n\nclass T(Topo):\n    pass\n",
    "a testbed of sonic-mgmt": "topology:\n  host_interfaces:\n    - 0\n  VMs:\n    ARISTA01T1:\n      vlans: [28]\n",
    "the configuration of one SONiC switch": '{"DEVICE_METADATA": {"localhost": {"hwsku": "x"}}, "PORT": {}}',
    "a scan of an InfiniBand subnet": 'vendid=0x2c9\ndevid=0xd2f0\nSwitch 65 "S-b83fd2" # "x"\n',
    "a connection matrix of htsim": "Nodes 16\nConnections 2\n0->1 start 0 size 100\n1->0 start 0 size 100\n",
    "a lab of GNS3, EVE-NG": "lab:\n  title: x\n  version: 0.1.0\nnodes: []\nlinks: []\n",
    "a graph of Graphviz or GraphML": 'graph "dc" {\n  "leaf1":"swp1" -- "spine1":"swp1"\n}\n',
    "a script of a shell": "#!/bin/bash\nset -v\ncat <<EOF | clab deploy -t -\nname: x\ntopology:\n  nodes: {}\nEOF\n",
    "what LLDP heard": '{"lldp": {"interface": [{"swp1": {"via": "LLDP"}}]}}',
    "what containerlab wrote of a lab that runs": '{"name": "x", "type": "clab", "nodes": {}, "links": []}',
    "a list of links of sonic-mgmt": "StartDevice,StartPort,EndDevice,EndPort\na,Ethernet1,b,Ethernet2\n",
}


OTHER_FORMS = [
    ("a graph of Graphviz", "/* PTM */\n// links\ndigraph G\n{\n  a -> b\n}\n"),
    ("a graph of Graphviz", "Strict Graph {\n  a -- b\n}\n"),
    ("a graph of Graphviz", "graph [\n  node [ id 0 ]\n]\n"),
    ("what LLDP heard", "-----\nLLDP neighbors:\n-----\nInterface: eth0, via: LLDP\n"),
    ("what LLDP heard", "lldp.swp1.via=LLDP\nlldp.swp1.rid=1\n"),
    ("what LLDP heard", '{"lldpNeighbors": [{"port": "Ethernet1", "neighborDevice": "s"}]}'),
    ("what LLDP heard", "LocalPort    RemoteDevice    RemotePortID\n---\nEthernet0    spine1    Ethernet4\n"),
    ("a scan of an InfiniBand subnet", "# t\nCA: node1 mlx5_0:\n   0x00 1 1[  ] ==( 4X 53 Gbps )==> 3 1[  ] x\n"),
    ("a minigraph of SONiC", '<?xml version="1.0"?>\n<ns0:DeviceMiniGraph xmlns:ns0="M"></ns0:DeviceMiniGraph>\n'),
    ("the configuration of one SONiC switch", '{"PORT": {"Ethernet0": {"lanes": "1,2"}}}'),
    ("a topology of netlab", "plugin: [ fabric ]\nfabric:\n  spines: 2\n  leafs: 4\n"),
    ("a topology of netlab", "defaults.device: frr\nfabric.spines: 2\nfabric.leafs: 4\n"),
    ("a model of Topograph", "switches:\n- name: top\n  switches: [a]\ncapacity_blocks:\n- name: cb\n  nodes: [n1]\n"),
    ("Slurm's topology.conf", "# r=nvl\nBlockName=r Nodes=n[1-8]\nBlockSizes=8\n"),
    ("a network of ASTRA-sim's", '{\n  "topology": [\n    "Ring"\n  ],\n  "npus_count": [\n    8\n  ]\n}\n'),
    ("a network of ASTRA-sim's", '{\n    "logical-dims": ["4", "2"]\n}\n'),
    ("a structured configuration of Arista AVD", "hostname: l1\nethernet_interfaces:\n- name: Ethernet1\n  peer: s1\n"),
    ("an inventory of Ansible", "all:\n  children:\n    leaves:\n      hosts:\n        l1:\n"),
    (
        "the topology table of Arista AVD",
        "Type,Node,Node Interface,Leaf IP Address,Peer Type,Peer Node\nl3leaf,a,E1,,spine,s\n",
    ),
]


@pytest.mark.parametrize(("what", "text"), OTHER_FORMS)
def test_other_forms_of_such_files_are_named_too(what, text):
    assert refused(text).startswith(f"source: this is {what}")


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_cannot_be_imported_is_named(what):
    assert refused(FILES[what]).startswith(f"source: this is {what}")


@pytest.mark.parametrize(
    "what", ["Slurm's topology.conf", "a model of Topograph", "a Chakra trace", "a network of ASTRA-sim's analytical"]
)
def test_the_refusal_of_a_file_without_cabling_names_what_to_give_instead(what):
    line = refused(next(text for name, text in FILES.items() if name.startswith(what)))
    assert "no cabling" in line
    assert "give the cabling, for example as containerlab's *.clab.yml" in line


def test_a_binary_trace_is_named(tmp_path):
    path = tmp_path / "ring.0.et"
    path.write_bytes(b"\x07\n\x050.0.4\x10\x00\x12\x03\xff\xfe\x0e\n\tis_cpu_opX\x01")
    with pytest.raises(InputError, match=r"this is a Chakra trace \(protobuf\); it has no cabling"):
        import_fabric(path, Options())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("name: lab\n".encode("utf-16"), "UTF-16 text, as > of PowerShell writes it; save the file as UTF-8"),
        (b"\x1f\x8b\x08\x00\xff", "a compressed file; unpack it, and import the file within"),
        (b"# Stra\xdfe\n", "not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_bytes_that_are_no_text_are_named_with_the_remedy(tmp_path, content, why):
    path = tmp_path / "lab.clab.yml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=why):
        import_fabric(path, Options())


def test_links_beside_the_topology_are_named():
    text = LAB.replace("  links:\n", "links:\n").replace("    - ", "  - ").replace("      endpoint", "    endpoint")
    assert (
        refused(text) == "source: links: links belong under topology, as topology.links; containerlab reads no others"
    )


def test_nodes_and_links_of_an_unknown_program_are_not_given_a_name():
    assert "not one of the formats that are known" in refused("nodes: [a, b]\nlinks: [{source: a, target: b}]\n")


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2}\n",
        "switches:\n  - {id: a, role: leaf}\n",
        '{"version": 1, "name": "x", "switches": [{"id": "a", "role": "leaf"}]}',
    ],
)
def test_a_fabric_file_is_recognised(text):
    assert refused(text) == "source: a fabric file already; use it as it is"


@pytest.mark.parametrize(
    "text", ["switches: [a, b]\n", "switches: {a: {}}\n", "switches:\n  - name: s1\n", "generate: yes\n"]
)
def test_other_files_with_switches_are_no_fabric_files(text):
    assert "a fabric file already" not in refused(text)


def test_files_that_can_be_imported_are_not_taken_for_others():
    with_exec = LAB.replace("    leaf1: {}", "    leaf1: {exec: [\"docker ps --format '{{.Names}}'\"]}")
    for text in (LAB, with_exec, HTSIM, HPCC, RAILS, LINGJUN, BATFISH, HEDGEHOG):
        assert known_as(text) is None
