"""Import a foreign topology file: read it within limits, detect its format, fill a draft, build the fabric."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from heddle.controller.config.fabric_file import GenerateShape
from heddle.controller.config.foreign.build import Names, build
from heddle.controller.config.foreign.draft import Draft, Imported, Options, refuse
from heddle.controller.config.foreign.formats import batfish, containerlab, hedgehog, hpcc, htsim, lingjun, simai
from heddle.controller.config.foreign.uncabled import binary_known_as, known_as
from heddle.controller.config.generate import generate
from heddle.controller.config.text.complaint import one_line, shown
from heddle.controller.config.text.document import parse_document
from heddle.controller.model.connectivity import leaves_are_joined
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.foundation.regular_file import read_regular

MAX_BYTES = 256 << 20
Reader = Callable[[str, Draft, Options], GenerateShape | None]


_NAME_ROLES = {"lingjun", "htsim"}
_FABRIC_FILE = re.compile(
    r"""^["']?(?:generate|switches)["']?\s*:|\A\s*\{[\s\S]*"(?:generate|switches)"\s*:""", re.MULTILINE
)


class Format(NamedTuple):
    """How a format is detected and read."""

    looks_like: Callable[[str], bool]
    read: Reader
    what: str


FORMATS: dict[str, Format] = {
    "lingjun": Format(lingjun.looks_like, lingjun.read, "topo.csv of the Alibaba Lingjun dataset"),
    "simai": Format(simai.looks_like, simai.read, "topology files of SimAI"),
    "hpcc": Format(hpcc.looks_like, hpcc.read, "topology files of the HPCC simulator (ns-3)"),
    "htsim": Format(htsim.looks_like, htsim.read, "*.topo of htsim"),
    "batfish": Format(batfish.looks_like, batfish.read, "layer1_topology.json of Batfish"),
    "hedgehog": Format(hedgehog.looks_like, hedgehog.read, "wiring diagrams of Hedgehog"),
    "containerlab": Format(containerlab.looks_like, containerlab.read, "*.clab.yml of containerlab"),
}


def import_fabric(path: Path | str, options: Options, format_name: str | None = None) -> Imported:
    """Read a foreign file; raises InputError with one line that names the place."""
    source = one_line(str(path))
    return import_text(_text_of(path, source), source, Path(path).stem, options, format_name)


def import_text(text: str, source: str, fabric_name: str, options: Options, format_name: str | None = None) -> Imported:
    """Read a foreign file's text; problems are reported under `source`."""
    name = format_name or _detected(text, source)
    if options.roles and name in _NAME_ROLES:
        refuse(source, "", f"--role is for files that leave roles open; {name} names the tier of each switch")
    if name != "lingjun" and (options.aggs_per_pod, options.cores) != (1, None):
        refuse(source, "", f"--aggs-per-pod and --cores are for lingjun; this is {name}, which names its switches")
    draft = Draft(source=source, fabric_name=fabric_name, pinned=dict(options.roles))
    shape = FORMATS[name].read(text, draft, options)
    unknown = [node for node in options.roles if node not in draft.switches and node not in draft.hosts]
    if unknown:
        refuse(source, "", f"--role {shown(unknown[0])}: the file has no node of this name")
    if shape is None:
        fabric = build(draft)
    else:
        parts = generate(shape)
        fabric_id = Names().give(draft.fabric_name, "fabric")
        fabric = Fabric(
            name=fabric_id, switches=tuple(parts.switches), cables=tuple(parts.cables), nics=tuple(parts.nics)
        )
    if not leaves_are_joined(fabric):
        refuse(source, "", "no spine: hosts are on several leaves and no switch joins any two of them")
    return Imported(name, fabric, tuple(draft.assumed), draft.left_out(), shape)


def _text_of(path: Path | str, source: str) -> str:
    try:
        content = read_regular(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        refuse(source, "", f"cannot be read: {getattr(error, 'strerror', None) or error}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if (known := binary_known_as(content)) is not None:
            refuse(source, "", known)
        line = content.count(b"\n", 0, error.start) + 1
        refuse(source, str(line), "not UTF-8 text; save the file as UTF-8")


def _detected(text: str, source: str) -> str:
    if (known := known_as(text)) is not None:
        refuse(source, "", known)
    for name, one in FORMATS.items():
        if one.looks_like(text):
            return name
    if not text.strip():
        refuse(source, "", "the file is empty")
    if _is_fabric_file(text, source):
        refuse(source, "", "a fabric file already; use it as it is")
    formats = "; ".join(f"{name}: {one.what}" for name, one in FORMATS.items())
    refuse(source, "1", f"not one of the formats that are known ({formats}); --format forces one")


def _is_fabric_file(text: str, source: str) -> bool:
    """Return whether a text has a fabric file's `generate`, or its list of switches with ids and roles."""
    if not _FABRIC_FILE.search(text[:1_000_000]):
        return False
    try:
        value = parse_document(text, source).value
    except InputError:
        return False
    switches = value.get("switches")
    listed = isinstance(switches, list) and all(
        isinstance(one, dict) and {"id", "role"} <= one.keys() for one in switches
    )
    return isinstance(value.get("generate"), dict) or (listed and bool(switches))
