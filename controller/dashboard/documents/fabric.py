"""The fabric as built: switches in tiers, NICs, directed links."""

from collections.abc import Iterator
from zlib import crc32

import numpy as np

from heddle.controller.dashboard.documents.shapes.fabric import AsFound, End, Link, Nic, Switch
from heddle.controller.dashboard.documents.text import document_text
from heddle.controller.model import fabric as model
from heddle.controller.model.found_cabling import as_found
from heddle.controller.planner.ground.clos import topology_of

MAX_NAMED = 3


def fabric_text(fabric: model.Fabric, followed_ms: int = 0) -> str:
    """Return the document of a fabric as JSON (`Fabric`); equal fabrics have the same `generation`.

    Cables as they were found are in force since `followed_ms` of Unix time; 0 where that is not known.
    """
    document = {
        "fabric": fabric.name,
        "tiers": len(tiers_of(fabric)),
        "switches": _switches(fabric),
        "nics": _nics(fabric),
        "links": _links(fabric),
        "as_found": _as_found(fabric, followed_ms),
    }
    text = document_text(document)
    return f'{text[:-1]},"generation":{crc32(text.encode())}}}'


def tiers_of(fabric: model.Fabric) -> tuple[int, ...]:
    """Return the tiers that the fabric has, from below; the page numbers them from 0."""
    return tuple(sorted({switch.role.tier for switch in fabric.switches}))


def end_of(name: str) -> End:
    """Return the end of a link under its name: `switch:number`, or the id of a NIC."""
    switch, _, number = name.rpartition(":")
    return {"node": switch, "port": int(number)} if switch else {"node": name, "port": None}


def _switches(fabric: model.Fabric) -> Iterator[Switch]:
    pods, tiers = _pods(fabric), tiers_of(fabric)
    for switch in fabric.switches:
        tier = tiers.index(switch.role.tier)
        yield {"id": switch.id, "tier": tier, "role": switch.role.value, "pod": pods.get(switch.id)}


def _pods(fabric: model.Fabric) -> dict[str, int]:
    """Number the pods of a fabric with a middle tier; there are none in others."""
    if not any(switch.role is model.Role.AGG for switch in fabric.switches):
        return {}
    topology = topology_of(fabric)
    _, numbers = np.unique(topology.pod, return_inverse=True)
    first = int(topology.pod.min() < 0)  # the top tier, which is in no pod
    pods = zip(topology.switch_ids, topology.pod.tolist(), (numbers - first).tolist(), strict=True)
    return {switch: number for switch, pod, number in pods if pod >= 0}


def _nics(fabric: model.Fabric) -> Iterator[Nic]:
    for nic in fabric.nics:
        yield {
            "id": nic.id, "host": nic.host, "switch": nic.port.switch, "port": nic.port.number,
            "rate_bps": nic.capacity_bps,
        }  # fmt: skip


def _as_found(fabric: model.Fabric, followed_ms: int) -> AsFound | None:
    names = sorted(as_found(fabric))
    if not names:
        return None
    return {"count": len(names), "first": names[:MAX_NAMED], "since_ms": followed_ms or None}


def _links(fabric: model.Fabric) -> Iterator[Link]:
    cables = 2 * len(fabric.cables)
    for number, link in enumerate(fabric.directed_links):
        yield {
            "id": link.id, "from": end_of(link.src), "to": end_of(link.dst), "capacity_bps": link.capacity_bps,
            "kind": "cable" if number < cables else "nic",
        }  # fmt: skip
