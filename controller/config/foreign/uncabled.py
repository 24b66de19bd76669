"""Recognise files that cannot be imported, so that the refusal names them: what the file is, and what to give instead.

Most have no cabling between switches and hosts. A few have one in a form that is not read.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from heddle.controller.config.text.document import UTF_16

_BEGIN = 200_000
"""How much of a file is searched, in characters."""
_NO_CABLES = "it has no cabling"
_UNREAD = "it is not read"
_CABLES = "give the cabling, for example as containerlab's *.clab.yml or Batfish's layer1_topology.json"


class Foreign(NamedTuple):
    """A kind of file: its name, why it cannot be imported, and the remedy."""

    what: str
    why: str
    remedy: str
    is_one: Callable[[str], object]


def known_as(text: str) -> str | None:
    """Return the line that a file is refused with, None if it is of no known kind."""
    begin = text[:_BEGIN]
    for one in FOREIGN:
        if one.is_one(begin):
            return f"this is {one.what}; {one.why}: {one.remedy}"
    return None


def binary_known_as(content: bytes) -> str | None:
    """Return the line that bytes are refused with that are no text; None if they are of no known kind."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return UTF_16
    if content.startswith((b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")):
        return "a compressed file; unpack it, and import the file within"
    if _is_chakra(content[:_BEGIN]):
        return f"this is a Chakra trace (protobuf); {_NO_CABLES}: {_CABLES}"
    return None


def _is_chakra(begin: bytes) -> bool:
    return any(word in begin for word in (b"comm_type", b"is_cpu_op", b"comm_size", b"num_ops"))


def _all(*patterns: str) -> Callable[[str], object]:
    """Return a test whether each pattern is found at the beginning of some line, or after `{` or `,` in JSON."""
    found = [re.compile(pattern, re.MULTILINE) for pattern in patterns]
    return lambda text: all(pattern.search(text) for pattern in found)


def _starts(pattern: str) -> Callable[[str], object]:
    """Return a test whether the file begins so, after blanks and comments."""
    found = re.compile(r"(?:\s|#.*\n|<\?[^>]*>|<!--[\s\S]*?-->)*+" + pattern, re.IGNORECASE)
    return found.match


def _begins(pattern: str) -> Callable[[str], object]:
    """Return a test whether the file begins so, after blanks and comments of C."""
    found = re.compile(r"(?:\s|//.*\n|/\*[\s\S]*?\*/|#.*\n|<\?[^>]*>|<!--[\s\S]*?-->)*+" + pattern, re.IGNORECASE)
    return found.match


def _key(name: str) -> str:
    """Return the pattern of a top-level key of YAML."""
    return rf"""^["']?{name}["']?[ \t]*:"""


_has_blocks = _all(_key("switches"), _key("(?:blocks|capacity_blocks)"))
_has_named_switches = _all(rf"{_key('switches')}[ \t]*\n[ \t]+[^-\s#]", _key("nodes"))


def _is_topograph(text: str) -> object:
    return _has_blocks(text) or _has_named_switches(text)


_has_fabric = _all(_key(r"fabric(?:\.[a-z]+)?"), r"^[ \t]*(?:fabric\.)?(?:spines|leafs)\b")
_is_netlab = _all(_key("(?:nodes|groups)"), _key(r"(?:provider|module|plugin|validate|addressing|defaults[a-z._]*)"))
_has_topology = _all(_key("(?:topology|switches|generate)"))
_is_deployed = _all(r'"type"\s*:\s*"clab"', r'"nodes"\s*:', r'"links"\s*:')
_is_other_lab = _all(r"""^[ \t]*(?:<lab\s|"appliance"|"project_id"|lab:\s*$|["']?smart_annotations["']?\s*:)""")

FOREIGN = (
    Foreign(
        "a Go template",
        "its nodes and links are not written out",
        "render it with its variables first, for example by gomplate, and import the result",
        _all(r"^[ \t]*\{\{-?\s*(?:range|if|end|with|define|template|block|\$)"),
    ),
    Foreign(
        "a Jinja template",
        "its nodes and links are not written out",
        "render it with its variables first and import the result",
        _all(r"^[ \t]*\{%[-+]?\s*(?:for|if|set|macro|include|import|extends|endfor|endif)\b"),
    ),
    Foreign(
        "Slurm's topology.conf",
        _NO_CABLES,
        _CABLES,
        _all(r"^[ \t]*(?i:SwitchName|BlockName)=\S+.*\b(?i:Switches|Nodes)="),
    ),
    Foreign(
        "Slurm's topology.yaml",
        _NO_CABLES,
        _CABLES,
        _all(r"^[ \t]*-\s*topology\s*:", r"^[ \t]+(?:tree|block|flat)\s*:"),
    ),
    Foreign("a model of Topograph", _NO_CABLES, _CABLES, _is_topograph),
    Foreign(
        "a topology graph of NetQ, as Topograph reads it",
        _UNREAD,
        _CABLES,
        _all(r'"compounded_(?:links|nodes)"'),
    ),
    Foreign(
        "a topology or graph of NCCL (XML)",
        "it describes the inside of one host and has no cabling",
        _CABLES,
        _starts(r"<(?:system|graphs)\b"),
    ),
    Foreign("a Chakra trace", _NO_CABLES, _CABLES, _all(r'"schema"\s*:\s*"[^"]*chakra')),
    Foreign(
        "an export of NetBox",
        "it is not read, and lists of devices have no cabling",
        _CABLES,
        _all(r'"model"\s*:\s*"(?:contenttypes|dcim|ipam|extras)\.|"url"\s*:\s*"[^"]*/api/dcim/'),
    ),
    Foreign(
        "an export of NetBox (CSV)",
        "it is not read, and lists of devices have no cabling",
        _CABLES,
        _starts(r"[^\n]*\b(?:side_a_device|side_a_name|device_role|role,manufacturer)\b"),
    ),
    Foreign(
        "the topology table of Arista AVD", _UNREAD, _CABLES, _starts(r"(?:Node )?Type,\s*Node,\s*Node Interface,")
    ),
    Foreign(
        "a structured configuration of Arista AVD",
        "it is that of one switch",
        _CABLES,
        _all(_key("(?:hostname|is_deployed)"), _key("ethernet_interfaces")),
    ),
    Foreign("an inventory of Ansible", _NO_CABLES, _CABLES, _all(_key("all"), r"^[ \t]+(?:children|hosts)\s*:")),
    Foreign(
        "variables of Arista AVD",
        _NO_CABLES,
        _CABLES,
        _all(_key("(?:l3leaf|l2leaf|spine|super_spine)"), r"^[ \t]+(?:node_groups|nodes|defaults)\s*:"),
    ),
    Foreign(
        "a network of ASTRA-sim's analytical backend",
        "it has the shape of each dimension and no cabling",
        _CABLES,
        _all(
            r"""^(?:\{)?[ \t]*["']?(?:topology|logical-dims)["']?[ \t]*:[ \t]*(?:\[|$)""",
            r"""["']?(?:npus_count|logical-dims)["']?[ \t]*:""",
        ),
    ),
    Foreign("a lab of GNS3, EVE-NG or Cisco Modeling Labs", _UNREAD, _CABLES, _is_other_lab),
    Foreign(
        "a topology of netlab",
        _UNREAD,
        "`netlab create` with the provider clab writes a clab.yml; import that",
        lambda text: _has_fabric(text) or (_is_netlab(text) and not _has_topology(text)),
    ),
    Foreign(
        "a script of a shell",
        "a program is not read",
        "give the file that it writes, such as what is between <<EOF and EOF",
        _all(r"\A#![^\n]*sh\s*$"),
    ),
    Foreign("a script of Mininet", "a program is not read", _CABLES, _all(r"^[ \t]*(?:from|import)\s+mininet\b")),
    Foreign("a testbed of sonic-mgmt", _UNREAD, _CABLES, _all(_key("topology"), r"^[ \t]+(?:VMs|host_interfaces)\s*:")),
    Foreign(
        "the configuration of one SONiC switch",
        "it names only that switch's ports",
        f"`heddle verify roce` checks it; to import, {_CABLES}",
        _all(r'"(?:DEVICE_METADATA|DEVICE_NEIGHBOR|PORT_QOS_MAP)"\s*:|"PORT"\s*:\s*\{\s*"Ethernet[0-9]+"'),
    ),
    Foreign("a minigraph of SONiC", _UNREAD, _CABLES, _starts(r"<(?:\w+:)?DeviceMiniGraph\b")),
    Foreign(
        "a scan of an InfiniBand subnet",
        "Heddle plans RoCE fabrics",
        _CABLES,
        _all(r'^(?:vendid=|Switch\s+[0-9]+\s+"[SH]-|(?:CA|Switch): [^\n]*:$|START_NODES$)'),
    ),
    Foreign(
        "a connection matrix of htsim",
        "it has flows and no cabling",
        "import the *.topo file beside it",
        _starts(r"Nodes\s+[0-9]+\s*\n\s*Connections\s+[0-9]+"),
    ),
    Foreign(
        "a graph of Graphviz or GraphML",
        _UNREAD,
        _CABLES,
        _begins(r"(?:(?:strict\s+)?(?:di)?graph\b[^{]{0,200}\{|<(?:graphml|gexf)\b|graph\s*\[|Creator\s+\"[^\n]*\n)"),
    ),
    Foreign(
        "what LLDP heard, or a list of neighbours",
        "it may lack cables, and hosts that send no LLDP",
        "`heddle check cabling` compares it with a fabric file; to import, " + _CABLES,
        _all(
            r"""\A\s*\{\s*"lldp"\s*:|"lldpNeighbors"\s*:|^LLDP neighbors:|^lldp\.[^.\s]+\.via=|"LLDP_ENTRY_TABLE:"""
            r"""|^LocalPort\s+RemoteDevice\b|^Device ID\s+Local Intrfce\b"""
        ),
    ),
    Foreign(
        "what containerlab wrote of a lab that runs (topology-data.json)",
        _UNREAD,
        "import the *.clab.yml that the lab was deployed from",
        lambda text: _is_deployed(text) and not _has_topology(text),
    ),
    Foreign(
        "a list of links of sonic-mgmt",
        _UNREAD,
        _CABLES,
        _starts(r"StartDevice,\s*StartPort,\s*EndDevice"),
    ),
)
